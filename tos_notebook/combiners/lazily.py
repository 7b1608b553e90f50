"""Rules that keep something between pushes, for a few rows of a table: as in lazy Adam.

What a rule keeps of a row is as the last round that changed the row has left it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from ..common.arrays import Array
from .base import PushInfo, StatefulCombiner

Rule = TypeVar("Rule", bound=StatefulCombiner)

NO_ROWS: Array = np.empty(0, np.int64)


@contextmanager
def on_rows(
    rule: Rule, names: Sequence[str], center: Array, rows: Array
) -> Iterator[tuple[Rule, Array]]:
    """Yield a rule and a center for some rows; what becomes of them is put back afterwards.

    Parameters
    ----------
    rule : StatefulCombiner
        Of the whole slice.
    names : sequence of str
        Its attributes that are arrays of the slice's shape; all others are shared.
    center : ndarray, shape (n, width)
    rows : ndarray, int64
    """
    part = copy.copy(rule)
    arrays = {name: getattr(rule, name).reshape(center.shape) for name in names}
    for name, array in arrays.items():
        setattr(part, name, array[rows])
    few = center[rows]
    yield part, few
    center[rows] = few
    for name, array in arrays.items():
        array[rows] = getattr(part, name)


def merge_whole(
    rule: StatefulCombiner, center: Array, rows: Array, update: Array, push: PushInfo
) -> Array:
    """Merge changes of some rows as those of all: the round has begun with changes of all rows.

    See `Combiner.merge_rows`.
    """
    whole = np.zeros(center.shape, update.dtype)
    whole[rows] = update
    rule.merge(center.reshape(-1), whole.reshape(-1), push)
    update[...] = whole[rows]
    return np.arange(len(center))
