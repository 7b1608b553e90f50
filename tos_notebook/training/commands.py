"""What a run is told while it trains: check it, then pass it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..blocks.partitioners import AnyPartitioner
from ..chaos.fit import Place
from ..chaos.rules import Rule, in_words
from ..cluster.executors import task_attempts
from ..codecs import Codec
from ..codecs.pair import CodecPair
from ..common.checks import positive
from ..errors import ConfigError, InvalidTransition
from ..readable import few_digits
from ..steering.machine import Command
from ..steering.sync import SyncMode, as_sync
from ..strategies.registry import STRATEGIES
from .checkpoint.contents import require_known
from .lifecycle import Lifecycle
from .options import OPTIONS
from .options.session import interval_now
from .parts import RunParts


def require_obeyed(run: Lifecycle, command: Command) -> None:
    """Raise InvalidTransition for a command that the run's strategy does not know."""
    parts, strategy = run.parts, run.strategy
    if command is Command.SWAP_COMBINER and parts.training.settings.strategy.lockstep:
        raise InvalidTransition(parts.state, str(command), _without_combiner(run))
    if command not in strategy.commands:
        known = ", ".join(sorted(strategy.commands))
        others = [f"{name!r}" for name, kind in STRATEGIES.items() if command in kind.commands]
        hint = f" Train with strategy={' or '.join(others)} for that." if others else ""
        reason = f"strategy={strategy.name!r} obeys {known} only.{hint}"
        raise InvalidTransition(parts.state, str(command), reason)


def _without_combiner(run: Lifecycle) -> str:
    """Say why a combiner cannot be swapped, and what to do instead."""
    settings, name = run.parts.training.settings, run.strategy.name
    if settings.strategy.shown().get("of") == "parameters":
        reason = f"with strategy={name!r} another combiner comes with a swap of the strategy"
        swaps = f"{name}:parameters/{settings.sync_interval}"
    else:
        reason = (
            f"a combiner merges pushes one by one, but with strategy={name!r} all workers make "
            "each step together"
        )
        swaps = "ps"
    return (
        f"{reason}. Call run.swap_strategy({swaps!r}, combiner=...), or type "
        f"%tos_strategy {swaps} --combiner ..."
    )


def repartition(run: Lifecycle, partitions: int, partitioner: AnyPartitioner | None) -> None:
    """Ask for another layout of the data; see `Run.repartition`."""
    require_obeyed(run, Command.REPARTITION)
    sampler = run.strategy.sampling
    if sampler is not None and sampler.kind == "mllib":
        raise InvalidTransition(
            run.parts.state,
            "repartition",
            "sampler='mllib' draws what MLlib draws of the same partitions. Stop it and start "
            "with others, or train with sampler='own'",
        )
    if run.parts.plan.options.participation is not None:
        raise InvalidTransition(
            run.parts.state,
            "repartition",
            "with participation each partition keeps its rows. Stop it and start with another "
            "layout",
        )
    if run.parts.checkpointer is not None and partitioner is not None:
        require_known(partitioner)
    run.epochs.repartition(partitions, partitioner)


def swap_combiner(run: Lifecycle, combiner: Any) -> None:
    """Change the rule; see `Run.swap_combiner`."""
    parts = run.parts
    require_obeyed(run, Command.SWAP_COMBINER)
    chosen = OPTIONS["combiner"].checked(combiner)
    if parts.checkpointer is not None:
        parts.training.settings.strategy.changed(combiner=chosen).require_saveable()
    parts.training.change_settings(Command.SWAP_COMBINER, repr(chosen), combiner=chosen)


def change(
    run: Lifecycle,
    learning_rate: float | None,
    sync_interval: int | None,
    sync: str | SyncMode | None,
    codec: str | Codec | CodecPair | None,
) -> None:
    """Change settings; see `Run.set`."""
    parts = run.parts
    require_obeyed(run, Command.SET)
    if all(each is None for each in (learning_rate, sync_interval, sync, codec)):
        raise ConfigError(
            "set: expected learning_rate, sync_interval, sync, codec, combiner or partitions; "
            "got none of them."
        )
    changes: dict[str, Any] = {}
    if learning_rate is not None:
        changes["learning_rate"] = _checked_rate(parts, learning_rate)
    if sync_interval is not None:
        changes["sync_interval"] = interval_now(sync_interval)
    if sync is not None:
        changes["sync"] = as_sync(sync)
    if codec is not None:
        changes["codec"] = OPTIONS["codec"].checked(codec)
    detail = ", ".join(f"{name}={few_digits(value)}" for name, value in changes.items())
    parts.training.change_settings(Command.SET, detail, **changes)


def _checked_rate(parts: RunParts, value: float) -> float:
    if not parts.program.has_learning_rate:
        raise InvalidTransition(
            parts.state,
            "set learning_rate",
            "the program's learning rate is not a variable. Compile a Keras model with a number "
            "instead of a schedule; for a graph, make it a tf.Variable and capture it with "
            "learning_rate=.",
        )
    return positive("learning_rate", value)


def chaos(run: Lifecycle, rules: Sequence[Rule]) -> None:
    """Put rules into force instead of those before; see `Run.chaos`."""
    parts, training = run.parts, run.parts.training
    require_obeyed(run, Command.CHAOS)
    if not rules and not training.chaos:
        return
    executors, attempts = training.executors(), task_attempts(parts.sc)
    Place(run.epochs.source.partitions, executors, parts.master, attempts).check(rules)
    training.change_settings(Command.CHAOS, in_words(rules), chaos=tuple(rules))
