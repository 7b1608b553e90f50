"""Rows that are nearly all zeros: held as what is not zero, and made dense batch by batch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array

WIDTH = 1024
"""Narrower rows are made dense when they are read."""


DENSE_BYTES = 1 << 26
"""Of the rows that are dense at once for a prediction, whatever its batch size."""


@dataclass(eq=False, repr=False, slots=True)
class SparseRows:
    """A column of a block, of vectors.

    It is moved like an array, by `len`, slices and indices of rows, and is fed as one by `dense`.

    Parameters
    ----------
    ends : ndarray, shape (rows + 1,), int64
        Where each row's values begin, and the last one's end.
    indices : ndarray, shape (values,), int32
        Where in their rows the values are.
    values : ndarray, shape (values,)
    row : tuple of int
        Shape of one row, once it is dense.
    """

    ends: Array
    indices: Array
    values: Array
    row: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As if it were dense."""
        return (len(self), *self.row)

    @property
    def nbytes(self) -> int:
        """Of the parts."""
        return sum(part.nbytes for part in self.parts)

    @property
    def parts(self) -> tuple[Array, ...]:
        """The arrays that it is made of."""
        return self.ends, self.indices, self.values

    def __getitem__(self, rows: slice | npt.NDArray[np.integer[Any]]) -> SparseRows:
        chosen = np.arange(len(self))[rows]
        begins, counts = self.ends[chosen], np.diff(self.ends)[chosen]
        ends = np.concatenate([[0], np.cumsum(counts)])
        places = np.arange(ends[-1]) + np.repeat(begins - ends[:-1], counts)
        return SparseRows(ends, self.indices[places], self.values[places], self.row)

    def dense(self, out: Array | None = None) -> Array:
        """Return all rows with their zeros.

        Parameters
        ----------
        out : ndarray, shape (rows, *row), contiguous, optional
            Where to.
        """
        target = np.empty(self.shape, self.dtype) if out is None else out
        target[...] = 0
        numbers = np.repeat(np.arange(len(self)), np.diff(self.ends))
        target.reshape(len(self), math.prod(self.row))[numbers, self.indices] = self.values
        return target

    def keys(self) -> Array:
        """Return a digest of each row, by which rows can be put in an order."""
        found = []
        for begin, end in zip(self.ends[:-1], self.ends[1:], strict=True):
            content = self.indices[begin:end].tobytes() + self.values[begin:end].tobytes()
            found.append(hashlib.blake2b(content, digest_size=16).digest())
        return np.array(found, np.dtype((np.void, 16)))


def at_once(columns: Sequence[Any], rows: int) -> int:
    """Return how many rows to make dense at once: `rows`, or fewer if they are wide.

    Parameters
    ----------
    columns : sequence of ndarray or SparseRows
    rows : int
    """
    sparse = [column for column in columns if isinstance(column, SparseRows)]
    nbytes = sum(math.prod(column.row) * column.dtype.itemsize for column in sparse)
    return max(1, min(rows, DENSE_BYTES // nbytes)) if nbytes else rows


def join(parts: Sequence[SparseRows]) -> SparseRows:
    """Return the rows of all parts, at least one, in their order."""
    counts = np.concatenate([np.diff(part.ends) for part in parts])
    ends = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([part.indices for part in parts])
    values = np.concatenate([part.values for part in parts])
    return SparseRows(ends, indices, values, parts[0].row)


def dense(column: Any) -> Array:
    """Return rows as an array: an array itself, without a copy."""
    array: Array = column.dense() if isinstance(column, SparseRows) else column
    return array


def dense_batches(columns: Sequence[Any], rows: int) -> Iterator[list[Array]]:
    """Yield columns as arrays of so many rows at a time, the last ones perhaps of fewer."""
    for start in range(0, len(columns[0]), rows):
        yield [dense(column[start : start + rows]) for column in columns]
