"""Evaluate the center after each epoch, on the driver, while training goes on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..data.blocks import Columns, concatenate
from ..data.feeds import check_columns
from ..data.source import as_source
from ..data.stream import StreamSource
from ..errors import DataError, SessionClosed, WaitTimeout
from ..events import EpochFinished, Event, MilestoneCommitted, Validated, ValidationFailed
from ..program.base import Program
from .base import Companion, Handle, Maker

logger = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that the end of a run waits for an evaluation under way."""


def validation_rows(sc: Any, data: Any, program: Program) -> Callable[[], Columns]:
    """Check validation data, and return a function that brings its rows to the driver.

    Parameters
    ----------
    sc : SparkContext
    data : RDD of tuple, tuple of ndarray, or columns of a DataFrame
        As for training.
    program : Program

    Raises
    ------
    DataError, ShapeMismatch
        It does not fit the program.
    """
    source = as_source(sc, data, 1, program.feeds)
    if isinstance(source, StreamSource):
        raise DataError(
            "Validation: expected rows, got a function that returns datasets, which is for "
            "training only. Give arrays, an RDD or columns of a DataFrame."
        )
    check_columns(source.columns, program.feeds)

    def rows() -> Columns:
        held = source.rows(0)
        return concatenate(source.tasks(sc).collect()) if held is None else held

    return rows


class Evaluation:
    """Evaluates the center on the validation data, and tells of it.

    Parameters
    ----------
    rows : callable
        Returns the validation data; called once.
    evaluate : callable
        Takes columns, returns loss and metrics of the center as it is.
    publish : callable
        Takes an event.
    samples : int
        How many were trained before.

    Attributes
    ----------
    failed : bool
        Whether it raised; it is not tried again.
    """

    def __init__(
        self,
        rows: Callable[[], Columns],
        evaluate: Callable[[Columns], Mapping[str, float]],
        publish: Callable[[Event], None],
        samples: int = 0,
    ) -> None:
        self._rows = rows
        self._evaluate = evaluate
        self._publish = publish
        self._columns: Columns | None = None
        self._samples = samples
        self.failed = False

    def count(self, event: MilestoneCommitted) -> None:
        """Note how far the training is."""
        self._samples += event.samples

    def __call__(self, epoch: int) -> Mapping[str, float] | None:
        """Return loss and metrics; None if they could not be computed, now or before."""
        if self.failed:
            return None
        try:
            if self._columns is None:
                self._columns = self._rows()
            # Training goes on: what counts is how far it is when the center is read.
            samples = self._samples
            values = self._evaluate(self._columns)
        except Exception as error:
            self.failed = True
            logger.warning("The validation data could not be evaluated.", exc_info=True)
            message = f"{type(error).__name__}: {error}"
            self._publish(ValidationFailed(time.time(), epoch, message))
            return None
        # Nobody listens any more to what ends after `finish` has given up.
        with suppress(SessionClosed):
            self._publish(Validated(time.time(), epoch, samples, values))
        return values


class Validator(Companion):
    """Evaluates after every epoch, on a thread of its own.

    If epochs end faster than it evaluates, the latest counts.

    Parameters
    ----------
    evaluation : Evaluation
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._wanted: int | None = None
        self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="tos-validation", daemon=True)
        self._thread.start()

    def __call__(self, event: Event) -> None:
        """Ask for an evaluation when an epoch is done."""
        if isinstance(event, MilestoneCommitted):
            self._evaluation.count(event)
        elif isinstance(event, EpochFinished):
            with self._changed:
                self._wanted = event.epoch
                self._changed.notify_all()

    def finish(self, last: bool) -> None:
        """End the thread; `last` says whether it first evaluates what it was asked for last.

        Raises
        ------
        WaitTimeout
            It still evaluates.
        """
        with self._changed:
            self._ending = True
            if not last:
                self._wanted = None
            self._changed.notify_all()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise WaitTimeout(
                f"The evaluation of the validation data did not end within {PATIENCE:g} s. "
                "Validate on fewer rows."
            )

    def _run(self) -> None:
        while (epoch := self._next()) is not None:
            self._evaluation(epoch)
            if self._evaluation.failed:
                return

    def _next(self) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: self._ending or self._wanted is not None)
            wanted, self._wanted = self._wanted, None
            return wanted


def validator(rows: Callable[[], Columns]) -> Maker:
    """Return what makes a run's validator, on data that `rows` returns."""

    def make(handle: Handle) -> Validator:
        def evaluate(columns: Columns) -> Mapping[str, float]:
            return handle.run.evaluate(*columns)

        return Validator(Evaluation(rows, evaluate, handle.publish, handle.samples))

    return make
