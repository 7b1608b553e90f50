"""What a user may have beside a run's training: validation, callbacks, event files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...cluster.asking import Asking
from ...cluster.executors import slots
from ...errors import ConfigError
from ...events import Validated
from ...program.export.base import Program
from ...telemetry.bus import Sink
from ..options import ObserverOptions
from .base import Maker, Observer, RunContext
from .best import BestKeeper
from .callbacks import Callbacks
from .histograms import WeightHistograms
from .mlflow import tracking
from .schedule import Scheduler, checked_rate
from .stop_when import stopping
from .tensorboard import writing
from .validation import Evaluation, OnExecutors, Rows, validation_rows, validator


@dataclass(frozen=True, slots=True)
class Observers:
    """The observers of one run, checked and not begun."""

    makers: tuple[Maker, ...]
    learning_rate: float | None
    """To begin with; None for the program's own."""
    sinks: tuple[Sink, ...]
    """The user's own."""


def build(sc: Any, program: Program, ask: Asking, options: ObserverOptions) -> Observers:
    """Look at what is wanted beside a run; `options` are checked.

    Raises
    ------
    ConfigError, DataError, ShapeMismatch
        Something does not fit; nothing was begun.
    WaitTimeout
        Spark has no slot for a look at the validation data, or does not answer.
    """
    makers: list[Maker] = []
    rate, rows, every, consider = None, None, options.validated_every, None
    if options.keep_best is not None:
        _refuse_served(program)
        keeper = BestKeeper(options.keep_best)
        makers.append(keeper.bind)
        consider = keeper.consider
    if options.validation_data is not None:
        look = partial(validation_rows, sc, options.validation_data, program, options.validation_on)
        rows = ask("the first rows of the validation data", look)
    if options.callbacks:
        # They evaluate for themselves: what they are told is of the parameters they find.
        follow, rate = _following(options, program, rows, consider)
        makers.append(follow)
    if rows is not None:
        if every is not None or not options.callbacks:
            makers.append(validator(rows, every, consider=consider))
        if options.validation_on == "executors":
            # After all that evaluate: at the end of a run they end first.
            makers.append(partial(OnExecutors, sc=sc, rows=rows, slots=slots(sc)))
    if options.learning_rate is not None:
        rate, schedule = checked_rate(options.learning_rate, program)
        if schedule is not None:
            makers.append(partial(Scheduler, schedule=schedule))
    if options.stop_when is not None:
        makers.append(stopping(options.stop_when, validated=rows is not None))
    if options.tensorboard is not None:
        makers.append(writing(sc, options.tensorboard))
    if options.mlflow is not None and options.mlflow is not False:
        makers.append(tracking(options.mlflow, program))
    if options.histograms or (options.histograms is None and options.tensorboard is not None):
        # First at the end of a run: the last look is to be in the event files.
        makers.insert(0, WeightHistograms)
    return Observers(tuple(makers), rate, tuple(options.sinks))


def _refuse_served(program: Program) -> None:
    """Refuse to put the best parameters back where only some of them are in one place."""
    if program.layout.served:
        raise ConfigError(
            f"keep_best: expected none with ServedEmbedding {program.layout.served[0].name!r}, of "
            "whose rows no copy is kept for each validation. Write checkpoints, and continue from "
            "the one that you want: checkpoint_every='5m'."
        )


def _following(
    options: ObserverOptions,
    program: Program,
    rows: Rows | None,
    consider: Callable[[Validated], object] | None,
) -> tuple[Maker, float | None]:
    """Check callbacks; return what makes the observer that calls them, and the learning rate."""
    callbacks, on_error = options.callbacks, options.on_callback_error
    if program.model is None:
        raise ConfigError(
            f"callbacks: expected a program with a Keras model, got {program!r}. Use sinks=[...]: "
            "functions that take the run's events. For a resumed run, give program=model."
        )
    from ...program.keras.callbacks import Hooks

    given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    hooks = Hooks(given, program.model)

    def make(context: RunContext) -> Observer:
        samples, publish = context.samples, context.publish
        feeds = program.feeds
        evaluation = rows and Evaluation(rows, program.evaluate, publish, samples, feeds, consider)
        return Callbacks(context, hooks, evaluation, on_error)

    return make, hooks.learning_rate
