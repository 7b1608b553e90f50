"""The mean of what workers bring, weighted by rows, in the order of their partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...common.arrays import Array, Buffer
from ...layout import Layout

PIECE = 65_536
"""Elements that are added up at once: they stay in a core's cache."""


def mean(layout: Layout, parts: Sequence[tuple[Buffer, int]], out: Buffer) -> None:
    """Add up ``rows / all rows`` times each part, one after the other.

    The order is fixed, so that the same parts give the same bits.

    Parameters
    ----------
    layout : Layout
    parts : sequence of (ndarray, int)
        At least one buffer of `layout.nbytes` bytes, and its rows, from 1.
    out : ndarray, shape (layout.nbytes,), uint8
        Where to; none of the parts.
    """
    rows = sum(count for _, count in parts)
    shares = [count / rows for _, count in parts]
    columns = zip(*(layout.vectors(part) for part, _ in parts), strict=True)
    for total, vectors in zip(layout.vectors(out), columns, strict=True):
        if total.dtype.kind == "f":
            _add_up(total, vectors, shares)
        else:
            wide = np.zeros(len(total))
            _add_up(wide, vectors, shares)
            np.rint(wide, out=wide)
            total[...] = wide


def _add_up(total: Array, vectors: Sequence[Array], shares: Sequence[float]) -> None:
    scratch = np.empty(min(PIECE, len(total)), total.dtype)
    # Where losses are scaled, infinity is the optimizer's business. Else it was refused before.
    with np.errstate(over="ignore", invalid="ignore"):
        _add_pieces(total, vectors, shares, scratch)


def _add_pieces(
    total: Array, vectors: Sequence[Array], shares: Sequence[float], scratch: Array
) -> None:
    for start in range(0, len(total), PIECE):
        piece = total[start : start + PIECE]
        for index, (vector, share) in enumerate(zip(vectors, shares, strict=True)):
            into = piece if index == 0 else scratch[: len(piece)]
            np.multiply(vector[start : start + PIECE], total.dtype.type(share), out=into)
            if index:
                np.add(piece, into, out=piece)
