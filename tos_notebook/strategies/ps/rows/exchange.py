"""A worker's exchange with the server in the driver, where tables are exchanged by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ....archive.runner import Runner, Trained
from ....common.arrays import Array
from ....errors import RemoteProtocolError
from ....layout import Layout
from ....transport.base import Connection
from ....wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext, expect
from ..exchange import ParameterExchange
from ..exchange import exchange as whole
from ..residual import ResidualStore
from . import payload
from .replica import RowReplica


class RowExchange(ParameterExchange):
    """See `ParameterExchange`; the server's settings say whether tables are exchanged by row.

    Parameters
    ----------
    connection : Connection
        To the server.
    layout : Layout
        With tables.
    residuals : ResidualStore
        What encoded updates leave out.
    """

    _rows: RowReplica

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        joined = super().join(message)
        self._rows = RowReplica(self._layout, self._updates.adopted)
        return joined

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`."""
        super().use(settings)
        self._rows.use(settings)

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """Train by the parameters that were adopted last."""
        return self._rows.train(runner, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite."""
        if not self._rows.by_row:
            return super().write(trained)
        return self._rows.write(trained)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Send the update, and adopt the reply."""
        if not self._rows.by_row:
            return super().push(message, meanwhile)
        if self._residuals.residual is not None:
            # It may be of any row.
            self._rows.expand()
        message, _ = self._replica.encode(message, self._updates.adopted, True)
        dense = None if self._shared else self._updates.adopted
        sent = payload.pack(self._layout, dense, self._rows.update, self._shared)
        answer, received = self._connection.request(message, sent, None, meanwhile)
        reply = expect(Reply, answer, message)
        if reply.status != "superseded":
            self._replica.settle()
        self._adopt(received)
        return reply

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`."""
        if not self._rows.by_row:
            return super().poll(message)
        answer, received = self._connection.request(message)
        proceed = expect(Proceed, answer, message)
        if (proceed.version is None) != (received is None):
            raise RemoteProtocolError("Expected parameters with Proceed if it has their version.")
        self._adopt(received)
        return proceed

    def _adopt(self, received: memoryview | None) -> None:
        """Adopt a reply's payload, if any."""
        if received is None:
            return
        adopted, layout = self._updates.adopted, self._layout
        dense, tables = payload.unpack(layout, received, adopted if self._shared else None)
        if not self._shared:
            adopted[: layout.dense_nbytes] = dense
        for number, rows in enumerate(tables):
            self._rows.adopt(number, 0, rows)


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> ParameterExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    if not layout.tables:
        return whole(connection, layout, context)
    join = context.join
    name = context.leg or join.run
    residuals = ResidualStore(layout.nbytes, context.folder, name, join.partition, join.task)
    return RowExchange(connection, layout, residuals)
