"""How what workers learn is combined: the protocols here, each strategy in its own folder.

Executors import one strategy's worker side, so that names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy import load_lazily

if TYPE_CHECKING:
    from .allreduce.strategy import AllReduce
    from .ps.strategy import ParameterServer
    from .registry import STRATEGIES, as_strategy, describe
    from .tensorflow.strategy import TensorFlowCluster
    from .treeaggregate.strategy import TreeAggregate

_HOMES = {
    "AllReduce": ".allreduce.strategy",
    "ParameterServer": ".ps.strategy",
    "STRATEGIES": ".registry",
    "TensorFlowCluster": ".tensorflow.strategy",
    "TreeAggregate": ".treeaggregate.strategy",
    "as_strategy": ".registry",
    "describe": ".registry",
}

__all__ = [
    "STRATEGIES",
    "AllReduce",
    "ParameterServer",
    "TensorFlowCluster",
    "TreeAggregate",
    "as_strategy",
    "describe",
]

__getattr__ = load_lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
