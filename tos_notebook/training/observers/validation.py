"""Evaluate the center now and then, on the driver, while training continues."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...blocks.block import Columns, concatenate
from ...blocks.feeds import Feed, check_columns, non_finite
from ...blocks.source import DataSource
from ...cluster.jobs import in_pool, named, pool_of
from ...common.threads import SerialExecutor
from ...data.dealing import keep, release
from ...data.source import about, as_rows
from ...errors import ConfigError, DataError, SessionClosed, TosError, WaitTimeout
from ...events import (
    EpochFinished,
    Event,
    MilestoneCommitted,
    RunResumed,
    RunStarted,
    Validated,
    ValidationFailed,
)
from ...program.export.base import Program
from ...readable import LONGEST_NAME, readable, summary
from ...steering.trigger import Trigger
from .base import Maker, Observer, RunContext

logger = logging.getLogger(__name__)

EVALUATION_TIMEOUT = 60.0
"""Seconds that the end of a run waits for an evaluation under way."""


Rows = Callable[[], Columns | DataSource]
"""Returns validation data as `Program.evaluate` takes them."""


def validation_rows(sc: Any, data: Any, program: Program, place: str = "driver") -> Rows:
    """Check validation data, and return what returns them.

    Parameters
    ----------
    sc : SparkContext
    data : RDD of tuple, tuple of ndarray, or columns of a DataFrame
        As for training.
    program : Program
    place : {"driver", "executors"}
        Where they are to be evaluated; to the driver they are brought once.

    Raises
    ------
    DataError, ShapeMismatch
        It does not fit the program.
    UnsupportedProgram
        The program does not measure.
    ConfigError
        The data are arrays, which are on the driver already.
    """
    program.require_measuring()
    source = rows_that_fit(sc, data, program, place)
    program.require_measuring(source.columns)
    pool = pool_of(sc)
    if place == "executors":
        return functools.partial(in_pool, sc, pool, lambda: source)

    @functools.cache
    def rows() -> Columns:
        held = source.rows(0)
        if held is not None:
            return held
        return in_pool(sc, pool, lambda: concatenate(source.tasks(sc).collect()))

    return rows


def rows_that_fit(sc: Any, data: Any, program: Program, place: str) -> DataSource:
    """Return validation data as a source; parameters and errors as in `validation_rows`."""
    source = as_rows(sc, data, 1, program.feeds, use="validation_data")
    with about("validation_data"):
        check_columns(source.columns, program.feeds)
    require_place(place, held=source.rows(0) is not None)
    return source


def require_place(place: str, held: bool) -> None:
    """Refuse to evaluate rows on executors that the driver holds.

    Raises
    ------
    ConfigError
    """
    if held and place == "executors":
        raise ConfigError(
            "validation_on: expected an RDD or columns of a DataFrame for 'executors', got arrays, "
            "which are on the driver. Leave it out, or make an RDD of them."
        )


class Evaluation:
    """Evaluates the center on the validation data, and tells of it.

    Parameters
    ----------
    rows : callable
        Returns the validation data; called once.
    evaluate : callable
        Takes them, returns loss and metrics of the center as it is.
    publish : callable
        Takes an event.
    samples : int
        How many were trained before.
    feeds : sequence of Feed
        What the program takes rows as.
    consider : callable, optional
        Takes what is published, on the thread that has evaluated.

    Attributes
    ----------
    failed : bool
        Whether it raised; it is not tried again.
    notes : tuple of str
        What it raised, in one sentence.
    samples : int
        Trained so far.
    evaluated : int
        Trained when the center was evaluated last; -1 before.
    reached : int
        The epoch of which the center is now; may be set, and is later than the one that was asked
        for where an evaluation takes longer than an epoch.
    told : int
        The epoch of the latest evaluation; -1 before.
    """

    def __init__(
        self,
        rows: Rows,
        evaluate: Callable[[Any], Mapping[str, float]],
        publish: Callable[[Event], None],
        samples: int = 0,
        feeds: Sequence[Feed] = (),
        consider: Callable[[Validated], object] | None = None,
    ) -> None:
        self._consider = consider
        self._feeds = feeds
        self._rows = rows
        self._evaluate = evaluate
        self._publish = publish
        self._columns: Columns | DataSource | None = None
        self.samples = samples
        self.evaluated = -1
        self.reached = self.told = -1
        self.failed = False
        self.notes: tuple[str, ...] = ()

    def count(self, event: MilestoneCommitted) -> None:
        """Note how far the training is."""
        self.samples += event.samples

    def __call__(self, epoch: int) -> Mapping[str, float] | None:
        """Return loss and metrics; None if they could not be computed, now or before."""
        if self.failed:
            return None
        try:
            if self._columns is None:
                self._columns = self._rows()
            # Training continues: what counts is how far it is when the center is read.
            samples = self.evaluated = self.samples
            epoch = self.told = max(epoch, self.reached)
            # By the names that workers' metrics travel under.
            values = {
                readable(name, LONGEST_NAME): value
                for name, value in self._evaluate(self._columns).items()
            }
            told = Validated(time.time(), epoch, samples, values)
            self._check_finite(told)
        except Exception as error:
            self.failed = True
            why = summary(named(error))
            # What this package says needs no frames of its own.
            trace = None if isinstance(error, TosError) else error
            logger.warning("The validation data could not be evaluated: %s", why, exc_info=trace)
            self.notes = (
                "The validation data could not be evaluated, and are not evaluated again in this "
                f"run: {why}",
            )
            self._publish(ValidationFailed(time.time(), epoch, why))
            return None
        # What ends after `finish` has given up is not listened to any more.
        with suppress(SessionClosed):
            self._publish(told)
        if self._consider is not None:
            self._consider(told)
        return values

    def _check_finite(self, told: Validated) -> None:
        """Note what is not finite; raise `DataError` if the driver has rows that are not."""
        if not told.warning:
            self.notes = ()
            return
        columns = self._columns if isinstance(self._columns, tuple) else ()
        # Rows that are held as sparse ones are finite, or were refused.
        held = [p for p in zip(columns, self._feeds, strict=False) if hasattr(p[0], "astype")]
        rows = non_finite(tuple(c for c, _ in held), [feed for _, feed in held])
        if rows is not None:
            feed, values = rows
            row, value = next(iter(values.items()))
            raise DataError(
                f"Row {row} of the validation data, feed {feed!r}: expected finite numbers, got "
                f"{value}. All of them together gave {told.wrong}. Leave such rows out, or replace "
                "their values."
            )
        if not self.notes:
            # The first of several in a row says since when.
            self.notes = (told.warning,)
            logger.warning("%s", told.warning)


class Validator(Observer):
    """Evaluates on a thread of its own; if that is asked for faster than it can, the latest counts.

    Parameters
    ----------
    evaluation : Evaluation
    every : Trigger, optional
        How often, and at the end of a run that was trained to its end; by default when an epoch
        is done.
    timeout : float
        Seconds that the end of a run waits for an evaluation under way.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        every: Trigger | None = None,
        timeout: float = EVALUATION_TIMEOUT,
    ) -> None:
        self._evaluation = evaluation
        self._every = Trigger(epochs=1) if every is None else every
        self._timeout = timeout
        self._epoch = 0
        self._milestones = 0
        self._asked_at: float | None = None
        # Samples trained when anybody evaluated last.
        self._known = -1
        # The one counts on the thread that tells events, the other on the own one.
        self._passed_over = self._read_before = 0
        self._executor = SerialExecutor("tos-validation", 1)

    @property
    def validates(self) -> bool:
        """See `Observer.validates`."""
        return True

    @property
    def left_out(self) -> int:
        """See `Observer.left_out`."""
        return self._passed_over + self._read_before

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Observer.notes`."""
        return self._evaluation.notes

    def __call__(self, event: Event) -> None:
        """Ask for an evaluation when one is due."""
        if isinstance(event, MilestoneCommitted):
            self._evaluation.count(event)
            self._epoch = max(self._epoch, event.epoch)
            if self._every.epochs is None:
                self._evaluation.reached = self._epoch
                if self._is_due(self._every, event.time):
                    self._ask(self._epoch)
        elif isinstance(event, EpochFinished) and self._every.epochs is not None:
            self._evaluation.reached = event.epoch
            if self._every.falls_on(event.epoch):
                self._ask(event.epoch)
        elif isinstance(event, Validated):
            self._known = event.samples

    def finish(self, last: bool) -> None:
        """End the thread; `last` says whether it first evaluates what is still to be evaluated.

        Raises
        ------
        WaitTimeout
            It still evaluates.
        """
        if not last:
            self._executor.clear()
        elif self._every != Trigger(epochs=1):
            self._executor.put(self._evaluate_trained)
        self._executor.leave()
        if not self._executor.ended(self._timeout):
            raise WaitTimeout(
                "The evaluation of the validation data did not end within "
                f"{self._timeout:g} s. Validate on fewer rows."
            )

    def _is_due(self, every: Trigger, now: float) -> bool:
        """Count a milestone; return whether it is one after which the center is evaluated."""
        if self._asked_at is None:
            self._asked_at = now
        self._milestones += 1
        if every.seconds is not None:
            due = now - self._asked_at >= every.seconds
        else:
            due = self._milestones >= (every.milestones or 1)
        if due:
            self._milestones, self._asked_at = 0, now
        return due

    def _ask(self, epoch: int) -> None:
        self._passed_over += self._executor.clear()
        self._executor.put(functools.partial(self._evaluate_asked, epoch))

    def _evaluate_asked(self, epoch: int) -> None:
        """Evaluate, unless the evaluation before has read what this one would."""
        found = self._evaluation
        if found.told < epoch or found.samples > found.evaluated:
            found(epoch)
        else:
            self._read_before += 1

    def _evaluate_trained(self) -> None:
        """Evaluate the center after the last milestone, unless callbacks have done so."""
        if self._evaluation.samples > max(self._known, self._evaluation.evaluated):
            self._evaluation(self._epoch)


def validator(
    rows: Rows,
    every: Trigger | None = None,
    timeout: float = EVALUATION_TIMEOUT,
    consider: Callable[[Validated], object] | None = None,
) -> Maker:
    """Return what makes a run's validator, on data that `rows` returns; see `Validator`."""

    def make(context: RunContext) -> Validator:
        model = context.model
        found = Evaluation(
            rows, model.evaluate, context.publish, context.samples, model.feeds, consider
        )
        return Validator(found, every, timeout)

    return make


class OnExecutors(Observer):
    """Has Spark keep the rows that executors measure, and drop them when the run has ended.

    It says so if training leaves the executors no slot for that.

    Parameters
    ----------
    context : RunContext
    sc : SparkContext
    rows : callable
        Returns the rows, as a source.
    slots : int
        Tasks that Spark runs at once.
    """

    def __init__(self, context: RunContext, sc: Any, rows: Callable[[], Any], slots: int) -> None:
        self._sc = sc
        self._source: DataSource = rows()
        self._slots = slots
        # The run's own thread writes it, and the one that tells events the other notes.
        self._kept: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Observer.notes`."""
        return *self._notes, *self._kept

    def begin(self) -> None:
        """Mark the rows; the first evaluation stores them."""
        self._kept = keep(self._sc, self._source, "validation data", "in every evaluation")

    def __call__(self, event: Event) -> None:
        """Look at how many partitions are trained."""
        if isinstance(event, RunStarted | RunResumed) and event.partitions >= self._slots:
            self._note(
                f"Training takes all {self._slots} slots of the executors, so the validation data "
                "wait until one is free. Train with fewer partitions, connect to more slots, or "
                'give validation_on="driver".'
            )

    def finish(self, last: bool) -> None:
        """Let Spark drop the rows."""
        self._kept += release(self._source, "validation data")
