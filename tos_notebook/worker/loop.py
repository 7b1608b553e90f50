"""The worker: train one partition, and exchange with the server at every milestone.

Nothing here knows of sockets, TensorFlow or Spark: they come as a `Connection`, a `Runner`
and an iterator of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..data.blocks import Columns, concatenate, epoch_order
from ..errors import (
    ConnectError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    SessionClosed,
    TosError,
    TransportError,
)
from ..params import Array, aligned_empty, is_finite
from ..program.spec import Runner
from ..transport.base import Connection
from ..transport.shared import Segment
from ..wire.messages import (
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
    Settings,
)
from .failure import describe

Answer = TypeVar("Answer")

SEARCH = 1.0
"""Seconds for finding the batch that the program refuses."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker has to do; the same for all workers of a job.

    Parameters
    ----------
    run : str
        The run's id.
    seed : int
        Of the order of rows.
    shuffle : bool
        Whether that order is random.
    batch_size : int
        Rows of one batch.
    columns : int
        Columns to fetch from the server; 0 where Spark brings the rows.
    """

    run: str
    seed: int
    shuffle: bool
    batch_size: int
    columns: int


class Worker:
    """One partition's training, from `Join` to the last `Finish`.

    Parameters
    ----------
    connection : Connection
        To the server.
    runner : Runner
        The program.
    plan : Plan
    join : Join
        Who this worker is.
    clock : callable
        Seconds, for the times in the pushes.
    """

    def __init__(
        self,
        connection: Connection,
        runner: Runner,
        plan: Plan,
        join: Join,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._plan = plan
        self._join = join
        self._clock = clock
        # Holds in turn what was adopted, the update, and the reply: one copy of the model,
        # which the server works on directly where it shares the segment.
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._vectors: list[Array] = []
        self._tensors: list[Array] = []
        self._metrics: list[str] = []
        self._shared = False
        self._settings_version = -1
        self._sync_interval = 1
        self._pushes = "delta"
        self._version = 0
        self._waited = 0.0
        self._exchanged = 0.0
        self._failed_at: tuple[int, list[int]] = (0, [])

    def run(self, blocks: Iterable[Columns]) -> None:
        """Train over the partition's rows until the job's last epoch, or until told to leave.

        Parameters
        ----------
        blocks : iterable of Columns
            The partition's rows, where Spark brings them.

        Raises
        ------
        Exception
            Whatever the program or the data raised, once the server knows of it.
        """
        joined = self._open()
        try:
            self._adopt_settings(joined.settings_version, joined.settings)
            if self._goes_on(joined.directive):
                self._train(joined, self._load(blocks))
        except (TransportError, ProtocolError, SessionClosed, ConnectError):
            # Not the user's code, and the task's own failure says it all.
            raise
        except Exception as error:
            # A server that is gone must not hide what the user's code raised.
            with suppress(TosError):
                message, frames = describe(error)
                own = self._runner.explain(error)
                if own is not None:
                    # The traceback only leads into TensorFlow.
                    message, frames = own[0], own[1] or frames
                self._ask(Failed(message, frames, own is not None, *self._failed_at), Proceed)
            raise

    def _open(self) -> Joined:
        layout = self._runner.spec.layout
        self._metrics = [name for name in self._runner.spec.outputs if name != "loss"]
        with Segment(layout.nbytes) as segment:
            join = replace(self._join, segment=segment.name, metrics=self._metrics)
            answer, payload = self._connection.request(join, into=segment.buffer)
        joined = _expect(Joined, answer, join)
        if joined.shared == (payload is not None):
            raise RemoteProtocolError("Expected the parameters either shared or sent with Joined.")
        self._buffer, self._shared = segment.buffer, joined.shared
        self._vectors = layout.vectors(self._buffer)
        self._tensors = list(layout.tensors(self._buffer).values())
        self._version = joined.version
        return joined

    def _train(self, joined: Joined, columns: Columns) -> None:
        steps, sequence = joined.steps, joined.sequence
        for epoch in range(joined.epoch, joined.last_epoch + 1):
            if not self._train_epoch(epoch, columns, steps, sequence):
                return
            steps = sequence = 0

    def _train_epoch(self, epoch: int, columns: Columns, steps: int, sequence: int) -> bool:
        """Train from a batch on to the end of an epoch; return whether another one follows."""
        plan = self._plan
        rows = len(columns[0]) if columns else 0
        order = epoch_order(rows, plan.seed, epoch, self._join.partition, plan.shuffle)
        batches = -(-rows // plan.batch_size)
        feed = _Feed(columns, order)
        while steps < batches:
            batch = self._batch(feed, steps)
            count = self._steps(batch)
            # The next rows are collected while the server merges.
            directive = self._milestone(
                epoch, sequence, steps, batch, partial(self._batch, feed, steps + count)
            )
            if not self._goes_on(directive):
                return False
            steps += count
            sequence += 1
        finished = self._ask(Finish(epoch, rows, batches), Proceed)
        self._adopt_settings(finished.settings_version, finished.settings)
        return self._goes_on(finished.directive)

    def _batch(self, feed: _Feed, steps: int) -> Columns:
        """Return the rows to train until the next exchange."""
        size = self._plan.batch_size
        return feed(steps * size, (steps + self._sync_interval) * size)

    def _milestone(
        self,
        epoch: int,
        sequence: int,
        first: int,
        batch: Columns,
        meanwhile: Callable[[], object],
    ) -> Directive:
        began = self._clock()
        try:
            trained = self._runner.train(self._vectors, batch, self._plan.batch_size)
        except Exception:
            self._failed_at = epoch, self._failing_batches(first, batch)
            raise
        computed = self._clock()
        finite = self._write_update(trained.parameters)
        push = Push(
            epoch=epoch,
            sequence=sequence,
            steps=self._steps(batch),
            samples=len(batch[0]),
            base_version=self._version,
            settings_version=self._settings_version,
            finite=finite,
            loss=trained.values.get("loss", float("nan")),
            compute=computed - began,
            wait=self._waited,
            exchange=self._exchanged,
            metrics=tuple(trained.values[name] for name in self._metrics),
        )
        self._waited = 0.0
        reply = self._exchange(push, meanwhile)
        self._exchanged = self._clock() - computed
        if reply.status == "superseded":
            raise LocalProtocolError(
                f"Another attempt has taken over partition {self._join.partition}; "
                "this one ends without having been counted."
            )
        self._version = reply.version
        self._adopt_settings(reply.settings_version, reply.settings)
        return reply.directive

    def _steps(self, batch: Columns) -> int:
        return -(-len(batch[0]) // self._plan.batch_size)

    def _failing_batches(self, first: int, batch: Columns) -> list[int]:
        """Return the first and last of the batches, of which the program refused one.

        Each alone from where they all began, for as long as somebody may wait for the error.
        """
        size, end = self._plan.batch_size, self._clock() + SEARCH
        count = self._steps(batch)
        for number in range(count) if count > 1 else ():
            if self._clock() > end:
                break
            alone = tuple(column[number * size : (number + 1) * size] for column in batch)
            try:
                self._runner.train(self._vectors, alone, size)
            except Exception:
                return [first + number] * 2
        return [first, first + count - 1]

    def _exchange(self, push: Push, meanwhile: Callable[[], object]) -> Reply:
        buffer = None if self._shared else self._buffer
        answer, _ = self._connection.request(push, buffer, buffer, meanwhile)
        return _expect(Reply, answer, push)

    def _write_update(self, new: Iterable[Array]) -> bool:
        """Write what to push where the adopted parameters were; return whether it is finite."""
        finite = True
        for adopted, trained in zip(self._tensors, new, strict=True):
            if self._pushes == "delta":
                np.subtract(trained, adopted, out=adopted)
            else:
                np.copyto(adopted, trained)
            finite = finite and is_finite(adopted)
        return finite

    def _goes_on(self, directive: Directive) -> bool:
        """Wait as long as told to; return whether to train on."""
        began = self._clock()
        while directive is Directive.WAIT:
            answer = self._ask(Poll(self._settings_version), Proceed)
            self._adopt_settings(answer.settings_version, answer.settings)
            directive = answer.directive
        self._waited += self._clock() - began
        return directive is Directive.GO

    def _adopt_settings(self, version: int, settings: Settings | None) -> None:
        self._settings_version = version
        if settings is None:
            return
        self._sync_interval = int(settings["sync_interval"])
        self._pushes = str(settings["pushes"])
        if settings.get("learning_rate") is not None:
            self._runner.set_learning_rate(float(settings["learning_rate"]))

    def _load(self, blocks: Iterable[Columns]) -> Columns:
        if not self._plan.columns:
            return concatenate(list(blocks))
        return tuple(self._fetch(index) for index in range(self._plan.columns))

    def _fetch(self, index: int) -> Array:
        answer, payload = self._connection.request(Fetch(index))
        rows = _expect(Rows, answer, Fetch(index))
        raw = np.frombuffer(b"" if payload is None else payload, np.uint8)
        return cast(Array, raw.view(rows.dtype).reshape(rows.shape))

    def _ask(self, message: Request, expected: type[Answer]) -> Answer:
        answer, _ = self._connection.request(message)
        return _expect(expected, answer, message)


def _expect(expected: type[Answer], answer: object, message: Request) -> Answer:
    if not isinstance(answer, expected):
        raise RemoteProtocolError(
            f"Expected {expected.__name__} in answer to {type(message).__name__}, "
            f"got {type(answer).__name__}."
        )
    return answer


class _Feed:
    """Collects an epoch's rows, in its order, into aligned buffers that are used again."""

    def __init__(self, columns: Columns, order: npt.NDArray[np.int64]) -> None:
        self._columns = columns
        self._order = order
        self._buffers: list[npt.NDArray[np.uint8]] = [aligned_empty(0) for _ in columns]
        self._collected: tuple[int, int] = (0, 0)
        self._rows: Columns = ()

    def __call__(self, start: int, stop: int) -> Columns:
        """Return rows `start` to `stop` of the order; asked for again, without more work."""
        if self._collected != (start, stop):
            index = self._order[start:stop]
            self._rows = tuple(self._take(i, c, index) for i, c in enumerate(self._columns))
            self._collected = (start, stop)
        return self._rows

    def _take(self, number: int, column: Array, index: npt.NDArray[np.int64]) -> Array:
        shape = (len(index), *column.shape[1:])
        nbytes = len(index) * column.dtype.itemsize * int(np.prod(column.shape[1:], dtype=int))
        if len(self._buffers[number]) < nbytes:
            self._buffers[number] = aligned_empty(nbytes)
        target = self._buffers[number][:nbytes].view(column.dtype).reshape(shape)
        # "clip" skips numpy's own buffering of `out`; the indices are a permutation.
        return np.take(column, index, axis=0, out=target, mode="clip")
