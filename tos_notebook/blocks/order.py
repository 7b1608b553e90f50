"""An order of rows that depends on what they are, not on the order in which they came."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array
from .block import Columns, concatenate
from .sparse import SparseRows


def in_content_order(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Yield all rows of blocks as one, in `content_order`; nothing for no blocks."""
    columns = concatenate(list(blocks))
    if columns:
        order = content_order(columns)
        yield tuple(column[order] for column in columns)


def content_order(columns: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Return an order that depends on what the rows are, not on the order in which they came.

    Parameters
    ----------
    columns : sequence of ndarray, shape (rows, ...)

    Returns
    -------
    ndarray, shape (rows,), int64
    """
    order = np.arange(len(columns[0]))
    for column in reversed(columns):
        size = math.prod(column.shape[1:])
        if not size:
            continue
        if isinstance(column, SparseRows):
            order = order[np.argsort(column[order].keys(), kind="stable")]
            continue
        rows = np.ascontiguousarray(column[order]).reshape(len(order), size)
        # As bytes: any order will do as long as it is always the same.
        keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * size))).reshape(-1)
        order = order[np.argsort(keys, kind="stable")]
    return order
