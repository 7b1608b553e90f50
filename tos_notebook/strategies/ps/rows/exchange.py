"""A worker's exchange with the server in the driver, where tables are exchanged by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

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
from .changes import Changes


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

    def __init__(self, connection: Connection, layout: Layout, residuals: ResidualStore) -> None:
        super().__init__(connection, layout, residuals)
        self._by_row = False
        self._changes: Changes
        # Of each table, the rows that are others in the program than in what was adopted.
        self._moved: list[Array | None] = []

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        joined = super().join(message)
        self._changes = Changes(self._layout, self._updates.adopted)
        self._moved = [None] * len(self._layout.tables)
        return joined

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`."""
        super().use(settings)
        self._by_row = settings.strategy.get("by_row") == "yes"
        self._changes.use(settings.strategy["pushes"])

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """Train by the parameters that were adopted last."""
        self._changes.touched = None
        if self._by_row:
            found = runner.train_rows(self.vectors, self._moved, columns, batch_size)
            if found is not None:
                self._changes.touched = found.tables
                self._moved = [rows.ids for rows in found.tables]
                return Trained(found.parameters, found.values)
        self._moved = [None] * len(self._layout.tables)
        return super().train(runner, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite."""
        if not self._by_row:
            return super().write(trained)
        return self._changes.write(trained)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Send the update, and adopt the reply."""
        if not self._by_row:
            return super().push(message, meanwhile)
        if self._residuals.residual is not None:
            # It may be of any row.
            self._changes.expand()
        message, _ = self._replica.encode(message, self._updates.adopted, True)
        dense = None if self._shared else self._updates.adopted
        sent = payload.pack(self._layout, dense, self._changes.tables, self._shared)
        answer, received = self._connection.request(message, sent, None, meanwhile)
        reply = expect(Reply, answer, message)
        if reply.status != "superseded":
            self._replica.settle()
        self._adopt(received)
        return reply

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`."""
        if not self._by_row:
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
        for number, (array, rows) in enumerate(
            zip(layout.table_arrays(adopted), tables, strict=True)
        ):
            moved = self._moved[number]
            if rows.ids is not None:
                array[rows.ids] = rows.values
                moved = None if moved is None else np.union1d(moved, rows.ids)
            else:
                moved = None
                if not self._shared:
                    array[...] = rows.values
            self._moved[number] = moved


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> ParameterExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    if not layout.tables:
        return whole(connection, layout, context)
    join = context.join
    name = context.leg or join.run
    residuals = ResidualStore(layout.nbytes, context.folder, name, join.partition, join.task)
    return RowExchange(connection, layout, residuals)
