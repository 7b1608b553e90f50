"""Get another strategy ready for a run: check it, cut the program, load the optimizer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..codecs.pair import PLAIN
from ..coordination.settings import Settings
from ..errors import ConfigError, InvalidTransition, TosError
from ..events import CommandLapsed
from ..persist.described import rebuild
from ..steering.machine import Command
from ..strategies.allreduce.strategy import AllReduce
from ..strategies.base import Strategy
from ..strategies.ps.strategy import ParameterServer
from ..strategies.registry import STRATEGIES, as_strategy
from .commands import require_obeyed
from .fitting import require_participants, require_samples
from .lifecycle import Lifecycle
from .options import CheckedOptions
from .options.session import interval_now
from .swaps import Method, Swap

_numbers = itertools.count(1)


def swap_strategy(run: Lifecycle, strategy: Any, wanted: Mapping[str, Any]) -> str:
    """Ask for another strategy; return what it will be. See `Run.swap_strategy`.

    Parameters
    ----------
    run : Lifecycle
    strategy : str or Strategy
    wanted : mapping
        Options of a session by name; None for those that the caller does not choose.
    """
    parts, swaps = run.parts, run.epochs.swaps
    require_obeyed(run, Command.SWAP_STRATEGY)
    # One after the other, so that of two callers' swaps the later one counts.
    with run.swapping:
        parts.training.machine.require(Command.SWAP_STRATEGY)
        now = parts.training.settings
        chosen = _chosen(run, now, as_strategy(strategy), wanted)
        changes = _changes(chosen)
        settings = now.changed(**changes)
        detail = _detail(chosen.strategy, settings) + _left_out(now, settings, wanted)
        if "graph" in chosen.strategy.needs:
            raise ConfigError(
                f"strategy: expected one that a run can swap to; got {chosen.strategy.name!r}, "
                "whose servers have the variables from the start. Start another run with it."
            )
        # Settings are told apart as they are shown: a user's own combiner cannot be compared.
        if chosen.strategy == run.strategy and repr(settings) == repr(now):
            if swaps.asked is None:
                raise _unchanged(run, detail)
            swaps.take_back(detail)
            return detail
        _require_slots(run, chosen.strategy)
        run.epochs.require_room(settings)
        run.epochs.require_next()
        data = run.epochs.source, parts.plan.options
        require_samples(chosen.strategy.sampling, *data)
        require_participants(chosen.strategy, *data)
        if parts.checkpointer is not None:
            settings.strategy.require_saveable()
        swaps.ask(
            _swap(run, _method(run, chosen.strategy), changes, detail), run.epochs.require_next
        )
        return detail


def _require_slots(run: Lifecycle, strategy: Strategy) -> None:
    """Refuse a strategy whose tasks beside the workers would wait for them."""
    asked, slots = run.epochs.asked, run.parts.plan.slots + run.parts.strategy.tasks
    partitions = run.epochs.source.partitions if asked is None else asked[0]
    if strategy.tasks and min(partitions, slots) + strategy.tasks > slots:
        raise ConfigError(
            f"strategy: expected {strategy.tasks} free slots for shards in addition to "
            f"{partitions} workers; Spark runs {slots} tasks at once. Take fewer shards, "
            "or repartition first, into fewer partitions."
        )


def _swap(run: Lifecycle, method: Method, changes: Mapping[str, Any], detail: str) -> Swap:
    """Return a swap that checkpoints know of."""
    swap, checkpointer = Swap(method, changes, detail), run.parts.checkpointer
    if checkpointer is None:
        return swap
    checkpointer.keep_program(method.archive)
    named = partial(checkpointer.swapped, method.strategy, method.archive)
    return replace(swap, before=named)


def detour(run: Lifecycle) -> Swap:
    """Return the swap to all-reduce through the driver; see `Swaps.detour`."""
    now, present = run.strategy, run.epochs.swaps.now
    assert isinstance(now, AllReduce)
    task = run.parts.task if present is None else present.method.task
    method = _method(run, now.detour())
    # By the same plan, their processes keep the optimizers that they have.
    method = replace(method, task=replace(method.task, plan=task.plan))
    # All other settings stay, also those that change before the swap is made.
    return _swap(run, method, {"algorithm": "star"}, "allreduce:star")


def renew(run: Lifecycle) -> None:
    """Ask again for what a resumed run had been asked for, and say so if that cannot be made."""
    resumed = run.parts.resumed
    kept = None if resumed is None else resumed.checkpoint.swap
    if kept is None:
        return
    try:
        strategy: Strategy = rebuild(kept.strategy, STRATEGIES)
        own = strategy.settings_from_json(kept.settings).shown()
        wanted: dict[str, Any] = {"sync": kept.sync, "sync_interval": kept.sync_interval}
        wanted |= {name: own[name] for name in ("combiner", "codec") if name in own}
        swap_strategy(run, strategy, wanted)
    except TosError as error:
        detail = f"{kept.detail}: {error}"
        run.parts.bus.publish(CommandLapsed(time.time(), Command.SWAP_STRATEGY, detail))


def _chosen(
    run: Lifecycle, now: Settings, strategy: Strategy, wanted: Mapping[str, Any]
) -> CheckedOptions:
    """Return a session's options that the run could have begun with, checked.

    Raises
    ------
    ConfigError, CombinerError, CodecError
        They do not go together.
    """
    shown = now.strategy.shown()
    given = {name: value for name, value in wanted.items() if value is not None}
    if "sync_interval" in given:
        given["sync_interval"] = interval_now(given["sync_interval"])
    kept: dict[str, Any] = {"combiner": None, "sync": None, "sync_interval": None}
    if strategy == run.strategy or _differ_by_shards(strategy, run.strategy):
        kept = {
            "combiner": shown.get("combiner"),
            "sync": now.sync,
            "sync_interval": now.sync_interval,
        }
    if kept["combiner"] and "combiner" not in given and not _takes(strategy, now):
        kept["combiner"] = None
    own = {"strategy": strategy, "codec": shown.get("codec", PLAIN), **kept, **given}
    try:
        return replace(run.parts.session, **own).checked()
    except ConfigError:
        if "codec" in given:
            raise
        return replace(run.parts.session, **own | {"codec": PLAIN}).checked()


def _differ_by_shards(strategy: Strategy, now: Strategy) -> bool:
    """Return whether they differ in where the parameters are, and in nothing else."""
    if not (isinstance(strategy, ParameterServer) and isinstance(now, ParameterServer)):
        return False
    return strategy.locking == now.locking


def _takes(strategy: Strategy, now: Settings) -> bool:
    """Return whether a parameter server can merge by the present combiner."""
    own = strategy.settings(now.strategy.shown()["combiner"], PLAIN)
    try:
        own.check(now.sync, now.sync_interval)
    except ConfigError:
        return False
    return True


def _left_out(now: Settings, settings: Settings, wanted: Mapping[str, Any]) -> str:
    """Return which combiner takes the place of the present one, where the caller chose none."""
    before, after = (each.strategy.shown().get("combiner") for each in (now, settings))
    if wanted.get("combiner") is not None or before is None or after is None:
        return ""
    if repr(before) == repr(after):
        return ""
    return f"; combiner {after.name} takes the place of {before.name}"


def _changes(chosen: CheckedOptions) -> Mapping[str, Any]:
    own = chosen.strategy.settings(chosen.combiner, chosen.codec)
    return {"strategy": own, "sync": chosen.sync, "sync_interval": chosen.sync_interval}


def _detail(strategy: Strategy, settings: Settings) -> str:
    """Return what is to be in force, in words."""
    shown = dict(settings.strategy.shown())
    if not settings.strategy.lockstep:
        shown["sync"] = settings.sync
    if not strategy.sampling:
        shown["sync_interval"] = settings.sync_interval
    said = (f"{name}={getattr(value, 'name', value)}" for name, value in shown.items())
    return f"{strategy.name} ({', '.join(said)})"


def _unchanged(run: Lifecycle, detail: str) -> InvalidTransition:
    return InvalidTransition(
        run.parts.state, "swap strategy", f"it is trained in this way already: {detail}."
    )


def _method(run: Lifecycle, strategy: Strategy) -> Method:
    assert run.parts.method is not None
    # Keeps others from writing to the model while it is traced.
    with run.model.held():
        return run.parts.method(strategy, next(_numbers))
