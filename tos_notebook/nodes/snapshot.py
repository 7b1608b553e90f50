"""A cluster as it stands, in plain values: for views, a panel, and lines of text."""

from __future__ import annotations

from typing import TypedDict

LAST_LINES = 8
"""Lines of a node's output in a snapshot."""


class NodeState(TypedDict):
    """One node."""

    name: str
    """Its job and task, such as ``worker:0``."""
    host: str
    state: str
    """``"waiting"`` before it has begun, or one of those of `roster`."""
    rows: int
    """That its function has taken."""
    gpus: str
    """Those that it may see, as CUDA numbers them; empty for none."""
    lines: list[str]
    """The last of its output, `LAST_LINES` at most."""


class FeedState(TypedDict):
    """How far the feeding is."""

    data: str
    """The data's name in the notebook."""
    epoch: int
    """The epoch that is fed, from 1; 0 before the first."""
    epochs: int
    partitions: int
    """Of all of an epoch's rows."""
    fed: int
    """Partitions of this epoch that were fed."""
    over: bool
    """Whether nothing more is fed."""


class ClusterFailure(TypedDict):
    """What has ended a cluster."""

    message: str
    where: str | None
    """The node; None if none is to blame."""
    frames: list[str]
    """Of the traceback, the user's own first."""


class ClusterState(TypedDict):
    """A cluster of a notebook."""

    id: str
    number: int
    state: str
    """``"starting"``, ``"running"``, ``"stopping"``, ``"finished"``, ``"stopped"`` or
    ``"failed"``."""
    nodes: list[NodeState]
    """In the order of their numbers, those that have not begun, too."""
    feed: FeedState | None
    """None where the nodes read their data themselves."""
    tensorboard: str | None
    """TensorBoard's address, if it was asked for and is there."""
    notes: list[str]
    """Why it has begun again, and what it does without: a sentence each, the last ones."""
    error: ClusterFailure | None
    elapsed: float
    """Seconds from its start to its end, or to now."""


def fed(feed: FeedState) -> str:
    """Return in words how far the feeding is."""
    epoch = f"epoch {feed['epoch']} of {feed['epochs']}"
    return f"{feed['data']}, {epoch}, {feed['fed']} of {feed['partitions']} partitions"
