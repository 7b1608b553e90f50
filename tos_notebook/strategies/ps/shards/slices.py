"""The parts of the parameters that shards have: consecutive stripes of the whole layout.

A stripe is the same in each arrangement, so that what a combiner keeps of it can move to another
number of shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ....common.arrays import ALIGNMENT
from ....layout import Layout, ParameterSpec

FEWEST_STRIPES = 64
"""Of a model, so that few of them make shards of about the same size."""


class Slice(NamedTuple):
    """Consecutive bytes of a buffer, and their layout."""

    start: int
    stop: int
    stripes: int
    """How many there are."""
    layout: Layout


class _Stripe(NamedTuple):
    segment: int
    start: int
    """Its first byte in the whole buffer."""
    nbytes: int
    size: int
    """Elements."""


def stripe_length(layout: Layout, most: int) -> int:
    """Return the bytes of a stripe, a multiple of `ALIGNMENT`.

    Parameters
    ----------
    layout : Layout
    most : int
        Bytes.
    """
    wanted = min(most, layout.nbytes // FEWEST_STRIPES)
    return max(1, -(-wanted // ALIGNMENT)) * ALIGNMENT


def slices(layout: Layout, count: int, stripe_bytes: int) -> list[Slice]:
    """Return the parts of a layout, of about the same length; fewer if it has fewer stripes.

    Parameters
    ----------
    layout : Layout
    count : int
        How many, at least 1.
    stripe_bytes : int
        See `stripe_length`.
    """
    stripes = list(_stripes(layout, stripe_bytes))
    ends = np.cumsum([max(1, stripe.nbytes) for stripe in stripes])
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


def _stripes(layout: Layout, stripe_bytes: int) -> Iterator[_Stripe]:
    """Yield the stripes as `stripes.cut` makes them."""
    for number, segment in enumerate(layout.segments):
        itemsize = np.dtype(segment.dtype).itemsize
        length = max(1, stripe_bytes // itemsize)
        for start in range(0, max(1, segment.size), length):
            size = min(length, segment.size - start)
            yield _Stripe(number, segment.offset + start * itemsize, size * itemsize, size)


def _slice(layout: Layout, stripes: Sequence[_Stripe]) -> Slice:
    specs = []
    for number, group in groupby(stripes, lambda stripe: stripe.segment):
        segment = layout.segments[number]
        size = sum(stripe.size for stripe in group)
        specs.append(ParameterSpec(str(number), (size,), segment.dtype, segment.trained))
    part = Layout(specs)
    start = stripes[0].start
    return Slice(start, start + part.nbytes, len(stripes), part)
