"""A worker's exchange with parameters that it changes itself; the driver only counts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from ....archive.runner import Runner, Trained
from ....common.arrays import Array, Buffer
from ....errors import WorkerEnvironment
from ....layout import Layout
from ....transport.base import Connection, Posting
from ....transport.shared import attach
from ....wire.messages import Directive, Join, Joined, Poll, Proceed, Push, Reply
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext, ask, expect
from ..updates import Updates


class HogwildExchange:
    """Adds updates to the driver's parameters, in memory that both share; see `Exchange`.

    Other workers do so at the same time, and nobody waits: Recht et al. 2011, "HOGWILD!: A
    Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS.

    The driver counts a milestone while the next one is trained. One update at most is not counted
    yet, as if this waited: an answer comes before the next update is added. If it says more than
    to continue, the worker does that first, and then trains the milestone again. An optimizer that
    keeps a state has then seen its batches twice.

    Parameters
    ----------
    connection : Connection
        To the driver; a `Posting` one, unless each answer is to be waited for.
    layout : Layout
    """

    rounds = 1
    attends = False

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._posting = connection if isinstance(connection, Posting) else None
        self._layout = layout
        # Each holds in turn what was adopted, and the update; the other one's is not counted yet.
        self._updates, self._posted = (Updates(layout, layout.allocate()) for _ in range(2))
        self.vectors: list[Array] = self._updates.vectors
        self._center: Buffer = np.empty(0, np.uint8)
        self._sums: list[Array] = []
        self._plain = False
        """Whether the latest answer said to continue, and no more."""
        self._told: Reply | None = None
        """The answer to what was posted, until the worker is told."""
        self.again = False

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
        if self._posting is not None:
            self._posting.settle()
        told, self._told = self._told, None
        if told is not None and told.settings_version < message.settings_version:
            # Something else has brought later ones.
            told = told._replace(settings_version=message.settings_version, settings=None)
        self.again = told is not None and not _is_plain(told)
        if told is not None:
            self._plain = not self.again
            if self.again:
                self._adopt()
                return told
            # Others may have brought later parameters since then: see `poll`.
            newest = max(message.base_version, told.version)
            message = message._replace(base_version=newest)
        if self._posting is not None and self._plain and message.finite:
            self._add()
            self._updates, self._posted = self._posted, self._updates
            self.vectors = self._updates.vectors
            self._posting.post(message, partial(self._answered, message))
            meanwhile()
            reply = Reply(
                message.base_version, message.settings_version, "committed", Directive.GO, None
            )
        else:
            reply = self._counted(message, meanwhile)
        self._adopt()
        return reply

    def _counted(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Add the update if it is finite, and wait until the driver has counted it."""
        if message.finite:
            self._add()
        answer, _ = self._connection.request(message, None, None, meanwhile)
        reply = expect(Reply, answer, message)
        if message.finite and reply.status != "committed":
            self._take_out(self._updates)
        self._plain = _is_plain(reply)
        return reply

    def _answered(self, message: Push, answer: object) -> None:
        """Take note of the answer to what was posted."""
        self._told = expect(Reply, answer, message)
        if self._told.status != "committed":
            self._take_out(self._posted)

    def _add(self) -> None:
        for total, update in zip(self._sums, self._updates.vectors, strict=True):
            total += update

    def _take_out(self, updates: Updates) -> None:
        """Subtract what does not count: the run is over, or another attempt has the partition."""
        for total, update in zip(self._sums, updates.vectors, strict=True):
            total -= update

    def _adopt(self) -> None:
        self._updates.adopted[:] = self._center

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


def _is_plain(reply: Reply) -> bool:
    """Whether a milestone counts, and the worker is told to continue as it is."""
    return reply.status == "committed" and reply[3:] == (Directive.GO, None)


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> HogwildExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    return HogwildExchange(connection, layout)
