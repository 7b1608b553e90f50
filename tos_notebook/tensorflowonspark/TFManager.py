"""The queues of a node, as programs for TensorFlowOnSpark start them by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ..nodes.hub import Hub

TFManager = Hub


def start(authkey: bytes, queues: Sequence[str], mode: str = "local") -> Hub:
    """Return new queues of this process.

    Parameters
    ----------
    authkey : bytes
        Not needed: only this process has them. Spark's tasks prove the cluster's secret to a node.
    queues : sequence of str
        Their names.
    mode : str
        Not needed either.
    """
    return Hub(queues)
