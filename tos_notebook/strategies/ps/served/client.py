"""A worker's rows of served tables: asked for before a milestone, and pushed with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ....archive.runner import ServedRunner
from ....common.arrays import Array, Arrays, aligned_empty, is_finite
from ....common.served import ServedTable, shard_of
from ....errors import ConfigError, DataError, RemoteProtocolError
from ....wire.messages import LeaveRows, Lookup, Proceed, Push


class RowLink(Protocol):
    """A connection to one shard."""

    def exchange_rows(
        self, message: Lookup | LeaveRows, payload: Array
    ) -> tuple[Proceed, memoryview | None]:
        """Send a message of rows; return the answer and its payload.

        Parameters
        ----------
        message : Lookup or LeaveRows
        payload : ndarray
            Contiguous.
        """


OfEach = Callable[[Callable[[int, RowLink], None]], None]
"""Calls something with the number and the link of each shard, of all at once."""


class ServedRowsOfWorker:
    """The rows that one worker has for a milestone.

    Parameters
    ----------
    tables : sequence of ServedTable
    shards : int
    """

    def __init__(self, tables: Sequence[ServedTable], shards: int) -> None:
        self._tables, self._shards = tables, shards
        self._owned: list[list[Array]] = []
        """Of each table, for each shard, which of the milestone's rows it has."""
        self._ids: list[Array] = []
        self._changes: list[Array] = []

    def fetch(self, runner: ServedRunner, columns: Arrays, each: OfEach) -> None:
        """Give a program those rows of tables that it needs, as the shards have them now.

        Parameters
        ----------
        runner : ServedRunner
        columns : sequence of ndarray
            What it is to be trained on; see `Runner.train`.
        each : callable
            Calls something with the number and the link of each shard.

        Raises
        ------
        ConfigError
            A milestone needs more different rows than a layer has room for.
        DataError
            The model asks for a row that the table does not have.
        """
        self._ids = runner.served_ids(columns)
        self._check(len(columns[0]))
        self._owned = [self._dealt(ids) for ids in self._ids]
        both = zip(self._ids, self._tables, strict=True)
        # Aligned, so that TensorFlow takes them as they are.
        self._changes = [_empty(len(ids), table.columns) for ids, table in both]

        def fetch(number: int, link: RowLink) -> None:
            for table, rows in enumerate(self._changes):
                mine = self._owned[table][number]
                if len(mine):
                    rows[mine] = self._fetch(link, table, self._ids[table][mine])

        each(fetch)
        runner.place_rows(self._ids, self._changes)

    def take(self, runner: ServedRunner) -> None:
        """Take back what the program has made of the rows, for the next push."""
        after = runner.take_rows(self._ids)
        for table, rows, new in zip(self._tables, self._changes, after, strict=True):
            # In place of what was before: of what an optimizer keeps, its values are sent.
            rows[:, : table.width] *= -1
            rows[:, : table.width] += new[:, : table.width]
            rows[:, table.width :] = new[:, table.width :]

    def _check(self, rows: int) -> None:
        for table, ids in zip(self._tables, self._ids, strict=True):
            if len(ids) and (ids[0] < 0 or ids[-1] >= table.rows):
                wrong = ids[0] if ids[0] < 0 else ids[-1]
                raise DataError(
                    f"ServedEmbedding {table.name!r}: expected ids from 0 to {table.rows - 1}, got "
                    f"{wrong}."
                )
            if len(ids) > table.capacity:
                raise ConfigError(
                    f"ServedEmbedding {table.name!r}: the {rows} rows of a milestone need "
                    f"{len(ids)} different rows of the table, and the layer has room for "
                    f"{table.capacity}. Make it with cache_rows={len(ids) + len(ids) // 4}, or "
                    "lower sync_interval or batch_size."
                )

    def _dealt(self, ids: Array) -> list[Array]:
        owners = shard_of(ids, self._shards)
        return [np.flatnonzero(owners == shard) for shard in range(self._shards)]

    def _fetch(self, link: RowLink, table: int, ids: Array) -> Array:
        _, received = link.exchange_rows(Lookup(table), ids)
        columns = self._tables[table].columns
        got = 0 if received is None else len(received)
        if received is None or got != 4 * len(ids) * columns:
            raise RemoteProtocolError(
                f"Table {self._tables[table].name!r}: expected {len(ids)} rows of {columns} "
                f"values, got {got} bytes."
            )
        return np.frombuffer(received, np.float32).reshape(len(ids), columns)

    @property
    def finite(self) -> bool:
        """Whether what was trained is neither NaN nor infinite."""
        return all(map(is_finite, self._changes))

    def leave(self, number: int, link: RowLink, message: Push) -> None:
        """Leave what has changed at one shard, for the push that follows."""
        for table, (ids, values) in enumerate(zip(self._ids, self._changes, strict=True)):
            mine = self._owned[table][number]
            if not len(mine):
                continue
            parts = np.ascontiguousarray(ids[mine]), np.ascontiguousarray(values[mine])
            payload = np.concatenate([part.reshape(-1).view(np.uint8) for part in parts])
            link.exchange_rows(LeaveRows(table, message.epoch, message.sequence), payload)


def _empty(rows: int, columns: int) -> Array:
    return aligned_empty(4 * rows * columns).view(np.float32).reshape(rows, columns)
