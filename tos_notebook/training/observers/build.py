"""What a user may have beside a run's training: validation, callbacks, event files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ...cluster.asking import Asking
from ...cluster.executors import slots
from ...common.checks import one_of
from ...errors import ConfigError
from ...program.export.base import Program
from ...steering.trigger import Trigger, as_trigger
from .base import Maker, Observer, RunContext
from .callbacks import POLICIES, Callbacks
from .histograms import watching
from .mlflow import tracking
from .schedule import Scheduler, checked_rate
from .stop_when import stopping
from .tensorboard import writing
from .validation import Evaluation, Kept, Rows, SlotWatch, validation_rows, validator


@dataclass(frozen=True, slots=True)
class Beside:
    """Checked, and not begun.

    Parameters
    ----------
    makers : tuple of callable
        Each makes an observer of the run.
    learning_rate : float or None
        To begin with; None for the program's own.
    """

    makers: tuple[Maker, ...]
    learning_rate: float | None


def attached(
    sc: Any,
    program: Program,
    ask: Asking,
    *,
    validation: Any = None,
    validation_every: Any = None,
    validation_on: str = "driver",
    callbacks: Any = (),
    on_callback_error: str = "disable",
    learning_rate: Any = None,
    stop_when: Any = None,
    tensorboard: str | None = None,
    histograms: bool | None = None,
    mlflow: Any = None,
) -> Beside:
    """Check what is wanted beside a run; see `TrainingSession.start`.

    Raises
    ------
    ConfigError, DataError, ShapeMismatch
        Something does not fit; nothing was begun.
    WaitTimeout
        Spark has no slot for a look at the validation data, or does not answer.
    """
    makers: list[Maker] = []
    rate = None
    rows = None
    if validation is not None:
        look = partial(validation_rows, sc, validation, program, validation_on)
        rows = ask("the first rows of the validation data", look)
        if validation_on == "executors":
            makers.append(partial(SlotWatch, slots=slots(sc)))
    elif validation_on != "driver":
        raise ConfigError(
            f"validation_on: expected validation data to evaluate on {validation_on!r}; give "
            "validation=..., too."
        )
    every = None if validation_every is None else _rhythm(validation_every, rows)
    if callbacks:
        # They evaluate for themselves: what they are told is of the parameters they find.
        follow, rate = _following(callbacks, program, rows, on_callback_error)
        makers.append(follow)
    if rows is not None and (every is not None or not callbacks):
        makers.append(validator(rows, every))
    if rows is not None and validation_on == "executors":
        # After all that evaluate: at the end of a run they end first.
        makers.append(partial(Kept, sc=sc, rows=rows))
    if learning_rate is not None:
        rate, schedule = checked_rate(learning_rate, program)
        if schedule is not None:
            makers.append(partial(Scheduler, schedule=schedule))
    if stop_when is not None:
        makers.append(stopping(stop_when, validated=rows is not None))
    if tensorboard is not None:
        makers.append(writing(sc, tensorboard))
    if mlflow is not None and mlflow is not False:
        makers.append(tracking(mlflow, program))
    if histograms or (histograms is None and tensorboard is not None):
        # First at the end of a run: the last look is to be in the event files.
        makers.insert(0, watching)
    return Beside(tuple(makers), rate)


def _rhythm(given: Any, rows: Rows | None) -> Trigger:
    if rows is None:
        raise ConfigError(
            f"validation_every: expected validation data to evaluate every {given}; give "
            "validation=..., too."
        )
    return as_trigger("validation_every", given)


def _following(
    callbacks: Any, program: Program, rows: Rows | None, on_error: str
) -> tuple[Maker, float | None]:
    """Check callbacks; return what makes the observer that calls them, and the learning rate.

    Parameters
    ----------
    callbacks : sequence of keras.callbacks.Callback
    program : Program
    rows : callable or None
        Returns the validation data.
    on_error : {"disable", "raise"}

    Raises
    ------
    ConfigError
        They are no callbacks, cannot work here, or there is no Keras model for them.
    """
    one_of("on_callback_error", on_error, POLICIES)
    if program.model is None:
        raise ConfigError(
            f"callbacks: expected a program with a Keras model, got {program!r}. Use sinks=[...]: "
            "functions that take the run's events. For a resumed run, give program=model."
        )
    from ...program.keras.callbacks import Hooks

    given = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    hooks = Hooks(given, program.model)

    def make(context: RunContext) -> Observer:
        evaluation = None
        if rows is not None:
            evaluation = Evaluation(
                rows, program.evaluate, context.publish, context.samples, program.feeds
            )
        return Callbacks(context, hooks, evaluation, on_error)

    return make, hooks.learning_rate
