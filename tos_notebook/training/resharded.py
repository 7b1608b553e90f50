"""Continue a run with another number of shards of its parameters."""

from __future__ import annotations

from dataclasses import replace

from ..common.checks import at_least_one
from ..coordination.settings import Settings
from ..errors import ConfigError
from ..persist.described import describe
from ..strategies.ps.strategy import ParameterServer
from ..strategies.registry import STRATEGIES
from .checkpoint.contents import Checkpoint


def with_shards(
    saved: Checkpoint, settings: Settings, shards: int | None
) -> tuple[Checkpoint, Settings]:
    """Return a checkpoint and its settings with so many shards.

    Parameters
    ----------
    saved : Checkpoint
    settings : Settings
    shards : int or None
        None for as many as before.

    Raises
    ------
    ConfigError
        It is no number from 1, or the run has no shards.
    """
    if shards is None:
        return saved, settings
    at_least_one("shards", shards)
    strategy = saved.strategy
    if not isinstance(strategy, ParameterServer) or not strategy.shards:
        raise ConfigError(
            f"shards: expected none for a run of strategy {strategy.name!r} without shards, got "
            f"{shards}. Resume it, then call run.swap_strategy('ps:shards={shards}')."
        )
    # What a combiner keeps of a stripe is the same, whichever shard has the stripe.
    described = describe(replace(strategy, shards=shards), STRATEGIES)
    own = replace(settings.strategy, shards=shards)
    origin = replace(saved.origin, strategy=described)
    return replace(saved, origin=origin), replace(settings, strategy=own)
