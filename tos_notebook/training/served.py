"""What trains models with served tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..strategies.base import Strategy
from ..strategies.ps.strategy import ParameterServer

if TYPE_CHECKING:
    from ..program.export.base import Program


def require_shards(program: Program, strategy: Strategy) -> None:
    """Refuse a strategy without shards for a model with served tables.

    Raises
    ------
    ConfigError
    """
    served = program.layout.served
    if served and not (isinstance(strategy, ParameterServer) and strategy.shards):
        raise ConfigError(
            f"strategy: expected 'ps:shards=N' for a model with ServedEmbedding "
            f"{served[0].name!r}, whose rows are in shards; got {strategy.name!r}. Choose, for "
            "example, strategy='ps:shards=2'."
        )
