"""Rows on their way to a node, in blocks; the same rows are the same blocks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ..errors import DataError
from .packing import pack

BLOCK = 1 << 18
"""Bytes of rows that are sent at once, about. Lists of more leave the processor's caches, and are
what Python's garbage collector looks through again and again.
"""

FIRST_ROWS, MOST_ROWS = 32, 8192
"""Rows of the first block, which shows how large a row is, and of any block at most."""

MARKED = 4096
"""Bytes of a block by which it is known again, its last ones."""

DIFFER = (
    "Expected a partition to have the same rows in the same order when Spark makes them again, but "
    "they differ, such as behind a shuffle (repartition, join). Sort them, or write them to files, "
    "and feed what is read."
)

Block = tuple[list[bytes | memoryview], int]
"""Packed rows, with how many they are."""


def blocks_of(rows: Iterable[Any]) -> Iterator[Block]:
    """Yield rows as blocks of about `BLOCK` bytes."""
    count, rows = FIRST_ROWS, iter(rows)
    while block := list(islice(rows, count)):
        packed = pack(block)
        size = sum(map(len, packed))
        yield packed, len(block)
        # Slowly, as the next rows may be much larger.
        count = max(1, min(MOST_ROWS, 4 * count, BLOCK * len(block) // size))


def mark_of(block: bytes | memoryview, before: int) -> int:
    """Return what tells a sequence of blocks from others, such as of other rows or another order.

    Parameters
    ----------
    block : bytes-like
        The last one.
    before : int
        Of those before it; 0 for none.
    """
    # All of it would take time. Rows that come in another order differ here, too.
    return zlib.crc32(block[-MARKED:], before)


class RowsMissing(Exception):
    """There are fewer rows than were sent before."""


def blocks_after(sent: Iterable[int], mark: int, rows: Iterable[Any]) -> Iterator[Block]:
    """Yield rows as blocks, but those that were sent before.

    Parameters
    ----------
    sent : iterable of int
        How many rows the blocks held that were.
    mark : int
        Of these blocks; see `mark_of`.
    rows : iterable
        All of them.

    Raises
    ------
    DataError
        They are others now, or have another order.
    RowsMissing
        They end before: Spark cuts rows short where what makes them fails, and says so later.
    """
    rows, found = iter(rows), 0
    for count in sent:
        block = list(islice(rows, count))
        if len(block) < count:
            raise RowsMissing(f"{DIFFER} There are fewer of them.")
        found = mark_of(b"".join(pack(block)), found)
    if found != mark:
        raise DataError(DIFFER)
    yield from blocks_of(rows)
