"""The server's side of one worker's exchange, where tables are exchanged by row."""

from __future__ import annotations

from typing import cast

import numpy as np

from ....common.arrays import Array, Buffer, aligned_empty
from ....common.table_rows import TableRows
from ....coordination.membership import Member
from ....coordination.reports import Reports
from ....errors import RemoteProtocolError
from ....layout import Layout
from ....transport.base import BytesLike
from ....wire.messages import Answer, Directive, Poll, Push
from ..peer import Merger, PeerExchange
from ..peer_replica import PeerReplica
from . import payload
from .update import NO_ROWS, RowUpdate


class RowPeerExchange(PeerExchange):
    """See `PeerExchange`; the settings that a message names decide how it is sent.

    Parameters
    ----------
    layout : Layout
        With tables.
    merging : Merger
        Of a `RowCenter`.
    reports : Reports
    segment : ndarray, shape (layout.nbytes,), uint8, optional
        Memory that the worker shares.
    """

    brief = False

    def __init__(
        self, layout: Layout, merging: Merger, reports: Reports, segment: Buffer | None
    ) -> None:
        super().__init__(layout, merging, reports, segment)
        self._opened = self._by_row = False
        self._received: Buffer | None = None
        self._moved = [0, 0]
        # See `RowUpdate`.
        self._bases: list[int | None] = [None] * len(layout.tables)

    def open(self) -> None:
        """See `WorkerExchange.open`; a buffer for all rows is made when it is needed."""
        self._opened = True

    def close(self) -> None:
        """See `WorkerExchange.close`."""
        self._opened, self._received = False, None
        super().close()

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """See `PeerExchange.receive_into`."""
        settings = self._reports.find_settings(message.settings_version)
        self._by_row = settings is not None and settings.strategy.by_row
        if not (self._by_row and self._opened):
            if self._opened and self._replica is None:
                self._replica = PeerReplica(self._layout, self._segment)
            self._bases = [None] * len(self._bases)
            return super().receive_into(message, nbytes)
        self._settings = settings
        most = payload.longest(self._layout, self.shared) if isinstance(message, Push) else 0
        if nbytes > most:
            name = type(message).__name__
            raise RemoteProtocolError(
                f"{name}: expected a payload of at most {most} bytes, got {nbytes}."
            )
        self._received = aligned_empty(nbytes) if isinstance(message, Push) else None
        return self._received.data if nbytes and self._received is not None else None

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        received, self._received = self._received, None
        if not self._by_row or received is None:
            return super().push(member, message)
        dense, tables = payload.unpack(self._layout, received, self._segment)
        for number, table in enumerate(tables):
            if table.ids is None:
                # What the worker had adopted of it is gone.
                self._bases[number] = None
        self._moved[0] += self._nbytes(len(received), tables)
        update = RowUpdate(self._layout, dense, tables, self._bases, self._whole())
        moved, self._moved = self._moved, [0, 0]
        reply = self._merging.push(member, message, cast(Buffer, update), (moved[0], moved[1]))
        self._owing = reply.directive is Directive.WAIT and not self._merging.keeps_own
        if self._owing or reply.status == "superseded":
            return reply, None
        return reply, self._reply(update)

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`."""
        if not self._by_row:
            return super().poll(member, message)
        nothing = [
            TableRows(NO_ROWS, np.empty((0, _width), segment.dtype))
            for segment in self._layout.tables
            for _, _width in [segment.table or (0, 0)]
        ]
        segment = self._segment
        dense = aligned_empty(self._layout.dense_nbytes) if segment is None else segment
        dense = dense[: self._layout.dense_nbytes]
        update = RowUpdate(self._layout, dense, nothing, self._bases, self._whole())
        proceed = self._merging.poll(member, message, cast(Buffer, update), self._owing)
        if proceed.version is None:
            return proceed, None
        self._owing = False
        return proceed, self._reply(update)

    def _whole(self) -> list[Array | None]:
        """Return where all rows of tables are to be put."""
        if self._segment is None:
            return [None] * len(self._bases)
        return list(self._layout.table_arrays(self._segment))

    def _reply(self, update: RowUpdate) -> Buffer:
        tables = update.reply()
        base = None if update.own else update.time
        self._bases = [base] * len(self._bases)
        dense = None if self.shared else update.dense
        sent = payload.pack(self._layout, dense, tables, self.shared)
        self._moved[1] += self._nbytes(len(sent), tables)
        return sent

    def _nbytes(self, sent: int, tables: list[TableRows]) -> int:
        """Return the bytes of a payload, and of what memory has beside it."""
        if not self.shared:
            return sent
        whole = sum(table.values.nbytes for table in tables if table.ids is None)
        return sent + self._layout.dense_nbytes + whole
