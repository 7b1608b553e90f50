"""Rows of served tables in the driver: on its disk, for copies of a run and for after it.

Shards send what has changed since the last copy. A file is never changed, so that each copy of a
run names the files that it is made of, and a file goes with the last copy that names it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....common import temporary
from ....common.arrays import Array
from ....common.served import ServedTable
from ....common.served_files import RowsFile, find_in, write

PIECE = 1 << 25
"""Bytes of rows that are in memory at once."""

FILES = 8
"""Of a table, before some are joined."""

_numbers = count()


class OwnFile:
    """A `RowsFile` of this process, which goes with the last reference.

    Parameters
    ----------
    table : int
    ids : ndarray, shape (k,), int64
        Ascending.
    columns : int
        Values of a row, float32.
    pieces : iterable of ndarray, shape (any, columns), float32
        The rows, in order.
    """

    def __init__(self, table: int, ids: Array, columns: int, pieces: Iterable[Array]) -> None:
        path = Path(temporary.folder(), f"rows-{os.getpid()}-{next(_numbers)}")
        self._close = weakref.finalize(self, partial(path.unlink, missing_ok=True))
        write(path, ids, pieces)
        self.file = RowsFile(path, table, len(ids), columns)


class SavedRows(NamedTuple):
    """All rows of served tables that were trained, as of one moment."""

    tables: tuple[ServedTable, ...]
    own: tuple[OwnFile, ...] = ()
    """The later ones count."""

    @property
    def files(self) -> list[RowsFile]:
        """Likewise; they last as long as this object."""
        return [each.file for each in self.own]

    def find(self, table: int, ids: Array) -> Array:
        """Return rows; untrained ones are as they begin.

        Parameters
        ----------
        table : int
        ids : ndarray, shape (k,), int64

        Returns
        -------
        ndarray, shape (k, columns), float32
        """
        return find_in(self.files, table, self.tables[table], ids)

    def counts(self) -> dict[str, int]:
        """Return how many rows of each table were trained."""
        return {
            table.name: len(_latest([f for f in self.files if f.table == number])[0])
            for number, table in enumerate(self.tables)
        }

    def changed(self, arrays: Sequence[Sequence[Array]]) -> SavedRows:
        """Return these with later rows.

        Parameters
        ----------
        arrays : sequence of sequence of ndarray
            Of each shard, ids and rows of each table.
        """
        own = list(self.own)
        for number, table in enumerate(self.tables):
            ids = np.concatenate([each[2 * number] for each in arrays])
            if len(ids):
                rows = np.concatenate([each[2 * number + 1] for each in arrays])
                order = np.argsort(ids)
                own.append(OwnFile(number, ids[order], table.columns, [rows[order]]))
        return self._replace(own=tuple(own))

    def compact(self, most: int = FILES) -> SavedRows:
        """Return the same rows in fewer files, if a table has more than so many.

        The newest are joined, and older ones that have no more rows than these, as in a
        log-structured merge tree (O'Neil et al. 1996, Acta Informatica 33(4)): a row is not
        written again each time.

        Parameters
        ----------
        most : int
            At least 1.
        """
        kept: list[OwnFile] = []
        for number, table in enumerate(self.tables):
            mine = [each for each in self.own if each.file.table == number]
            if len(mine) > most:
                first = len(mine) - 2
                total = sum(each.file.count for each in mine[first:])
                while first and mine[first - 1].file.count <= total:
                    first -= 1
                    total += mine[first].file.count
                newest = [each.file for each in mine[first:]]
                mine[first:] = [_joined(newest, number, table.columns)]
            kept += mine
        return self._replace(own=tuple(kept))

    def named(self) -> dict[str, Array]:
        """Return what a model sees of the rows: ids and rows of each table, by its name."""
        found: dict[str, Array] = {}
        for number, table in enumerate(self.tables):
            mine = [each for each in self.own if each.file.table == number]
            if len(mine) != 1:
                mine = [_joined([each.file for each in mine], number, table.columns)]
            # Mapped: the file may go.
            found[f"{table.name}/ids"] = mine[0].file.ids
            found[f"{table.name}/rows"] = mine[0].file.rows[:, : table.width]
        return found

    def pieces(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield the rows in order, piece by piece: table, ids and rows."""
        for file in self.files:
            step = max(1, PIECE // (4 * file.columns))
            ids, rows = file.ids, file.rows
            for start in range(0, file.count, step):
                yield file.table, ids[start : start + step], rows[start : start + step]

    @classmethod
    def of_arrays(
        cls,
        tables: tuple[ServedTable, ...],
        numbers: Sequence[int],
        arrays: Sequence[Array],
    ) -> SavedRows:
        """Return what `arrays` and `numbers` were made of.

        Raises
        ------
        ValueError
            They are of other tables.
        """
        own = []
        pairs = zip(arrays[::2], arrays[1::2], strict=True)
        for number, (ids, rows) in zip(numbers, pairs, strict=True):
            columns = tables[number].columns
            plain = ids.dtype == np.int64 and rows.dtype == np.float32
            if not plain or rows.shape != (len(ids), columns):
                raise ValueError(f"expected rows of {columns} values, got {rows.shape}")
            own.append(OwnFile(number, ids, columns, [rows]))
        return cls(tables, tuple(own))

    @property
    def arrays(self) -> list[Array]:
        """Ids and rows of each file; mapped."""
        return [array for file in self.files for array in (file.ids, file.rows)]

    @property
    def numbers(self) -> list[int]:
        """The table of each file."""
        return [file.table for file in self.files]


def _latest(files: Sequence[RowsFile]) -> tuple[Array, Array, Array]:
    """Return the numbers of all rows, and for each the file that counts, and its place there."""
    if not files:
        return (np.empty(0, np.int64),) * 3
    ids = np.concatenate([file.ids for file in files])
    which = np.concatenate([np.full(f.count, n, np.int32) for n, f in enumerate(files)])
    order = np.lexsort((which, ids))
    ids, which = ids[order], which[order]
    last = np.append(ids[1:] != ids[:-1], True)
    starts = np.cumsum([0, *(file.count for file in files)])
    places = order[last] - starts[which[last]]
    return ids[last], which[last], places


def _joined(files: Sequence[RowsFile], number: int, columns: int) -> OwnFile:
    ids, which, places = _latest(files)
    mapped = [file.rows for file in files]
    step = max(1, PIECE // (4 * columns))

    def pieces() -> Iterator[Array]:
        for start in range(0, len(ids), step):
            span = slice(start, start + step)
            piece = np.empty((len(ids[span]), columns), np.float32)
            for number, rows in enumerate(mapped):
                mine = which[span] == number
                piece[mine] = rows[places[span][mine]]
            yield piece

    return OwnFile(number, ids, columns, pieces())
