"""The update that a worker makes of what it has trained, where tables are exchanged by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ....common.arrays import Array, Buffer, is_finite
from ....common.table_rows import TableRows
from ....layout import Layout

PIECE = 1 << 18
"""Bytes that are compared at once, so that the results stay in a core's cache."""


class Changes:
    """Makes updates: the dense part in the buffer of the adopted parameters, tables beside it.

    Parameters
    ----------
    layout : Layout
        With tables.
    adopted : ndarray, shape (layout.nbytes,), uint8

    Attributes
    ----------
    touched : sequence of TableRows or None
        Of each table, new values of all rows that may have changed; None if any row may.
    tables : list of TableRows
        The update.
    """

    def __init__(self, layout: Layout, adopted: Buffer) -> None:
        self._layout = layout
        tensors = layout.tensors(adopted)
        self._dense = [tensors[spec.name] for spec in layout.specs if not spec.by_row]
        self._tables = layout.table_arrays(adopted)
        self._adds = True
        self.touched: Sequence[TableRows] | None = None
        self.tables: list[TableRows] = []

    def use(self, pushes: str) -> None:
        """Make changes from now on, or what has become of parameters: ``"weights"``."""
        self._adds = pushes == "delta"

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite.

        Parameters
        ----------
        trained : iterable of ndarray
            The parameters after a milestone, in the program's order; without tables if their rows
            are `touched`.
        """
        values = list(trained)
        if self.touched is None:
            both = list(zip(self._layout.specs, values, strict=True))
            values = [value for spec, value in both if not spec.by_row]
            whole = [value for spec, value in both if spec.by_row]
            pairs = zip(self._tables, whole, strict=True)
            self.tables = [self._compared(before, after) for before, after in pairs]
        else:
            touched = zip(self._tables, self.touched, strict=True)
            self.tables = [self._update(before, rows) for before, rows in touched]
        finite = True
        for before, after in zip(self._dense, values, strict=True):
            self._write(before, after)
            finite = finite and is_finite(before)
        return finite and all(is_finite(rows.values) for rows in self.tables)

    def _write(self, before: Array, after: Array) -> None:
        if self._adds:
            np.subtract(after, before, out=before)
        else:
            np.copyto(before, after)

    def _compared(self, before: Array, after: Array) -> TableRows:
        ids = changed_rows(before, after)
        if 2 * len(ids) < len(before):
            return self._update(before, TableRows(ids, after[ids]))
        self._write(before, after)
        return TableRows(None, before)

    def _update(self, before: Array, after: TableRows) -> TableRows:
        ids, values = after
        assert ids is not None
        update = TableRows(ids, values - before[ids] if self._adds else values)
        return update if 2 * len(ids) < len(before) else self._expanded(before, update)

    def expand(self) -> None:
        """Make it an update of all rows, in the buffer of the adopted parameters."""
        pairs = zip(self._tables, self.tables, strict=True)
        self.tables = [self._expanded(before, rows) for before, rows in pairs]

    def _expanded(self, before: Array, update: TableRows) -> TableRows:
        if update.ids is not None:
            if self._adds:
                before[...] = 0
            before[update.ids] = update.values
        return TableRows(None, before)


def changed_rows(before: Array, after: Array) -> Array:
    """Return the numbers of the rows in which two tables differ.

    Parameters
    ----------
    before, after : ndarray, shape (n, width)
        Contiguous.

    Returns
    -------
    ndarray, int64
    """
    count = max(1, PIECE // (before.itemsize * before.shape[1]))
    found = [
        np.flatnonzero((before[first : first + count] != after[first : first + count]).any(1))
        + first
        for first in range(0, len(before), count)
    ]
    return np.concatenate(found)
