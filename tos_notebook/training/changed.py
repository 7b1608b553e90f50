"""What a run that is resumed is to do otherwise: the same commands as while it trains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import permutations
from typing import Any

from ..codecs.pair import as_codecs
from ..combiners import as_combiner
from ..coordination.settings import Settings
from ..errors import ConfigError
from ..steering.sync import as_sync
from ..strategies.base import Strategy
from ..strategies.registry import as_strategy
from .commands import change, repartition, swap_combiner
from .lifecycle import Lifecycle
from .options import AUTO
from .swapping import renew, swap_strategy

_READ: Mapping[str, Callable[[Any], Any]] = {
    "combiner": as_combiner,
    "sync": as_sync,
    "codec": as_codecs,
    "strategy": as_strategy,
}

COMMANDED = ("strategy", "combiner", "sync", "sync_interval", "codec", "partitions", "partitioner")
"""Options that commands change in a resumed run."""

LATER = ("strategy", "partitions", "partitioner")
"""Those that change when an epoch is done."""


def as_commands(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what commands change of the options that are given and in range, as objects."""
    found = {name: given[name] for name in COMMANDED if name in given}
    if found.get("sync_interval") == AUTO:
        # Chosen while it trains.
        del found["sync_interval"]
    return {name: _READ[name](value) if name in _READ else value for name, value in found.items()}


def require_measurable(strategy: Strategy, given: Mapping[str, Any]) -> None:
    """Refuse to measure for a sync interval that another strategy would replace.

    Parameters
    ----------
    strategy : Strategy
        The present one.
    given : mapping of str
        Options of the resumed run, by name.

    Raises
    ------
    ConfigError
        A strategy is given that comes later.
    """
    measured, wish = given.get("sync_interval") == AUTO, given.get("strategy")
    if measured and wish is not None and as_strategy(wish) != strategy:
        raise ConfigError(
            "sync_interval: expected a number with another strategy, which comes when the epoch is "
            f"done; got 'auto' with strategy={wish!r}. Give a number, or leave one of them out."
        )


def other_settings(strategy: Strategy, now: Settings, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the present ones, or raise before anything is made.

    Parameters
    ----------
    strategy : Strategy
        The present one.
    now : Settings
    wanted : mapping of str
        As `as_commands` returned it.

    Raises
    ------
    ConfigError
        They do not go together.
    """
    names = ("combiner", "sync", "sync_interval", "codec")
    found = {name: wanted[name] for name in names if name in wanted}
    if wanted.get("strategy", strategy) != strategy:
        return found
    shown = now.strategy.shown()
    present = {**shown, "sync": now.sync, "sync_interval": now.sync_interval}
    # As they are shown: a user's own combiner cannot be compared.
    others = {n: v for n, v in found.items() if str(v) != str(present.get(n))}
    if "combiner" in others and "combiner" not in shown and shown.get("of") != "parameters":
        raise ConfigError(
            "combiner: expected none, since the run's strategy has none; got "
            f"{others['combiner']!r}. Leave it out, or give another strategy with it."
        )
    apart = {"combiner"} if now.strategy.lockstep else set()
    now.changed(**{name: value for name, value in others.items() if name not in apart})
    return others


def change_resumed(run: Lifecycle, wanted: Mapping[str, Any]) -> None:
    """Let a resumed run do otherwise, before it trains; what is counted stays counted.

    Settings are in force from the first milestone on. Another strategy, and another layout of the
    rows, come when the epoch is done in which the run continues.

    Parameters
    ----------
    run : Lifecycle
        Nothing of it has begun.
    wanted : mapping of str
        As `as_commands` returned it.

    Raises
    ------
    ConfigError, CombinerError, CodecError, InvalidTransition, UnsupportedProgram, CheckpointError
        As `Run.set`, `Run.swap_strategy` and `Run.repartition` raise them.
    """
    now = run.parts.training.settings
    others = other_settings(run.strategy, now, wanted)
    if "strategy" not in wanted:
        # What was asked for before still is.
        renew(run)
    if wanted.get("strategy", run.strategy) != run.strategy:
        swap_strategy(run, wanted["strategy"], others)
    elif others:
        _set(run, now, others)
    if "partitions" in wanted or "partitioner" in wanted:
        partitioner = wanted.get("partitioner")
        count = wanted.get("partitions") or getattr(partitioner, "num_partitions", None)
        repartition(run, count or run.epochs.source.partitions, partitioner)


def _set(run: Lifecycle, now: Settings, others: Mapping[str, Any]) -> None:
    """Change settings without another strategy."""
    if now.strategy.lockstep and "combiner" in others:
        swap_strategy(run, run.strategy, others)
        return
    for changes in in_turn(now, others):
        if "combiner" in changes:
            swap_combiner(run, changes["combiner"])
        else:
            _change(run, changes)


def in_turn(now: Settings, others: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return changes of settings, one after the other, so that those of each moment go together.

    Parameters
    ----------
    now : Settings
    others : mapping of str
        What is to be in force in the end; a combiner changes by itself.
    """
    rest = {name: value for name, value in others.items() if name != "combiner"}
    alone = {name: value for name, value in others.items() if name == "combiner"}
    few = [each for each in (rest, alone) if each]
    single = [{name: value} for name, value in others.items()]
    for order in (*permutations(few), *permutations(single)):
        with suppress(ConfigError):
            settings = now
            for changes in order:
                settings = settings.changed(**changes)
            return order
    return few


def _change(run: Lifecycle, rest: Mapping[str, Any]) -> None:
    change(run, None, rest.get("sync_interval"), rest.get("sync"), rest.get("codec"))
