"""Rows that do not fit into the memory of their process: refused before the system kills it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ..blocks.block import Columns, concatenate
from ..cluster.jvm import available
from ..common.arrays import nbytes_of
from ..errors import DataError

MEMORY = Path("/proc/meminfo")
"""Where Linux says how much memory is free."""

RESIDENT = Path("/proc/self/statm")
"""Where it says how many pages this process has."""

STEP = 2**24
"""Bytes of a column between two looks at what is left."""

UNIT = 2**20
"""Bytes; of the numbers in messages."""


def resident() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(RESIDENT.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def room() -> int:
    """Return the bytes that this process may take in addition, at most."""
    found = available() - resident()
    # The file need not be there.
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split(":") for line in MEMORY.read_text("ascii").splitlines())
        sizes = {name: int(text.split()[0]) * 1024 for name, text in lines}
        found = min(found, sizes["MemAvailable"] + sizes["SwapFree"])
    return max(0, found)


def require_room(nbytes: int, what: str, remedy: str) -> None:
    """Refuse what does not fit.

    Parameters
    ----------
    nbytes : int
    what, remedy : str
        For the message: what takes so many bytes, and what to do about it.

    Raises
    ------
    DataError
        There is less memory.
    """
    free = room()
    if nbytes > free:
        raise DataError(
            f"{what} {nbytes / UNIT:,.1f} MiB, but the machine, or its container, has only "
            f"{free / UNIT:,.1f} MiB left. {remedy}"
        )


def gathered(blocks: Iterable[Columns], names: Sequence[str], where: str) -> Columns:
    """Return all rows of a partition as one block.

    Parameters
    ----------
    blocks : iterable of Columns
    names : sequence of str
        Of the columns, for the message.
    where : str
        Whose rows they are, such as ``"Partition 3"``.

    Raises
    ------
    DataError
        They do not fit into memory: to join them takes a copy of one column at a time.
    """
    came: list[Columns] = []
    sizes: list[int] = []
    rows = due = 0
    for block in blocks:
        came.append(block)
        rows += len(block[0])
        sizes = [
            size + nbytes_of(column)
            for size, column in zip(sizes or [0] * len(block), block, strict=True)
        ]
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        # The only block is not copied.
        if len(came) > 1 and sizes[largest] >= due:
            due = sizes[largest] + STEP
            require_room(
                sizes[largest],
                f"{where}, column {names[largest]!r}: the first {rows:,} rows take",
                "Cut the data into more partitions, take a narrower column or a smaller dtype, or "
                "stream them: write a function that returns a tf.data.Dataset.",
            )
    return concatenate(came)
