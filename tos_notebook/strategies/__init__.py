"""How what workers learn is combined: the protocols here, each strategy in a folder of its own."""

from __future__ import annotations

from .ps.strategy import ParameterServer
from .registry import STRATEGIES, as_strategy, describe

__all__ = ["STRATEGIES", "ParameterServer", "as_strategy", "describe"]
