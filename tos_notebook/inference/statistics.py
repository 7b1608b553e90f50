"""What preprocessing layers learn of rows: counts of tokens, means and variances, on executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..blocks.block import BLOCK_ROWS, Columns
from ..blocks.sparse import at_once, dense_batches
from ..common.arrays import Array

Tokenize = Callable[[Columns], tuple[Array, ...]]

Counted = tuple[Any, tuple[int, int]]
"""A token; how often it is there, and in how many rows."""

Moments = tuple[int, Array, Array]
"""Values; their mean, and the sum of squared differences from it."""

NOTHING: Moments = (0, np.zeros(1), np.zeros(1))
"""The moments of no values, of any width."""


def counted(
    tokenize: Tokenize | None, by_row: bool, blocks: Iterable[Columns]
) -> Iterator[Counted]:
    """Yield the tokens of a partition, and under None how many rows it has.

    Parameters
    ----------
    tokenize : callable or None
        Makes tokens of text, rows filled up with empty ones; None to count values as they are.
    by_row : bool
        Whether to count the rows that have a token.
    blocks : iterable of Columns
        Of one column.
    """
    counts: Counter[Any] = Counter()
    held: Counter[Any] = Counter()
    rows = 0
    for block in blocks:
        for first in range(0, len(block[0]), BLOCK_ROWS):
            part = block[0][first : first + BLOCK_ROWS]
            found = part if tokenize is None else tokenize((part,))[0]
            values = found.reshape(len(part), -1).tolist()
            rows += len(part)
            for row in values:
                counts.update(row)
                if by_row:
                    held.update(set(row))
    if tokenize is not None:
        # What fills shorter rows up.
        counts.pop(b"", None)
    yield None, (rows, 0)
    for token, count in counts.items():
        yield token, (count, held[token])


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return the sums of both counts."""
    return one[0] + other[0], one[1] + other[1]


def is_total(pair: Counted) -> bool:
    """Whether this is how many rows there are."""
    return pair[0] is None


def is_token(pair: Counted) -> bool:
    """Whether this is not how many rows there are."""
    return not is_total(pair)


def by_frequency(pair: Counted) -> tuple[int, Any]:
    """Return by what Keras orders tokens."""
    token, (count, _) = pair
    return count, token


def moments(whole: bool, blocks: Iterable[Columns]) -> Iterator[Moments]:
    """Yield the moments of some rows at a time: of all numbers, or for each place of the last axis.

    Parameters
    ----------
    whole : bool
        Whether they are of all numbers.
    blocks : iterable of Columns
        Of one column.
    """
    for block in blocks:
        for (column,) in dense_batches(block, at_once(block, BLOCK_ROWS)):
            width = 1 if whole or column.ndim < 2 else column.shape[-1]
            values = np.asarray(column, np.float64).reshape(-1, width)
            mean = values.mean(0)
            yield len(values), mean, ((values - mean) ** 2).sum(0)


def joined(one: Moments, other: Moments) -> Moments:
    """Return the moments of both (Chan, Golub and LeVeque, 1979)."""
    count = one[0] + other[0]
    share = other[0] / max(1, count)
    apart = other[1] - one[1]
    return count, one[1] + apart * share, one[2] + other[2] + apart**2 * (one[0] * share)
