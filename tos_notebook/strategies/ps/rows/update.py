"""One worker's update by rows, in the server, and then the reply to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....combiners.base import Combiner, PushInfo
from ....common.arrays import Array, Buffer, is_finite
from ....common.table_rows import TableRows
from ....layout import Layout
from ..stripes import Stripe
from .stamps import Stamps

NO_ROWS: Array = np.empty(0, np.int64)


class RowUpdate:
    """An update by rows, or the question for what has changed.

    Parameters
    ----------
    layout : Layout
        With tables.
    dense : ndarray, shape (layout.dense_nbytes,), uint8
        The update's dense part, and then the reply's.
    tables : sequence of TableRows
        What the worker has pushed of each table.
    bases : sequence of (int or None)
        Of each table, the time of the center, see `Stamps`, that the worker has; None where it must
        get all rows.
    whole : sequence of (ndarray or None)
        For each table, where all its rows are to be put; by default in an array of their own.

    Attributes
    ----------
    time : int
        That of the center in the reply; 0 where it is not known.
    own : bool
        Whether the worker continues with what a rule has left in the update.
    """

    def __init__(
        self,
        layout: Layout,
        dense: Buffer,
        tables: Sequence[TableRows],
        bases: Sequence[int | None],
        whole: Sequence[Array | None],
    ) -> None:
        self.layout = layout
        self.dense = dense
        self.tables = list(tables)
        self.time = 0
        self._bases = list(bases)
        self._places = list(whole)
        self._whole: list[Array | None] = [
            table.values if table.ids is None else None for table in tables
        ]
        self.begin()

    def begin(self) -> None:
        """Forget what has been collected."""
        self.own = False
        self._found: list[list[tuple[Array, Array]]] = [[] for _ in self.tables]

    @property
    def vectors(self) -> list[Array]:
        """A vector for each segment; an empty one for a table of which some rows were pushed."""
        tables = [NO_ROWS if t.ids is not None else t.values.reshape(-1) for t in self.tables]
        return [*self.layout.dense_vectors(self.dense), *tables]

    def merge(self, stripe: Stripe, rule: Combiner, push: PushInfo, own: bool) -> None:
        """Merge a stripe of a table, and collect the reply.

        Parameters
        ----------
        stripe : Stripe
            The caller holds its lock.
        rule : Combiner
        push : PushInfo
        own : bool
            Whether the worker continues with what the rule leaves in the update.
        """
        self.own, stamps = own, _stamps(stripe)
        table = self.tables[stamps.table]
        if table.ids is None:
            rule.merge(stripe.center, stripe.of(self.vectors), push)
            stamps.mark_all(self.time)
            return
        low, high = np.searchsorted(table.ids, (stamps.first, stamps.first + stamps.rows))
        rows = table.ids[low:high] - stamps.first
        center = stripe.center.reshape(stamps.rows, -1)
        stamps.mark(rule.merge_rows(center, rows, table.values[low:high], push), self.time)
        if not own:
            self.collect(stripe)

    def collect(self, stripe: Stripe) -> None:
        """Collect the rows of a stripe that have changed since the worker's."""
        stamps = _stamps(stripe)
        number, base = stamps.table, self._bases[stamps.table]
        center = stripe.center.reshape(stamps.rows, -1)
        if base is None or self._whole[number] is not None:
            self._all(number, stripe)[stamps.first : stamps.first + stamps.rows] = center
            return
        changed = stamps.since(base)
        if changed.size:
            self._found[number].append((changed + stamps.first, center[changed]))

    def _all(self, number: int, stripe: Stripe) -> Array:
        found = self._whole[number]
        if found is None:
            place = self._places[number]
            shape = self.layout.tables[number].table
            assert shape is not None
            found = np.empty(shape, stripe.center.dtype) if place is None else place
            self._whole[number] = found
        return found

    def reply(self) -> list[TableRows]:
        """Return what the worker adopts of each table."""
        if self.own:
            return self.tables
        return [self._reply(number) for number in range(len(self.tables))]

    def _reply(self, number: int) -> TableRows:
        whole, found = self._whole[number], self._found[number]
        if whole is not None:
            return TableRows(None, whole)
        if not found:
            return TableRows(NO_ROWS, self.tables[number].values[:0])
        ids, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        place = self._places[number]
        if place is not None and len(ids) == len(place):
            place[...] = values
            return TableRows(None, place)
        return TableRows(ids, values)

    def expand(self, center: Buffer, trained: bool) -> Buffer:
        """Return the update as one of all rows, of which the others have not changed.

        Parameters
        ----------
        center : ndarray, shape (layout.nbytes,), uint8
        trained : bool
            Whether it is of parameters, and not of changes.
        """
        buffer = center.copy() if trained else self.layout.allocate()
        buffer[: self.layout.dense_nbytes] = self.dense
        for array, rows in zip(self.layout.table_arrays(buffer), self.tables, strict=True):
            array[slice(None) if rows.ids is None else rows.ids] = rows.values
        return buffer

    def replace(self, buffer: Buffer) -> None:
        """Take the reply from the whole that `expand` has returned and a rule has changed."""
        self.dense[:] = buffer[: self.layout.dense_nbytes]
        for number, array in enumerate(self.layout.table_arrays(buffer)):
            place = self._places[number]
            if place is not None:
                place[...] = array
            self._whole[number] = array if place is None else place
            self.tables[number] = TableRows(None, array if place is None else place)

    @property
    def finite(self) -> bool:
        """Whether it holds neither NaN nor infinity."""
        arrays = [*self.layout.dense_vectors(self.dense), *(t.values for t in self.tables)]
        return all(is_finite(np.ascontiguousarray(array)) for array in arrays)


def _stamps(stripe: Stripe) -> Stamps:
    assert stripe.stamps is not None
    return stripe.stamps
