"""A worker's exchange with parameters that it changes itself; the driver only counts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ....archive.runner import Runner, Trained
from ....common.arrays import Array, Buffer
from ....errors import WorkerEnvironment
from ....layout import Layout
from ....transport.base import Connection
from ....transport.shared import attach
from ....wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext, ask, expect
from ..updates import Updates


class HogwildExchange:
    """Adds updates to the driver's parameters, in memory that both share; see `Exchange`.

    Other workers do so at the same time, and nobody waits: Recht et al. 2011, "HOGWILD!: A
    Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS.

    Parameters
    ----------
    connection : Connection
        To the driver.
    layout : Layout
    """

    rounds = 1
    attends = again = False

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        # Holds in turn what was adopted, and the update.
        self._updates = Updates(layout, layout.allocate())
        self.vectors: list[Array] = self._updates.vectors
        self._center: Buffer = np.empty(0, np.uint8)
        self._sums: list[Array] = []

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        return ask(self._connection, message, Joined)

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`: there is one way to add."""

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Exchange.train`."""
        return runner.train(self.vectors, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`."""
        return self._updates.write(trained, encoded=False)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Add the update, let the driver count it, and adopt what others have added, too."""
        if message.finite:
            for total, update in zip(self._sums, self.vectors, strict=True):
                total += update
        answer, _ = self._connection.request(message, None, None, meanwhile)
        reply = expect(Reply, answer, message)
        if message.finite and reply.status != "committed":
            # It does not count: the run is over, or another attempt has the partition.
            for total, update in zip(self._sums, self.vectors, strict=True):
                total -= update
        self._updates.adopted[:] = self._center
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
            self._updates.adopted[:] = self._center
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
    return HogwildExchange(connection, layout)
