"""What works on the driver beside a run's training: threads of its own that follow the events."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...common.arrays import Array
from ...errors import TosError, WaitTimeout
from ...events import Event
from ...inference.predictor import BATCH_SIZE, Predicts

if TYPE_CHECKING:
    from ...blocks.block import ColumnSpec
    from ...blocks.feeds import Feed
    from ...program.export.base import Program
    from ...strategies.ps.center import Store
    from ..run import Run


MERGE = 30.0
"""Seconds that the end of a run waits for a push that is still being merged."""


class HeldModel(Predicts):
    """The user's model or session, which holds one set of parameters at a time.

    It predicts, and is evaluated, with the center; it is held while it is packed, and not while
    Spark's jobs wait for a slot.

    Parameters
    ----------
    program : Program
    store : Store
        Has the center.
    """

    def __init__(self, program: Program, store: Store) -> None:
        self.program = program
        self._store = store
        # Reentrant: a callback may evaluate.
        self._lock = threading.RLock()

    @property
    def inputs(self) -> tuple[Feed, ...]:
        """See `Predicts.inputs`."""
        return self.program.inputs

    @property
    def fields(self) -> tuple[int, ...]:
        """See `Predicts.fields`."""
        return self.program.fields

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """See `Program.feeds`."""
        return self.program.feeds

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack the center; see `Predicts.serve`."""
        with self.present() as program:
            program.serve(columns, target)

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack the center; see `Program.pack_measure`."""
        with self.present() as program:
            program.pack_measure(columns, target)

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """See `Program.measured`."""
        with self.held() as program:
            return program.measured(sums)

    def evaluate(self, data: Any, batch_size: int = BATCH_SIZE) -> Mapping[str, float]:
        """Evaluate the center; see `Program.evaluate`."""
        if not isinstance(data, list | tuple):
            from ...inference.evaluate import evaluate

            return evaluate(self, data, batch_size)
        with self.present() as program:
            return program.evaluate(data, batch_size)

    @contextmanager
    def held(self) -> Iterator[Program]:
        """Let nobody else write to the model inside."""
        with self._lock:
            yield self.program

    @contextmanager
    def present(self) -> Iterator[Program]:
        """Hold the model, with a copy of the center in it."""
        with self._lock:
            self.program.write(self._store.read()[0])
            yield self.program

    def keep(self, timeout: float) -> None:
        """Write the final center.

        Parameters
        ----------
        timeout : float
            Seconds to wait for whoever holds the model.

        Raises
        ------
        WaitTimeout
            It is still held, or a merge has still not ended; the model is left as it was.
        """
        if not self._lock.acquire(timeout=timeout):
            raise WaitTimeout(
                f"The model was still being evaluated, or used by a callback, {timeout:g} s after "
                "the run's end, so it does not hold the trained weights. run.parameters() returns "
                "them."
            )
        try:
            self.program.write(self._final())
            if self.program.finish():
                self._store.load(self.program.read())
        finally:
            self._lock.release()

    def _final(self) -> Array:
        """Return a copy: a merge that did not end in time may write to the center yet."""
        try:
            return self._store.read(patience=MERGE)[0]
        except WaitTimeout as error:
            raise WaitTimeout(f"{error} The model does not hold the trained weights.") from error

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Hold the model; what is changed in it inside becomes the center.

        For when nobody pushes any more: a callback may put the best parameters back.
        """
        with self._lock:
            before = self.program.read()
            yield
            after = self.program.read()
            if not np.array_equal(before, after):
                self._store.load(after)


@dataclass(frozen=True, slots=True)
class Handle:
    """What a companion has of its run.

    Parameters
    ----------
    run : Run
    model : HeldModel
    store : Store
    publish : callable
        Takes an event.
    fail : callable
        Ends the run with an error.
    epochs : range
        Those that are to be trained.
    samples, steps : int
        How many, and batches of how many, were trained before a resume.
    """

    run: Run
    model: HeldModel
    store: Store
    publish: Callable[[Event], None]
    fail: Callable[[TosError], None]
    epochs: range
    samples: int
    steps: int = 0


class Companion(ABC):
    """A sink with a thread, for which the run waits at its end."""

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Take one event, and return at once."""

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what has to be done before the first Spark job; the run waits for it."""

    @abstractmethod
    def finish(self, last: bool) -> None:
        """End the thread; the run has ended, and the model holds its parameters.

        Parameters
        ----------
        last : bool
            Whether the run was trained to its end.

        Raises
        ------
        WaitTimeout
            It is still busy.
        """

    @property
    def delivers(self) -> bool:
        """Whether it is the caller: the run cannot wait for its own end there."""
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """What has gone wrong, for `Run.status`."""
        return ()


Maker = Callable[[Handle], Companion]
"""Makes a run's companion, when the run is about to begin."""
