"""The parts of the parameters that shards have: consecutive stripes of the whole layout.

A stripe is the same in each arrangement, so that what a combiner keeps of it can move to another
number of shards. A part of a table is a table, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ....common.arrays import ALIGNMENT
from ....layout import Layout, ParameterSpec, Segment
from ..stripes import TABLE_STRIPES, Lengths, Span, spans

FEWEST_STRIPES = 64
"""Of a model, so that few of them make shards of about the same size."""


class TablePart(NamedTuple):
    """Consecutive rows of a table."""

    table: int
    """Which one, counted from 0."""
    first: int
    rows: int
    """How many."""


class Slice(NamedTuple):
    """Consecutive bytes of a buffer, and their layout."""

    start: int
    stop: int
    stripes: int
    """How many there are."""
    layout: Layout
    tables: tuple[TablePart, ...] = ()
    """What the layout's tables are."""


def stripe_lengths(layout: Layout, most: int) -> Lengths:
    """Return the bytes of stripes, multiples of `ALIGNMENT`.

    Parameters
    ----------
    layout : Layout
    most : int
        Bytes of one that is of no table.
    """
    few = layout.nbytes // FEWEST_STRIPES
    return Lengths(_aligned(min(most, few)), _aligned(min(TABLE_STRIPES * most, few)))


def _aligned(nbytes: int) -> int:
    return max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT


def slices(layout: Layout, count: int, lengths: Lengths) -> list[Slice]:
    """Return the parts of a layout, of about the same length; fewer if it has fewer stripes.

    Parameters
    ----------
    layout : Layout
    count : int
        How many, at least 1.
    lengths : Lengths
        See `stripe_lengths`.
    """
    stripes = list(spans(layout, lengths))
    ends = np.cumsum([max(1, _nbytes(layout.segments[s.segment], s)) for s in stripes])
    count = min(count, len(stripes))
    first, found = 0, list[Slice]()
    for number in range(count):
        wanted = ends[-1] * (number + 1) / count
        last = int(np.searchsorted(ends, wanted - 0.5))
        # At least one for each that is left.
        last = min(max(last, first), len(stripes) - (count - number))
        found.append(_slice(layout, stripes[first : last + 1]))
        first = last + 1
    return found


def _nbytes(segment: Segment, span: Span) -> int:
    return (span.stop - span.start) * np.dtype(segment.dtype).itemsize


def _slice(layout: Layout, stripes: Sequence[Span]) -> Slice:
    specs, tables = list[ParameterSpec](), list[TablePart]()
    dense = len(layout.segments) - len(layout.tables)
    for number, group in groupby(stripes, lambda stripe: stripe.segment):
        segment, mine = layout.segments[number], list(group)
        start, size = mine[0].start, mine[-1].stop - mine[0].start
        shape: tuple[int, ...] = (size,)
        if segment.table is not None:
            width = segment.table[1]
            shape = size // width, width
            tables.append(TablePart(number - dense, start // width, shape[0]))
        by_row = segment.table is not None
        specs.append(
            ParameterSpec(str(number), shape, segment.dtype, segment.trained, by_row=by_row)
        )
    part, first = Layout(specs), layout.segments[stripes[0].segment]
    offset = first.offset + stripes[0].start * np.dtype(first.dtype).itemsize
    return Slice(offset, offset + part.nbytes, len(stripes), part, tuple(tables))
