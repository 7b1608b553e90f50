"""A worker that trains one epoch without a connection: what it says is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..archive.runner import Runner, Trained
from ..blocks.block import Columns
from ..common.arrays import Array, Buffer, is_finite
from ..layout import Layout
from ..wire.messages import (
    Answer,
    Directive,
    Failed,
    Fetch,
    Finish,
    Join,
    Joined,
    Poll,
    Proceed,
    Push,
    Reply,
    Request,
    Rows,
)
from ..wire.settings import WorkerSettings
from ..wire.tasks import Assignment
from .exchange import expect

VERSION = 0
"""Of the parameters: a worker without a connection knows one only."""


class Recorder:
    """A `Connection` to no server: it lets a worker train one epoch, and keeps what it says.

    Parameters
    ----------
    assignment : Assignment
    rows : callable
        Returns the rows of the partition, where the driver has sent them.
    """

    def __init__(self, assignment: Assignment, rows: Callable[[], Columns] = tuple) -> None:
        self.said: list[Request] = []
        self._assignment = assignment
        self._rows = rows

    def request(
        self, message: Request, *payloads: Any, **more: Any
    ) -> tuple[Answer, memoryview | None]:
        """See `Connection.request`; a recorded message has no payload."""
        if isinstance(message, Fetch):
            column = np.ascontiguousarray(self._rows()[message.column])
            raw = column.reshape(-1).view(np.uint8)
            return Rows(column.dtype.str, list(column.shape)), raw.data
        if not isinstance(message, Poll):
            self.said.append(message)
        return self._answer(message), None

    def _answer(self, message: Request) -> Answer:
        epoch, _, settings_version, settings, own = self._assignment
        match message:
            case Join():
                # What is to go wrong does so once.
                mine = settings if message.attempt else own.get(message.partition, settings)
                return Joined(epoch, 0, 0, epoch, mine, settings_version, Directive.WAIT, False)
            case Push():
                return Reply(VERSION, settings_version, "committed", Directive.GO, None)
            case Poll():
                return Proceed(Directive.GO, settings_version, None, VERSION)
            case Finish() | Failed():
                return Proceed(Directive.LEAVE, settings_version, None)
            case _:
                return Proceed(Directive.WAIT, settings_version, None)

    def close(self) -> None:
        """See `Connection.close`: there is nothing to close."""

    abort = close


class RecordedExchange:
    """An `Exchange` that computes one update, and keeps it.

    Parameters
    ----------
    recorder : Recorder
    layout : Layout
    parameters : ndarray, shape (layout.nbytes,), uint8
        Copied.

    Attributes
    ----------
    update : ndarray, shape (layout.nbytes,), uint8, or None
        What was trained; None without rows.
    """

    rounds = 1
    attends = again = False

    def __init__(self, recorder: Recorder, layout: Layout, parameters: Buffer) -> None:
        self.update: Buffer | None = None
        self._recorder = recorder
        self._layout = layout
        # Aligned, as TensorFlow takes it without a copy.
        aligned = layout.allocate()
        aligned[:] = parameters
        self.vectors: list[Array] = layout.vectors(aligned)

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        return expect(Joined, self._recorder.request(message)[0], message)

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`: an update is kept as it is."""

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Exchange.train`."""
        return runner.train(self.vectors, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`."""
        self.update = self._layout.pack(list(trained))
        return all(map(is_finite, self._layout.vectors(self.update)))

    def push(self, message: Push, meanwhile: Callable[[], Any]) -> Reply:
        """See `Exchange.push`."""
        return expect(Reply, self._recorder.request(message)[0], message)

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`."""
        return expect(Proceed, self._recorder.request(message)[0], message)

    def close(self) -> None:
        """See `Exchange.close`."""
