"""Rows of a served table in a file: all their numbers, in ascending order, then all values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .arrays import Array
from .served import ServedTable


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file that is never changed; what it holds is mapped into memory.

    Parameters
    ----------
    path : Path
    table : int
        Which of a model's served tables.
    count : int
        Rows.
    columns : int
        Values of a row, float32.
    """

    path: Path
    table: int
    count: int
    columns: int

    @property
    def ids(self) -> Array:
        """Shape (count,), int64, ascending."""
        if not self.count:
            return np.empty(0, np.int64)
        return np.memmap(self.path, np.int64, "r", 0, (self.count,))

    @property
    def rows(self) -> Array:
        """Shape (count, columns), float32."""
        shape = self.count, self.columns
        if not self.count:
            return np.empty(shape, np.float32)
        return np.memmap(self.path, np.float32, "r", 8 * self.count, shape)

    def find(self, ids: Array, out: Array) -> Array:
        """Copy rows; return which of them are there.

        Parameters
        ----------
        ids : ndarray, shape (k,), int64
        out : ndarray, shape (k, columns), float32
            Where to; what is not there stays as it is.

        Returns
        -------
        ndarray, shape (k,), bool
        """
        if not self.count:
            return np.zeros(len(ids), np.bool_)
        known = self.ids
        places = np.minimum(np.searchsorted(known, ids), self.count - 1)
        there: Array = known[places] == ids
        out[there] = self.rows[places[there]]
        return there


def write(path: Path, ids: Array, pieces: Iterable[Array]) -> None:
    """Write such a file.

    Parameters
    ----------
    path : Path
    ids : ndarray, shape (k,), int64
        Ascending.
    pieces : iterable of ndarray, shape (any, columns), float32
        The rows, in order.
    """
    with path.open("wb") as file:
        file.write(np.ascontiguousarray(ids).data)
        for piece in pieces:
            file.write(np.ascontiguousarray(piece).data)


def find_in(files: Sequence[RowsFile], number: int, table: ServedTable, ids: Array) -> Array:
    """Return rows of a table: those of the last file that has them, or as they begin.

    Parameters
    ----------
    files : sequence of RowsFile
    number : int
        The table's.
    table : ServedTable
    ids : ndarray, shape (k,), int64

    Returns
    -------
    ndarray, shape (k, columns), float32
    """
    rows = np.empty((len(ids), table.columns), np.float32)
    left = np.arange(len(ids))
    for file in reversed(files):
        if file.table == number and left.size:
            # A model that only predicts does not know of what an optimizer keeps.
            found = np.empty((len(left), file.columns), np.float32)
            there = file.find(ids[left], found)
            rows[left[there]] = found[there, : table.columns]
            left = left[~there]
    if left.size:
        rows[left] = table.begin(ids[left])
    return rows
