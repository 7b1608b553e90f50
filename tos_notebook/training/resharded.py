"""Continue a run with another number of shards of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from ..persist.described import describe
from ..strategies.ps.strategy import ParameterServer
from ..strategies.registry import STRATEGIES
from .found import Found


def with_shards(found: Found, shards: int | None, wanted: Mapping[str, Any]) -> Found:
    """Return what a run continues from, with so many shards from the beginning.

    Parameters
    ----------
    found : Found
    shards : int or None
        At least 1; None for as many as before, or as the strategy says that is wanted.
    wanted : mapping of str
        As `as_commands` returned it.

    Raises
    ------
    ConfigError
        The run has no shards, or the strategy says another number.
    """
    now, wish = found.chosen.saved.strategy, wanted.get("strategy")
    if shards is not None and wish is not None:
        raise ConfigError(
            f"shards: expected it or strategy, which may say how many; got both. Give strategy="
            f"'ps:shards={shards}' alone."
        )
    if shards is not None:
        return _resharded(found, now, shards)
    if not isinstance(now, ParameterServer) or not isinstance(wish, ParameterServer):
        return found
    others = now.shards and wish.shards and replace(now, shards=wish.shards) == wish
    return _resharded(found, now, wish.shards) if others else found


def _resharded(found: Found, now: Any, shards: int) -> Found:
    if not isinstance(now, ParameterServer) or not now.shards:
        raise ConfigError(
            f"shards: expected none for a run of strategy {now.name!r} without shards, got "
            f"{shards}. Give strategy='ps:shards={shards}', for the next epoch."
        )
    # What a combiner keeps of a stripe is the same, whichever shard has the stripe.
    described = describe(replace(now, shards=shards), STRATEGIES)
    saved, settings = found.chosen.saved, found.chosen.settings
    own = replace(settings.strategy, shards=shards)
    chosen = found.chosen._replace(
        saved=replace(saved, origin=replace(saved.origin, strategy=described)),
        settings=replace(settings, strategy=own),
    )
    return found._replace(chosen=chosen)
