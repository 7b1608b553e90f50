"""A run without Spark: a `Coordinator` behind a listener, and workers in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tests.support.numpy_program import Counting, NumpyProgram
from tests.support.threads import LIMIT
from tos_notebook.blocks.block import Columns
from tos_notebook.codecs.pair import PLAIN, CodecPair
from tos_notebook.combiners import Combiner, Downpour
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import RunServer, WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import Event
from tos_notebook.steering.sync import ASP, SyncMode
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.strategies.ps.merging import NonFinite
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.dial import connect_tcp, open_channel
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.transport.sockets import Timeouts
from tos_notebook.wire.messages import Finish, Join, Push
from tos_notebook.worker.exchange import ExchangeMaker, WorkerContext
from tos_notebook.worker.loop import Worker
from tos_notebook.worker.plan import Plan


def until(test: Callable[[], bool], limit: float = LIMIT) -> None:
    """Wait for what another thread or process is about to do, and has no way to say."""
    deadline = monotonic() + limit
    pause = threading.Event()
    while not test():
        assert monotonic() < deadline
        # Without it, the look itself keeps the other thread from what it is about to do.
        pause.wait(0.001)


@contextmanager
def nothing_left(folder: Path) -> Iterator[Path]:
    """Make a folder, and see that neither files in it nor threads remain."""
    folder.mkdir()
    before = set(threading.enumerate())
    yield folder
    assert list(folder.iterdir()) == []
    assert set(threading.enumerate()) <= before


def join(partition: int = 0, task: int = 0, run: str = "run", segment: str = "") -> Join:
    return Join(run, partition, task // 100, task, "here", 1, segment, [])


def push(sequence: int = 0, **changes: Any) -> Push:
    """Return the push of one batch of one row, the first of epoch 0 unless told otherwise."""
    fields: dict[str, Any] = {
        "epoch": 0,
        "sequence": sequence,
        "steps": 1,
        "samples": 1,
        "base_version": 0,
        "settings_version": 0,
        "finite": True,
        "loss": 0.5,
        "compute": 0.0,
        "wait": 0.0,
        "exchange": 0.0,
        "cpu": 0.0,
        "memory": 0,
        "metrics": (),
    }
    return Push(**(fields | changes))


def finish(epoch: int = 0, samples: int = 0, steps: int = 0) -> Finish:
    return Finish(epoch, samples, steps)


def numbers(rows: int) -> Array:
    """Return 1, 2, ..., as data of the counting program."""
    return np.arange(1, rows + 1, dtype=np.float64)


class Bench(Coordinator):
    """A run of a parameter server whose parts are called without a connection."""

    trainer: ServerTrainer

    @property
    def store(self) -> Center:
        return self.trainer.center

    def join(self, *arguments: Any, **named: Any) -> Any:
        return self.requests.join(*arguments, **named)

    def loaded(self, *arguments: Any) -> Any:
        return self.requests.loaded(*arguments)

    def labelled(self, *arguments: Any) -> Any:
        return self.requests.labelled(*arguments)

    def suspect(self, *arguments: Any) -> Any:
        return self.requests.suspect(*arguments)

    def finish(self, *arguments: Any) -> Any:
        return self.requests.finish(*arguments)

    def failed(self, *arguments: Any) -> Any:
        return self.requests.failed(*arguments)

    def rows(self, *arguments: Any) -> Any:
        return self.requests.rows(*arguments)

    def lost(self, *arguments: Any) -> None:
        self.state.lost(*arguments)

    def push(self, *arguments: Any) -> Any:
        return self.trainer.merging.push(*arguments)

    def poll(self, member: Any, message: Any, center: Any = None, owed: bool = False) -> Any:
        if center is None:
            return self.requests.poll(member, message)
        return self.trainer.merging.poll(member, message, center, owed)


def counting_training(
    partitions: int = 1,
    epochs: int = 1,
    combiner: Combiner | None = None,
    sync_interval: int = 1,
    rows: int = 100,
    program: NumpyProgram | None = None,
    columns: tuple[Array, ...] | None = None,
    sync: SyncMode = ASP,
    codec: CodecPair = PLAIN,
    first: int = 0,
    non_finite: NonFinite = "raise",
    **options: Any,
) -> tuple[Bench, list[Event]]:
    """Return a run of the counting program that waits for its workers, and its events."""
    events: list[Event] = []
    layout = (program or Counting()).spec.layout
    combiner = combiner or Downpour()
    settings: dict[str, Any] = {
        "publish": events.append,
        "locate": lambda task: (f"executor-{task}", "?"),
        "on_failure": lambda: None,
    }
    training = Bench(
        "run",
        ServerTrainer(Center(layout, layout.allocate(), combiner), non_finite),
        Settings(ServerSettings(combiner, codec), sync_interval, sync),
        **(settings | options),
    )
    source = ArraySource(columns or (numbers(rows),), partitions)
    training.begin_span(source, first, epochs - 1)
    return training, events


def of(kind: type[Any], events: Iterable[Event]) -> list[Any]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def center(training: Coordinator) -> dict[str, Any]:
    """Return the center by name, scalars as Python numbers."""
    tensors = training.parameters.layout.tensors(training.parameters.read()[0])
    return {name: value.item() if value.ndim == 0 else value for name, value in tensors.items()}


class Served:
    """A training behind a listener, and connections to it."""

    def __init__(self, training: Coordinator, kind: str = "inproc") -> None:
        self.training = training
        self.kind = kind
        self.connections: list[ChannelConnection] = []
        self.secret = new_secret()
        self.exchange: ExchangeMaker = exchange
        if kind == "tcp":
            self.server: Any = RunServer(self.secret, "127.0.0.1", 0)
            self.server.serve(training)
            return
        self.server = InprocServer(training)

    def connect(self) -> ChannelConnection:
        if self.kind == "tcp":
            connection = connect_tcp(*self.server.address, self.secret, request_timeout=LIMIT)
        else:
            connection = connect_inproc(self.server.listener, request_timeout=LIMIT)
        self.connections.append(connection)
        return connection

    def channel(self) -> Any:
        """Return a channel of frames, for what no worker says."""
        if self.kind == "tcp":
            return open_channel(
                *self.server.address, self.secret, None, Timeouts(LIMIT, 0.0, LIMIT)
            )
        return self.server.listener.accept(LIMIT)

    def work(
        self,
        program: NumpyProgram,
        partition: int = 0,
        task: int = 0,
        blocks: Iterable[Columns] = (),
        batch_size: int = 1,
        shuffle: bool = False,
        columns: int = 0,
        seed: int = 0,
        optimizer_state: str = "keep",
        connection: Any = None,
        folder: Path | None = None,
        count_labels: bool = False,
    ) -> None:
        """Train one partition, from `Join` to the end, in this thread."""
        connection = connection or self.connect()
        plan = Plan("run", seed, shuffle, batch_size, columns, optimizer_state, count_labels)
        try:
            who = join(partition, task)
            context = WorkerContext(who, self.secret, folder)
            with closing(self.exchange(connection, program.spec.layout, context)) as moves:
                Worker(connection, moves, program, plan, who).run(blocks)
        finally:
            connection.close()

    def close(self) -> None:
        for connection in self.connections:
            connection.abort()
        self.server.close()


class InprocServer:
    """`RunServer` over the transport within a process."""

    def __init__(self, training: Coordinator) -> None:
        self.listener = InprocListener(lambda peer: WorkerHandler(lambda: training))
        self.listener.start()

    def close(self) -> None:
        self.listener.close(LIMIT)


class Frail:
    """A connection that breaks at the push of one number, before or after it got through."""

    def __init__(self, connection: ChannelConnection, number: int, delivered: bool) -> None:
        self._connection = connection
        self._number = number
        self._delivered = delivered
        self._pushes = 0

    def request(
        self, message: Any, payload: Any = None, into: Any = None, meanwhile: Any = None
    ) -> Any:
        breaks = isinstance(message, Push) and self._pushes == self._number
        self._pushes += isinstance(message, Push)
        if breaks and not self._delivered:
            self._connection.abort()
        answer = self._connection.request(message, payload, into, meanwhile)
        if breaks:
            self._connection.abort()
            return self._connection.request(message, payload, into)
        return answer

    def close(self) -> None:
        self._connection.abort()

    abort = close
