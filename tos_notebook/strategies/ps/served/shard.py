"""What one shard has of served tables: rows that were trained, by their numbers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....combiners.base import Combiner, PushInfo
from ....common.arrays import Array, is_finite
from ....common.served import ServedTable, shard_of
from ....errors import RemoteProtocolError
from .store import RowStore


class RowChanges(NamedTuple):
    """How rows of one table have changed, and what an optimizer keeps of them by now."""

    table: int
    ids: Array
    """Shape (k,), int64, ascending."""
    values: Array
    """Shape (k, columns), float32."""


class ServedRows:
    """The rows of one shard. Threads of all connections call in here.

    An untrained row is not here: it is made whenever it is asked for.

    Parameters
    ----------
    tables : sequence of ServedTable
    shard : int
        Which of the shards this is.
    shards : int
        How many there are.
    """

    def __init__(self, tables: Sequence[ServedTable], shard: int, shards: int) -> None:
        self.tables = tuple(tables)
        self.lock = threading.RLock()
        """Held by who merges a push: what was read is of before it or of after it."""
        self._shard, self._shards = shard, shards
        self._stores = [RowStore(table.columns) for table in tables]
        self._copied: list[Array] = [np.empty(0, np.int64) for _ in tables]

    def __len__(self) -> int:
        """Return how many rows are here."""
        return sum(map(len, self._stores))

    def check(self, table: int, ids: Array) -> None:
        """Refuse numbers of rows that are not in ascending order, or not this shard's.

        Raises
        ------
        RemoteProtocolError
        """
        known = self.tables[table]
        if len(ids) > known.capacity:
            raise RemoteProtocolError(
                f"Table {known.name!r}: expected at most {known.capacity} rows, got {len(ids)}."
            )
        if not len(ids):
            return
        ascending = bool((ids[1:] > ids[:-1]).all())
        if not ascending or ids[0] < 0 or ids[-1] >= known.rows:
            raise RemoteProtocolError(
                f"Table {known.name!r}: expected numbers of rows in ascending order, from 0 to "
                f"{known.rows - 1}; got others."
            )
        if (shard_of(ids, self._shards) != self._shard).any():
            raise RemoteProtocolError(
                f"Table {known.name!r}: expected rows of shard {self._shard + 1}, got others."
            )

    def checked(self, table: int, payload: Array) -> RowChanges:
        """Return the changes in a payload: all numbers of rows, then all values.

        Raises
        ------
        RemoteProtocolError
            They are not this shard's, or not finite.
        """
        known = self.tables[table]
        count = len(payload) // known.row_bytes
        ids = payload[: 8 * count].view(np.int64)
        values = payload[8 * count :].view(np.float32).reshape(count, known.columns)
        self.check(table, ids)
        if not is_finite(values):
            raise RemoteProtocolError(
                f"Table {known.name!r}: expected finite changes of rows, got NaN or infinity."
            )
        return RowChanges(table, ids, values)

    def find(self, table: int, ids: Array) -> Array:
        """Return rows as they are now.

        Parameters
        ----------
        table : int
        ids : ndarray, shape (k,), int64
            Each once.

        Returns
        -------
        ndarray, shape (k, columns), float32
        """
        known = self.tables[table]
        rows = np.empty((len(ids), known.columns), np.float32)
        with self.lock:
            there = self._stores[table].read(ids, rows)
        if not there.all():
            rows[~there] = known.begin(ids[~there])
        return rows

    def merge(self, changes: Sequence[RowChanges], combiner: Combiner, info: PushInfo) -> None:
        """Merge the changes of one push; the lock is held.

        The combiner merges what the model sees. What an optimizer keeps is as the last push says.
        """
        for table, ids, values in changes:
            width = self.tables[table].width
            rows = self.find(table, ids)
            center = np.ascontiguousarray(rows[:, :width])
            update = np.ascontiguousarray(values[:, :width])
            combiner.merge(center.reshape(-1), update.reshape(-1), info)
            rows[:, :width] = center
            rows[:, width:] = values[:, width:]
            self._stores[table].write(ids, rows)

    def copy_changed(self, received: bool) -> list[Array]:
        """Return the rows that have changed since the last copy: ids and rows of each table.

        Parameters
        ----------
        received : bool
            Whether the driver has received the last copy; else its rows are in this one, too.
        """
        with self.lock:
            if not received:
                for store, ids in zip(self._stores, self._copied, strict=True):
                    store.mark(ids)
            copies = [store.take_changed() for store in self._stores]
            self._copied = [ids for ids, _ in copies]
        return [array for copy in copies for array in copy]

    def load(self, table: int, ids: Array, rows: Array) -> None:
        """Put rows in that the driver has."""
        with self.lock:
            self._stores[table].write(ids, rows, changed=False)
