"""A run's model, which observers evaluate and results are made of."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...common.arrays import Array, Buffer
from ...errors import WaitTimeout
from ...inference.predictor import BATCH_SIZE, Predictor
from ...inference.servable import HeldRows

if TYPE_CHECKING:
    from ...blocks.block import ColumnSpec
    from ...blocks.feeds import Feed
    from ...coordination.exchange import Parameters
    from ...program.export.base import Program

MERGE = 30.0
"""Seconds that the end of a run waits for a push that is still being merged."""


class HeldModel(Predictor):
    """The user's model or session, which holds one set of parameters at a time.

    It predicts, and is evaluated, with the center; it is held while it is packed, and not while
    Spark's jobs wait for a slot.

    Parameters
    ----------
    program : Program
    store : Parameters
        Has the center.
    patience : float
        Seconds that the end of a run waits for a push that is still being merged.

    Attributes
    ----------
    remembers : bool
        Whether it keeps the center that a thread has evaluated, for `presented`.
    """

    def __init__(self, program: Program, store: Parameters, patience: float = MERGE) -> None:
        self.program = program
        if store.layout.served:
            program.find_rows(cast(HeldRows, store))
        self._patience = patience
        self._store = store
        # Reentrant: a callback may evaluate.
        self._lock = threading.RLock()
        self.remembers = False
        self._presented = threading.local()

    @property
    def inputs(self) -> tuple[Feed, ...]:
        """See `Predictor.inputs`."""
        return self.program.inputs

    @property
    def fields(self) -> tuple[int, ...]:
        """See `Predictor.fields`."""
        return self.program.fields

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """See `Program.feeds`."""
        return self.program.feeds

    @property
    def served(self) -> HeldRows | None:
        """See `Servable.served`."""
        return cast(HeldRows, self._store) if self._store.layout.served else None

    def serve(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack the center; see `Predictor.serve`."""
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
        """Keep others from writing to the model inside."""
        with self._lock:
            yield self.program

    @contextmanager
    def present(self) -> Iterator[Program]:
        """Hold the model, with a copy of the center in it."""
        with self._lock:
            center = self._store.read()[0]
            self.program.write(center)
            if self.remembers:
                self._presented.center = center
            yield self.program

    @property
    def presented(self) -> Buffer:
        """The center that this thread has held last; see `remembers`."""
        center: Buffer = self._presented.center
        return center

    def keep(self, timeout: float) -> None:
        """Write the final center.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the thread that holds the model.

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
            return self._store.read(patience=self._patience)[0]
        except WaitTimeout as error:
            raise WaitTimeout(f"{error} The model does not hold the trained weights.") from error

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Hold the model; what is changed in it inside becomes the center.

        For when all workers have pushed their last: a callback may put the best parameters back.
        """
        with self._lock:
            before = self.program.read()
            yield
            after = self.program.read()
            if not np.array_equal(before, after):
                self._store.load(after)
