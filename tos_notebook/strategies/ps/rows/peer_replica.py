"""The server's side of what one worker holds, where tables are exchanged by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....common.arrays import Array, Buffer, aligned_empty
from ....common.table_rows import TableRows
from ....errors import RemoteProtocolError
from ....layout import Layout
from . import payload
from .update import NO_ROWS, RowUpdate


class RowPeerReplica:
    """Receives one worker's updates, and sends it the rows that it does not have yet.

    Parameters
    ----------
    layout : Layout
    segment : ndarray, shape (layout.nbytes,), uint8, optional
        Memory that the worker shares: the dense part and tables of which all rows are sent.
    """

    brief = False

    def __init__(self, layout: Layout, segment: Buffer | None) -> None:
        self.shared = segment is not None
        self._layout, self._segment = layout, segment
        self._received: Buffer | None = None
        self._update: RowUpdate | None = None
        self._moved = [0, 0]
        # See `RowUpdate`.
        self._bases: list[int | None] = [None] * len(layout.tables)

    def forget(self) -> None:
        """Take note that the worker may have other rows than were sent to it."""
        self._received = self._update = None
        self._bases = [None] * len(self._bases)

    def receive_into(self, nbytes: int) -> memoryview | None:
        """Return the memory for an update of `nbytes` bytes.

        Raises
        ------
        RemoteProtocolError
            An update cannot be of that length.
        """
        most = payload.longest(self._layout, self.shared)
        if nbytes > most:
            raise RemoteProtocolError(
                f"Push: expected a payload of at most {most} bytes, got {nbytes}."
            )
        self._received = aligned_empty(nbytes)
        return self._received.data if nbytes else None

    def read(self, pushes: str) -> bool:
        """Take the update that has come.

        Returns
        -------
        bool
            True: the worker has checked whether it is finite.

        Raises
        ------
        RemoteProtocolError
            It has other rows than the tables.
        """
        received, self._received = self._received, None
        data = np.empty(0, np.uint8) if received is None else received
        dense, tables = payload.unpack(self._layout, data, self._segment)
        for number, table in enumerate(tables):
            if table.ids is None:
                # What the worker had adopted of it is gone.
                self._bases[number] = None
        self._moved[0] += self._nbytes(len(data), tables)
        self._update = self._make(dense, tables)
        return True

    @property
    def buffer(self) -> RowUpdate:
        """The update that was read last, and then the reply; a question if there is none."""
        if self._update is None:
            self._update = self._question()
        return self._update

    def _question(self) -> RowUpdate:
        """Return what collects the rows that the worker does not have."""
        length, shared = self._layout.dense_nbytes, self._segment
        dense = aligned_empty(length) if shared is None else shared[:length]
        nothing = [_nothing(segment.table, segment.dtype) for segment in self._layout.tables]
        return self._make(dense, nothing)

    def _make(self, dense: Buffer, tables: Sequence[TableRows]) -> RowUpdate:
        return RowUpdate(self._layout, dense, tables, self._bases, self._whole())

    def _whole(self) -> list[Array | None]:
        """Return where all rows of tables are to be put."""
        if self._segment is None:
            return [None] * len(self._bases)
        return list(self._layout.table_arrays(self._segment))

    def reply(self, key: int) -> Buffer:
        """Return the payload that brings the worker what `buffer` holds."""
        update, self._update = self.buffer, None
        tables = update.reply()
        base = None if update.own else update.time
        self._bases = [base] * len(self._bases)
        dense = None if self.shared else update.dense
        sent = payload.pack(self._layout, dense, tables, self.shared)
        self._moved[1] += self._nbytes(len(sent), tables)
        return sent

    def count(self) -> tuple[int, int]:
        """Return the bytes received and sent since this was asked last."""
        (received, sent), self._moved = self._moved, [0, 0]
        return received, sent

    def _nbytes(self, sent: int, tables: Sequence[TableRows]) -> int:
        """Return the bytes of a payload, and of what memory has beside it."""
        if not self.shared:
            return sent
        whole = sum(table.values.nbytes for table in tables if table.ids is None)
        return sent + self._layout.dense_nbytes + whole


def _nothing(table: tuple[int, int] | None, dtype: str) -> TableRows:
    assert table is not None
    return TableRows(NO_ROWS, np.empty((0, table[1]), dtype))
