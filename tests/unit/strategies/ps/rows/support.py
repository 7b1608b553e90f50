"""A run whose tables are exchanged by row, and workers of it that a test drives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.unit.worker.support import join, push
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import Combiner, as_combiner
from tos_notebook.common.arrays import Array
from tos_notebook.common.served import ServedTable
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.testing.side_threads import SideThreads
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.wire.messages import Directive, Loaded, Poll
from tos_notebook.worker.exchange import WorkerContext

ROWS, WIDTH = 24, 3
WORKERS = 3
STRIPE = 16
"""Bytes, so that a table has several stripes."""


def layout(by_row: bool) -> Layout:
    return Layout(
        [
            ParameterSpec("users", (ROWS, WIDTH), "float32", by_row=by_row),
            ParameterSpec("kernel", (4, 2), "float32"),
            ParameterSpec("items", (7, 5), "float64", by_row=by_row),
            ParameterSpec("mean", (2,), "float32", trained=False),
        ]
    )


class Bench:
    """A run, and workers of it in this thread; memory is shared or not, or there are shards."""

    def __init__(
        self,
        combiner: str | Combiner,
        by_row: bool,
        codec: str = "fp32",
        shards: int = 0,
        sync: str = "asp",
        served: Sequence[ServedTable] = (),
    ) -> None:
        self.layout = Layout(layout(by_row).specs, served)
        self.events: list[Any] = []
        server = ServerSettings(as_combiner(combiner), as_codecs(codec))
        self._settings = Settings(server, 1, as_sync(sync))
        random = np.random.default_rng(0)
        values = [random.random(s.shape).astype(s.dtype) for s in self.layout.specs]
        self._secret = new_secret()
        beside = SideThreads(lambda: connect_inproc(self.listener), self._secret)
        initial = self.layout.pack(values)
        setup = TrainerSetup(self.layout, initial, self._settings, beside=lambda: beside)
        self.strategy = strategy = ParameterServer(STRIPE, shards)
        self._exchange = strategy.exchange
        self.trainer: Any = strategy.trainer(setup)
        self.training = Coordinator(
            "run",
            self.trainer,
            self._settings,
            publish=self.events.append,
            locate=lambda task: ("executor", "?"),
            on_failure=lambda: None,
        )
        self.listener = InprocListener(
            lambda peer: WorkerHandler(lambda: self.training, beside.services)
        )
        self.listener.start()
        self.training.begin_span(ArraySource((np.ones(3000),), WORKERS), 0, 0)
        self.workers: dict[int, Any] = {}
        self.pushed: dict[int, int] = {}
        self.waiting: set[int] = set()
        self._versions: dict[int, Any] = {}
        self._known: dict[int, int] = {}
        self._connections: list[ChannelConnection] = []

    def restart(self, copied: Any) -> None:
        """Continue from a copy of shards, before any worker has come."""
        self.trainer.restore(copied)
        self.trainer.prepare(lambda: True)

    def worker(self, number: int) -> Any:
        """Return a worker's side, which joins if it has not."""
        if number not in self.workers:
            self.attempt(number, number)
        return self.workers[number]

    def attempt(self, number: int, task: int) -> None:
        """Let a worker join, perhaps in the place of an earlier attempt."""
        connection = connect_inproc(self.listener)
        self._connections.append(connection)
        context = WorkerContext(join(number, task), self._secret)
        made = self._exchange(connection, self.layout, context)
        self.workers[number] = made
        joined = made.join(join(number, task))
        made.use(joined.settings)
        self._known[number] = joined.settings_version
        connection.request(Loaded(1000, "0" * 32, streamed=False))
        self._versions[number] = made.poll(Poll(joined.settings_version)).version
        self.pushed[number] = joined.sequence

    def adopted(self, number: int) -> dict[str, Array]:
        return self.layout.tensors(self.worker(number)._updates.adopted)

    def push(self, number: int, change: dict[str, Array]) -> None:
        """Let a worker train and push: add to some rows of tables, and to all that is dense."""
        worker, before = self.worker(number), self.adopted(number)
        trained = [
            b + np.asarray(change.get(name, 0)).astype(b.dtype) for name, b in before.items()
        ]
        self.send(number, worker.write(trained))

    def send(self, number: int, finite: bool) -> None:
        """Let a worker push what it has written."""
        worker = self.workers[number]
        message = push(
            self.pushed[number],
            base_version=self._versions[number],
            settings_version=self._known[number],
            finite=finite,
        )
        reply = worker.push(message, lambda: None)
        self._versions[number], self._known[number] = reply.version, reply.settings_version
        if reply.settings is not None:
            worker.use(reply.settings)
        self.pushed[number] += 1
        if reply.directive is Directive.WAIT:
            self.waiting.add(number)

    def go_on(self, number: int) -> None:
        """Let a worker continue that had to wait for others, who have pushed by now."""
        self.waiting.remove(number)
        proceed = self.worker(number).poll(Poll(self._known[number]))
        assert proceed.directive is Directive.GO
        self._versions[number] = proceed.version or self._versions[number]

    @property
    def center(self) -> dict[str, Array]:
        return self.layout.tensors(self.trainer.parameters.read()[0])

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self.training.settle()
        close = getattr(self.trainer.parameters, "close", None)
        if close is not None:
            close()
        for connection in self._connections:
            connection.close()
        self.listener.close()


@contextmanager
def bench(
    combiner: str | Combiner,
    by_row: bool = True,
    codec: str = "fp32",
    shards: int = 0,
    sync: str = "asp",
    served: Sequence[ServedTable] = (),
) -> Iterator[Bench]:
    with closing(Bench(combiner, by_row, codec, shards, sync, served)) as made:
        yield made


def change(seed: int, share: float) -> dict[str, Array]:
    """Return what a milestone changes: a share of the rows of each table, and the rest."""
    random = np.random.default_rng(seed)
    found = {}
    for spec in layout(True).specs:
        values = random.normal(size=spec.shape)
        if spec.by_row:
            values[random.random(spec.shape[0]) >= share] = 0
        found[spec.name] = values
    return found


PUSHES = st.lists(
    st.tuples(st.integers(0, WORKERS - 1), st.integers(0, 99), st.sampled_from([0, 0.1, 0.3, 1])),
    max_size=12,
)


def equal(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return all(np.array_equal(value, other[name]) for name, value in one.items())
