"""A run's learning rate as a function of its global step."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ...common.threads import SerialExecutor
from ...errors import ConfigError, InvalidTransition, SessionClosed
from ...events import CallbackFailed, Event, MilestoneCommitted
from ...program.export.base import Program
from ...readable import summary
from ...steering.source import SCHEDULE, commands_from
from ..options.observers import as_rate
from .base import Observer, RunContext

logger = logging.getLogger(__name__)

PERIOD = 0.5
"""Seconds between two commands, at least."""

CHANGE = 0.01
"""By which share of itself the rate changes at least: a command goes to every worker."""

SMALLEST = float(np.finfo(np.float32).tiny)
"""Stands for a rate of 0, where many schedules end: settings are above 0."""

SCHEDULE_TIMEOUT = 60.0
"""Seconds that the end of a run waits for a schedule under way."""

Schedule = Callable[[int], float]
"""The rate by global step: the optimizer steps of all workers together."""


class Scheduler(Observer):
    """Sets the learning rate of a run, until it is set otherwise.

    Parameters
    ----------
    context : RunContext
    schedule : callable
        Returns what can be set.
    period : float
        Seconds between two commands, at least.
    """

    def __init__(self, context: RunContext, schedule: Schedule, period: float = PERIOD) -> None:
        self._context = context
        self._schedule = schedule
        self._period = period
        self._steps = context.steps
        self._set: float | None = None
        self._ended = False
        self._due = -math.inf
        self._executor = SerialExecutor("tos-learning-rate", 1)

    def begin(self) -> None:
        """Set the rate for the first batch; a resumed run continues its schedule."""
        self._apply(self._steps)

    def __call__(self, event: Event) -> None:
        """Count steps, and set the rate now and then."""
        if not isinstance(event, MilestoneCommitted):
            return
        self._steps += event.optimizer_steps
        now = time.perf_counter()
        if now >= self._due and not self._executor.full:
            self._due = now + self._period
            self._executor.put(partial(self._apply, self._steps))

    def finish(self, last: bool) -> None:
        """See `Observer.finish`."""
        self._executor.end(SCHEDULE_TIMEOUT)

    def _apply(self, step: int) -> None:
        if self._ended:
            return
        run = self._context.run
        given = run.settings.learning_rate
        if self._set is not None and given != self._set:
            self._end(f"you set it to {given}, which counts from then on.")
            return
        try:
            rate = self._schedule(step)
        except Exception as error:
            message = summary(error)
            self._end(f"it raised {message}. The rate stays {given}.", error)
            with suppress(SessionClosed):
                failed = CallbackFailed(time.time(), "learning_rate", "schedule", message)
                self._context.publish(failed)
            return
        self._set = given
        if given is None or abs(rate - given) >= CHANGE * given:
            # The run may have ended.
            with suppress(InvalidTransition), commands_from(SCHEDULE):
                run.set(learning_rate=rate)
                self._set = rate

    def _end(self, why: str, error: Exception | None = None) -> None:
        self._ended = True
        self._notes += (f"The schedule of the learning rate has ended: {why}",)
        level = logging.INFO if error is None else logging.WARNING
        logger.log(level, "%s", self._notes[-1], exc_info=error)


def checked_rate(given: Any, program: Program) -> tuple[float, Schedule | None]:
    """Return the learning rate to begin with, and the schedule if it is one.

    Parameters
    ----------
    given : float, keras.optimizers.schedules.LearningRateSchedule, or callable
        A callable takes the global step, an int.
    program : Program

    Raises
    ------
    ConfigError
        It is none of these, or the program has no learning rate that can be set.
    """
    if not program.has_learning_rate:
        raise ConfigError(
            f"learning_rate: expected a program with a learning rate that can be set, got "
            f"{program!r}. Compile a Keras model with a number instead of a schedule, and give "
            "the schedule here; for a graph, make it a tf.Variable and capture it with "
            "learning_rate=."
        )
    found = as_rate("learning_rate", given)
    if not callable(found):
        return found, None
    schedule = partial(_rate, given)
    try:
        return schedule(0), schedule
    except Exception as error:
        raise ConfigError(
            f"learning_rate: expected a number for the global step 0, but {given!r} raised "
            f"{summary(error)}"
        ) from error


def _rate(schedule: Callable[[int], Any], step: int) -> float:
    """Return a schedule's rate at a step, as a setting."""
    from ...runtime.eager import eagerly

    with eagerly():
        value = float(schedule(step))
    if not 0 <= value < math.inf:
        raise ConfigError(
            f"learning_rate: expected a finite number of at least 0 at step {step}, got {value}."
        )
    # As it is written: 0.1, not 0.10000000149 as in float32.
    return max(float(f"{value:.7g}"), SMALLEST)
