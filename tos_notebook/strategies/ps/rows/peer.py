"""The server's side of one worker's exchange, where tables are exchanged by row."""

from __future__ import annotations

from typing import cast

from ....common.arrays import Buffer
from ....coordination.membership import Member
from ....coordination.reports import Reports
from ....errors import RemoteProtocolError
from ....layout import Layout
from ....transport.base import BytesLike
from ....wire.messages import Answer, Directive, Poll, Push
from ..peer import Merger, PeerExchange, refuse
from ..peer_replica import PeerReplica
from .peer_replica import RowPeerReplica


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
        self._by_row = False
        self._rows: RowPeerReplica | None = None

    def open(self) -> None:
        """See `WorkerExchange.open`; a buffer for all rows is made when it is needed."""
        self._rows = RowPeerReplica(self._layout, self._segment)

    def close(self) -> None:
        """See `WorkerExchange.close`."""
        self._rows = None
        super().close()

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """See `PeerExchange.receive_into`."""
        settings, rows = self._reports.find_settings(message.settings_version), self._rows
        # A superseded attempt may name some that are forgotten; it sends as before.
        if settings is not None:
            self._by_row = settings.strategy.by_row
        if not self._by_row or rows is None:
            if rows is not None:
                self._replica = self._replica or PeerReplica(self._layout, self._segment)
                rows.forget()
            return super().receive_into(message, nbytes)
        self._settings = settings
        # What it knows of the worker is of no use later: whole tables begin as with a new worker.
        self._replica = None
        if isinstance(message, Push):
            return rows.receive_into(nbytes)
        if nbytes:
            raise RemoteProtocolError(f"Poll: expected a payload of 0 bytes, got {nbytes}.")
        return None

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.push`."""
        if not self._by_row:
            return super().push(member, message)
        rows, settings = self._rows or refuse(), self._settings
        if settings is not None:
            rows.read(settings.strategy.pushes)
        reply = self._merging.push(member, message, cast(Buffer, rows.buffer), rows.count())
        self._owing = reply.directive is Directive.WAIT and not self._merging.keeps_own
        nothing = self._owing or reply.status == "superseded"
        return reply, None if nothing else rows.reply(reply.version)

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """See `WorkerExchange.poll`."""
        if not self._by_row:
            return super().poll(member, message)
        rows = self._rows or refuse()
        proceed = self._merging.poll(member, message, cast(Buffer, rows.buffer), self._owing)
        if proceed.version is None:
            return proceed, None
        self._owing = False
        return proceed, rows.reply(proceed.version)
