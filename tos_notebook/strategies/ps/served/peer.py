"""A shard's side of one worker, as far as rows of served tables go."""

from __future__ import annotations

import numpy as np

from ....common.arrays import Array, aligned_empty
from ....errors import RemoteProtocolError
from ....transport.base import BytesLike
from ....wire.messages import LeaveRows, Lookup
from .shard import RowChanges, ServedRows

Place = tuple[int, int]


class ServedPeer:
    """Sends a worker rows, and takes their changes, which wait for the push that they belong to.

    Parameters
    ----------
    rows : ServedRows
    """

    def __init__(self, rows: ServedRows) -> None:
        self._rows = rows
        self._payload: Array = np.empty(0, np.uint8)
        self._place: Place | None = None
        self._left: dict[int, RowChanges] = {}

    def receive_into(self, message: Lookup | LeaveRows, nbytes: int) -> memoryview | None:
        """Return where a payload goes; see `Handler.receive_into`.

        Raises
        ------
        RemoteProtocolError
            There is no such table, or the length is that of no rows, or of too many.
        """
        name, tables = type(message).__name__, self._rows.tables
        if message.table >= len(tables):
            raise RemoteProtocolError(
                f"{name}.table: expected one of {len(tables)} served tables, got {message.table}."
            )
        table = tables[message.table]
        each = 8 if isinstance(message, Lookup) else table.row_bytes
        if nbytes % each or nbytes > each * table.capacity:
            raise RemoteProtocolError(
                f"{name}: expected a payload of at most {table.capacity} times {each} bytes, got "
                f"{nbytes}."
            )
        # What was left before may still wait in memory of its own.
        self._payload = aligned_empty(nbytes)
        return self._payload.data if nbytes else None

    def find(self, message: Lookup) -> BytesLike:
        """Return the rows that a worker asks for."""
        ids = self._payload.view(np.int64)
        self._rows.check(message.table, ids)
        return self._rows.find(message.table, ids).reshape(-1).view(np.uint8).data

    def leave(self, message: LeaveRows) -> None:
        """Keep changes of rows until the push comes that they belong to."""
        place = message.epoch, message.sequence
        changes = self._rows.checked(message.table, self._payload)
        if place != self._place:
            self._place, self._left = place, {}
        self._left[message.table] = changes

    def take(self, place: Place) -> list[RowChanges]:
        """Return the changes that belong to a push, and keep none."""
        left = list(self._left.values()) if place == self._place else []
        self._place, self._left = None, {}
        return left
