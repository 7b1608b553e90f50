"""A worker's exchange with shards, where tables are exchanged by row.

Each shard has some rows of a table, and a layout of its own in which they are a table. It counts
its rows from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ....archive.runner import Runner, Trained
from ....common.arrays import Array, Buffer
from ....common.table_rows import TableRows
from ....layout import Layout
from ....transport.base import Connection
from ....wire.messages import Push, Reply
from ....wire.settings import WorkerSettings
from ....worker.exchange import WorkerContext
from ..replica import Replica
from ..rows import payload
from ..rows.replica import RowReplica
from ..updates import Updates
from .exchange import ShardedExchange
from .link import ShardLink
from .slices import Slice, TablePart


class RowShardLink(ShardLink):
    """See `ShardLink`; the settings say whether tables are exchanged by row.

    Parameters
    ----------
    replica : Replica
    part : Slice
    rows : RowReplica
        Of all parameters.
    """

    def __init__(self, replica: Replica, part: Slice, rows: RowReplica) -> None:
        super().__init__(replica, part)
        self._rows = rows

    def _encode(self, message: Push, updates: Updates) -> tuple[Push, Buffer]:
        if not self._rows.by_row:
            return super()._encode(message, updates)
        adopted, layout = self.replica.adopted, self.part.layout
        message, _ = self.replica.encode(message, adopted, True)
        tables = [_part(self._rows.update[part.table], part) for part in self.part.tables]
        return message, payload.pack(layout, adopted, tables, shared=False)

    def _target(self) -> Buffer | None:
        return None if self._rows.by_row else super()._target()

    def _adopt(self, received: memoryview, there: bool) -> None:
        if not self._rows.by_row:
            super()._adopt(received, there)
            return
        layout = self.part.layout
        dense, tables = payload.unpack(layout, received, None)
        self.replica.adopted[: layout.dense_nbytes] = dense
        for part, rows in zip(self.part.tables, tables, strict=True):
            self._rows.adopt(part.table, part.first, rows)


def _part(update: TableRows, part: TablePart) -> TableRows:
    """Return the rows of an update that are in a part of the table, counted from its first."""
    ids, values = update
    last = part.first + part.rows
    if ids is None:
        return TableRows(None, values[part.first : last])
    low, high = np.searchsorted(ids, (part.first, last))
    return TableRows(ids[low:high] - part.first, values[low:high])


class RowShardedExchange(ShardedExchange):
    """See `ShardedExchange`; the server's settings say whether tables are exchanged by row.

    Parameters
    ----------
    connection : Connection
        To the driver.
    layout : Layout
        With tables.
    parts : sequence of Slice
        Of the shards.
    context : WorkerContext
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        parts: Sequence[Slice],
        context: WorkerContext,
    ) -> None:
        super().__init__(connection, layout, parts, context)
        self._rows = RowReplica(layout, self._updates.adopted)
        self._links = [RowShardLink(link.replica, link.part, self._rows) for link in self._links]

    @property
    def by_row(self) -> bool:
        """See `ShardedExchange.by_row`."""
        return self._rows.by_row

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`."""
        self._rows.use(settings)
        super().use(settings)

    def _train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        return self._rows.train(runner, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`."""
        if not self.by_row:
            return super().write(trained)
        finite = self._rows.write(trained)
        return finite and (self._served is None or self._served.finite)

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """See `Exchange.push`."""
        if self.by_row and any(store.residual is not None for store in self._stores):
            # It may be of any row.
            self._rows.expand()
        return super().push(message, meanwhile)

    def _spoiled(self) -> None:
        if self.by_row and any(rows.ids is None for rows in self._rows.update):
            # All rows must come again.
            self._say_encoding()
