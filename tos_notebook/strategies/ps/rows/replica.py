"""A worker's parameters where tables are exchanged by row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ....archive.runner import Runner, Trained
from ....common.arrays import Array, Buffer
from ....common.table_rows import TableRows
from ....layout import Layout
from ....wire.settings import WorkerSettings
from .changes import Changes


class RowReplica:
    """Trains from the adopted parameters, makes updates by row, and adopts rows.

    Parameters
    ----------
    layout : Layout
        With tables.
    adopted : ndarray, shape (layout.nbytes,), uint8

    Attributes
    ----------
    by_row : bool
        Whether the server's settings are that tables are exchanged by row.
    """

    def __init__(self, layout: Layout, adopted: Buffer) -> None:
        self.by_row = False
        self._vectors = layout.vectors(adopted)
        self._tables = layout.table_arrays(adopted)
        self._changes = Changes(layout, adopted)
        # Of each table, the rows that are others in the program than here; None for any.
        self._moved: list[list[Array] | None] = [None] * len(self._tables)

    def use(self, settings: WorkerSettings) -> None:
        """Make updates by other settings from now on."""
        self.by_row = settings.strategy.get("by_row") == "yes"
        self._changes.use(settings.strategy["pushes"])
        if not self.by_row:
            # What is adopted meanwhile is not adopted here.
            self._moved = [None] * len(self._tables)

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """Train from the adopted parameters; see `Runner.train`."""
        self._changes.touched = None
        if self.by_row:
            moved = [None if found is None else _union(found) for found in self._moved]
            trained = runner.train_rows(self._vectors, moved, columns, batch_size)
            if trained is not None:
                self._changes.touched = trained.tables
                self._moved = [None if t.ids is None else [t.ids] for t in trained.tables]
                return Trained(trained.parameters, trained.values)
        self._moved = [None] * len(self._tables)
        return runner.train(self._vectors, columns, batch_size)

    def write(self, trained: Iterable[Array]) -> bool:
        """Make the update of what was trained; return whether it is finite.

        Its dense part is where the adopted one was.
        """
        return self._changes.write(trained)

    @property
    def update(self) -> Sequence[TableRows]:
        """The tables of the update. One of all rows is where the adopted one was."""
        return self._changes.tables

    def expand(self) -> None:
        """Make it an update of all rows."""
        self._changes.expand()

    def adopt(self, number: int, first: int, rows: TableRows) -> None:
        """Adopt rows of a table; threads may do so at once, each for rows of its own.

        Parameters
        ----------
        number : int
            Which table.
        first : int
            From which row on the ids count.
        rows : TableRows
            All of them are as many as the server has from `first` on.
        """
        table, (ids, values) = self._tables[number], rows
        if ids is None:
            part = table[first : first + len(values)]
            if not np.may_share_memory(part, values):
                part[...] = values
            if len(values) == len(table):
                self._moved[number] = None
                return
            ids = np.arange(first, first + len(values))
        else:
            ids = ids + first
            table[ids] = values
        moved = self._moved[number]
        if moved is not None:
            moved.append(ids)


def _union(found: Sequence[Array]) -> Array:
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))
