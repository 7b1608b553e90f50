"""What the driver tells shards of served tables, and what they do then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ....common.arrays import Array, Buffer
from ....common.served import shard_of
from ....errors import RemoteProtocolError
from ..shards import parcel
from .saved import SavedRows
from .shard import ServedRows

ANSWER = 120.0
"""Seconds for shards to do what they are told, and to send what they have."""

PUT, FIND, COPY, SEND = "put rows", "find rows", "copy rows", "send rows"

Order = Callable[[Any, list[Array]], Buffer | None]


class RowOrders:
    """Obeys in a shard.

    Parameters
    ----------
    rows : ServedRows
    """

    def __init__(self, rows: ServedRows) -> None:
        self._rows = rows
        self._copied: list[Array] | None = None

    @property
    def orders(self) -> Mapping[str, Order]:
        """What to do, by order."""
        return {PUT: self._put, FIND: self._find, COPY: self._copy, SEND: self._send}

    def _put(self, value: Any, arrays: list[Array]) -> None:
        self._rows.load(value["table"], *arrays)

    def _find(self, value: Any, arrays: list[Array]) -> Buffer:
        return parcel.pack(None, [self._rows.find(value["table"], arrays[0])])

    def _copy(self, value: Any, arrays: list[Array]) -> None:
        self._copied = self._rows.copy_changed(value["received"])

    def _send(self, value: Any, arrays: list[Array]) -> Buffer:
        copied, self._copied = self._copied, None
        if copied is None:
            raise RemoteProtocolError("Expected an order to copy rows first.")
        return parcel.pack(None, copied)


class Commanded(Protocol):
    """All shards of a run; see `Group`."""

    count: int

    def command(
        self, what: str, payloads: Sequence[Buffer | None], timeout: float
    ) -> list[tuple[int, Buffer | None]]:
        """See `Group.command`."""


class RowsOfShards:
    """What the driver has of served tables, and how it gets it. One thread at a time calls.

    Parameters
    ----------
    saved : SavedRows
        What shards begin with.

    Attributes
    ----------
    saved : SavedRows
        As of the last copy.
    """

    def __init__(self, saved: SavedRows) -> None:
        self.saved = saved
        self._received = True

    def give(self, group: Commanded) -> None:
        """Give shards that begin the rows that were trained."""
        for table, ids, rows in self.saved.pieces():
            mine = _dealt(ids, group.count)
            pieces = [parcel.pack({"table": table}, [ids[m], rows[m]]) for m in mine]
            group.command(PUT, pieces, ANSWER)
        self._received = True

    def copy(self, group: Commanded) -> None:
        """Let shards copy what has changed, while nothing is counted."""
        if self.saved.tables:
            asked = parcel.pack({"received": self._received})
            # If an answer is lost, these rows come again the next time.
            self._received = False
            group.command(COPY, [asked] * group.count, ANSWER)

    def receive(self, group: Commanded) -> None:
        """Take what shards have copied."""
        if self.saved.tables:
            answers = group.command(SEND, [parcel.pack(None)] * group.count, ANSWER)
            changed = [parcel.unpack(payload)[1] for _, payload in answers]
            self.saved = self.saved.changed(changed).compact()
            self._received = True

    def find(self, group: Commanded | None, table: int, ids: Array) -> Array:
        """Return rows as they are now: in the shards, if there are any."""
        if group is None:
            return self.saved.find(table, ids)
        mine = _dealt(ids, group.count)
        asked = [parcel.pack({"table": table}, [ids[m]]) for m in mine]
        found = np.empty((len(ids), self.saved.tables[table].columns), np.float32)
        answers = group.command(FIND, asked, ANSWER)
        for where, (_, payload) in zip(mine, answers, strict=True):
            found[where] = parcel.unpack(payload)[1][0]
        return found


def _dealt(ids: Array, shards: int) -> list[Array]:
    owners = shard_of(ids, shards)
    return [np.flatnonzero(owners == number) for number in range(shards)]
