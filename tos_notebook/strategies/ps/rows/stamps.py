"""When the rows of a table have changed last."""

from __future__ import annotations

import numpy as np

from ....common.arrays import Array


class Stamps:
    """Times of the consecutive rows that a stripe has; a time counts changes of the center.

    Parameters
    ----------
    table : int
        The table, counted from 0.
    first : int
        Its first row here.
    rows : int
        How many are here.
    """

    def __init__(self, table: int, first: int, rows: int) -> None:
        self.table, self.first, self.rows = table, first, rows
        self._times = np.zeros(rows, np.int64)
        self._all = self._last = 0

    def mark(self, rows: Array, time: int) -> None:
        """Take note that some rows have changed."""
        if rows.size:
            self._times[rows] = time
            self._last = time

    def mark_all(self, time: int) -> None:
        """Take note that all may have changed."""
        self._all = self._last = time

    def since(self, time: int) -> Array:
        """Return which rows have changed after a time."""
        if self._all > time:
            return np.arange(self.rows)
        if self._last <= time:
            return np.empty(0, np.int64)
        return np.flatnonzero(self._times > time)
