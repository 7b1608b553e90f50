"""Rows by their numbers, as many as come: one shard's part of a served table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....common.arrays import Array
from ....common.hashing import mix64

CHUNK = 1 << 24
"""Bytes of rows that are allocated at once: more rows never move those that are there."""

_FREE = -1


class Index:
    """Finds the places of numbers: a hash table with linear probing, over arrays.

    Numbers get places 0, 1, 2 and so on, in the order in which they come.
    """

    def __init__(self) -> None:
        self._keys = np.full(1 << 10, _FREE, np.int64)
        self._places = np.zeros(1 << 10, np.int32)
        self.count = 0

    def find(self, ids: Array) -> Array:
        """Return the place of each number, -1 for those that are not there.

        Parameters
        ----------
        ids : ndarray, shape (k,), int64
            From 0.
        """
        mask = len(self._keys) - 1
        slots, found = self._home(ids, mask), np.full(len(ids), _FREE, np.int64)
        left = np.arange(len(ids))
        while left.size:
            keys = self._keys[slots[left]]
            same = keys == ids[left]
            found[left[same]] = self._places[slots[left[same]]]
            left = left[~same & (keys != _FREE)]
            slots[left] = (slots[left] + 1) & mask
        return found

    def add(self, ids: Array) -> Array:
        """Return places for numbers that are not there yet, each of them given once."""
        while 4 * (self.count + len(ids)) > 3 * len(self._keys):
            self._grow()
        places = np.arange(self.count, self.count + len(ids))
        self._put(ids, places)
        self.count += len(ids)
        return places

    def _grow(self) -> None:
        held = self._keys != _FREE
        keys, places = self._keys[held], self._places[held]
        size = 2 * len(self._keys)
        self._keys, self._places = np.full(size, _FREE, np.int64), np.zeros(size, np.int32)
        self._put(keys, places)

    def _put(self, ids: Array, places: Array) -> None:
        mask = len(self._keys) - 1
        slots, left = self._home(ids, mask), np.arange(len(ids))
        while left.size:
            free = left[self._keys[slots[left]] == _FREE]
            self._keys[slots[free]] = ids[free]
            # Of several that want one slot, the last one written has it.
            won = self._keys[slots[left]] == ids[left]
            self._places[slots[left[won]]] = places[left[won]]
            left = left[~won]
            slots[left] = (slots[left] + 1) & mask

    @staticmethod
    def _home(ids: Array, mask: int) -> Array:
        hashed: Array = mix64(ids.astype(np.uint64)) >> np.uint64(20)
        return (hashed & np.uint64(mask)).astype(np.int64)


class RowStore:
    """Rows of one width, which remember whether they have changed.

    Parameters
    ----------
    columns : int
        Values of a row, float32.
    chunk : int
        Bytes that are allocated at once.
    """

    def __init__(self, columns: int, chunk: int = CHUNK) -> None:
        self.columns = columns
        self._length = max(1, chunk // (4 * columns))
        self._index = Index()
        self._chunks: list[Array] = []
        self._ids: list[Array] = []
        self._changed: list[Array] = []

    def __len__(self) -> int:
        """Return how many rows are there."""
        return self._index.count

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take, without what finds them."""
        return 4 * self.columns * len(self)

    def read(self, ids: Array, out: Array) -> Array:
        """Copy rows; return which of them are there.

        Parameters
        ----------
        ids : ndarray, shape (k,), int64
            Each once.
        out : ndarray, shape (k, columns), float32
            Where to; what is not there stays as it is.

        Returns
        -------
        ndarray, shape (k,), bool
        """
        places = self._index.find(ids)
        for number, mine, within in self._by_chunk(places):
            out[mine] = self._chunks[number][within]
        return places >= 0

    def write(self, ids: Array, rows: Array, changed: bool = True) -> None:
        """Put rows in their places.

        Parameters
        ----------
        ids : ndarray, shape (k,), int64
            Each once.
        rows : ndarray, shape (k, columns), float32
        changed : bool
            Whether `take_changed` is to return them.
        """
        places = self._index.find(ids)
        new = places < 0
        if new.any():
            places[new] = self._index.add(ids[new])
            while len(self._chunks) * self._length < len(self):
                self._chunks.append(np.empty((self._length, self.columns), np.float32))
                self._ids.append(np.empty(self._length, np.int64))
                self._changed.append(np.zeros(self._length, np.bool_))
        for number, mine, within in self._by_chunk(places):
            self._chunks[number][within] = rows[mine]
            self._ids[number][within] = ids[mine]
            self._changed[number][within] = changed

    def mark(self, ids: Array) -> None:
        """Let `take_changed` return rows, that are there, once more."""
        for number, _, within in self._by_chunk(self._index.find(ids)):
            self._changed[number][within] = True

    def take_changed(self) -> tuple[Array, Array]:
        """Return copies of the rows that have changed since this was called last.

        Returns
        -------
        ids : ndarray, shape (k,), int64
        rows : ndarray, shape (k, columns), float32
        """
        wheres = [np.flatnonzero(changed) for changed in self._changed]
        total = sum(map(len, wheres))
        ids, rows = np.empty(total, np.int64), np.empty((total, self.columns), np.float32)
        start = 0
        for number, where in enumerate(wheres):
            stop = start + len(where)
            ids[start:stop] = self._ids[number][where]
            rows[start:stop] = self._chunks[number][where]
            self._changed[number][where] = False
            start = stop
        return ids, rows

    def _by_chunk(self, places: Array) -> Iterator[tuple[int, Array, Array]]:
        """Yield each chunk's number, which of the places are in it, and where there."""
        chunks = np.where(places < 0, _FREE, places // self._length)
        for number in np.unique(chunks):
            if number >= 0:
                mine = np.flatnonzero(chunks == number)
                yield int(number), mine, places[mine] - number * self._length
