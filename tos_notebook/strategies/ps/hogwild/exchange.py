"""A worker's exchange with parameters that it changes itself; the driver only counts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

import numpy as np

from ....archive.runner import Runner, Trained
from ....common.arrays import Array, Buffer
from ....errors import WorkerEnvironment
from ....layout import Layout
from ....transport.base import Connection
from ....transport.shared import attach
from ....wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext, ask, expect, next_rounds
from ..updates import Updates

MILESTONE = 0.05
"""Seconds after which the driver hears of a worker, which has added several times until then."""


class HogwildExchange:
    """Adds updates to the driver's parameters, in memory that both share; see `Exchange`.

    Other workers do so at the same time, and none waits: Recht et al. 2011, "HOGWILD!: A
    Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS.

    It adds after each `sync_interval` batches. A message to the driver would take longer than a
    small model trains until then, so that one milestone has as many of these as fit into
    `MILESTONE` seconds, with the time in which their rows come. Under a sync mode that bounds how
    far workers are apart, it has one; and where an update is not finite, so that no other one is
    left out with it.

    Parameters
    ----------
    connection : Connection
        To the driver.
    layout : Layout
    clock : callable
        Seconds.
    resets : bool
        See `WorkerContext`.
    """

    attends = False

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: Callable[[], float] = perf_counter,
        resets: bool = False,
    ) -> None:
        self._connection, self._layout, self._clock = connection, layout, clock
        self._resets = resets
        # Holds in turn what was adopted, and the update.
        self._updates = Updates(layout, layout.allocate())
        self.vectors: list[Array] = self._updates.vectors
        self._center: Buffer = np.empty(0, np.uint8)
        self._sums: list[Array] = []
        self.rounds, self.again = 1, False
        self._every, self._bounded = 1, False
        # The sum of what was added in this milestone.
        self._added, self._count = layout.vectors(layout.allocate()), 0
        self._finite = True
        # That it took to add, and to collect the rows of the next milestone.
        self._seconds = self._collecting = 0.0

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        return ask(self._connection, message, Joined)

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`: there is one way to add."""
        self._every, self._bounded = settings.sync_interval, "sync" in settings.strategy
        if self._bounded:
            self.rounds = 1

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained | None:
        """Train on rows, and add an update after each `sync_interval` batches."""
        began, rows, size = self._clock(), 0, self._every * batch_size
        sums = dict.fromkeys(runner.spec.outputs, 0.0)
        self._count, self._finite, self._seconds = 0, True, 0.0
        try:
            while self._finite and rows < len(columns[0]):
                part = tuple(column[rows : rows + size] for column in columns)
                trained = runner.train(self.vectors, part, batch_size)
                for name in sums:
                    sums[name] += trained.values[name] * len(part[0])
                rows += len(part[0])
                self._add(trained.parameters)
                # Else the next call would have to copy them.
                del trained
                if self._resets:
                    runner.reset_optimizer_state()
        except Exception:
            self._take_out()
            raise
        self.again = not self._finite and len(columns[0]) > size
        if self.again:
            self._take_out()
            runner.reset_non_finite_state()
            self.rounds = 1
            return None
        if self._count and not self._bounded:
            seconds = self._clock() - began + self._collecting
            nbytes = sum(column.nbytes for column in columns)
            share = MILESTONE / max(seconds, 1e-6)
            self.rounds = next_rounds(self.rounds, self._count, share, nbytes)
        return Trained([], {name: total / rows for name, total in sums.items()})

    def _add(self, trained: Iterable[Array]) -> None:
        """Add the update of what was trained, if it is finite, and adopt the sums."""
        began = self._clock()
        self._finite = self._updates.write(trained, encoded=False)
        if self._finite:
            for total, added, update in zip(self._sums, self._added, self.vectors, strict=True):
                total += update
                np.add(added if self._count else 0, update, out=added)
            self._count += 1
        self._adopt()
        self._seconds += self._clock() - began

    def _adopt(self) -> None:
        self._updates.adopted[:] = self._center

    def _take_out(self) -> None:
        if self._count:
            for total, added in zip(self._sums, self._added, strict=True):
                total -= added
        self._adopt()

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`: `train` has added it."""
        return self._finite

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Let the driver count what was added, and adopt what others have added meanwhile."""
        message = message._replace(
            compute=max(0.0, message.compute - self._seconds),
            exchange=message.exchange + self._seconds,
        )

        def collect() -> None:
            began = self._clock()
            meanwhile()
            self._collecting = self._clock() - began

        answer, _ = self._connection.request(message, None, None, collect)
        reply = expect(Reply, answer, message)
        if reply.status != "committed":
            # It does not count: the run is over, or another attempt has the partition.
            self._take_out()
        self._adopt()
        return reply

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`; an answer names the memory.

        Raises
        ------
        WorkerEnvironment
            This worker is not on the driver's host, or may not share its memory.
        """
        answer, received = self._connection.request(message)
        proceed = expect(Proceed, answer, message)
        if proceed.version is not None:
            if not self._sums:
                self._attach(b"" if received is None else bytes(received))
            self._adopt()
        return proceed

    def _attach(self, name: bytes) -> None:
        center = attach(name.decode("ascii", "replace"), self._layout.nbytes)
        if center is None:
            raise WorkerEnvironment(
                "With locking=False, each worker changes the parameters in the driver's memory. "
                f"Expected a worker on the driver's host, of the driver's user; got one on "
                f"{socket.gethostname()} that cannot open that memory. Train with locking=True "
                "(strategy='ps')."
            )
        self._center, self._sums = center, self._layout.vectors(center)

    def close(self) -> None:
        """See `Exchange.close`: it knows no other worker."""


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> HogwildExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    return HogwildExchange(connection, layout, resets=context.resets)
