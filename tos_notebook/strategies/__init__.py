"""How what workers learn is combined: the protocols here, each strategy in a folder of its own.

Executors import one strategy's worker side, so that names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .allreduce.strategy import AllReduce
    from .ps.strategy import ParameterServer
    from .registry import STRATEGIES, as_strategy, describe
    from .treeaggregate.strategy import TreeAggregate

_HOMES = {
    "AllReduce": ".allreduce.strategy",
    "ParameterServer": ".ps.strategy",
    "STRATEGIES": ".registry",
    "TreeAggregate": ".treeaggregate.strategy",
    "as_strategy": ".registry",
    "describe": ".registry",
}

__all__ = [
    "STRATEGIES",
    "AllReduce",
    "ParameterServer",
    "TreeAggregate",
    "as_strategy",
    "describe",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)
