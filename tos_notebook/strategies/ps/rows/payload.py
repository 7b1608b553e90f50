"""What worker and server send each other where tables are exchanged by row.

::

    u64 for each table: how many rows | the dense part | for each table: numbers u32 | rows

Each part begins at a multiple of `ALIGNMENT`. The dense part is the first `Layout.dense_nbytes` of
a buffer. A table of which all rows are sent has no numbers. Where worker and server share memory,
the dense part and such tables are there, and not in the payload. A layout may have no tables, as
that of a shard's part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....common.arrays import ALIGNMENT, Array, Buffer, aligned_empty
from ....common.table_rows import TableRows
from ....errors import RemoteProtocolError
from ....layout import Layout, Segment


def longest(layout: Layout, shared: bool) -> int:
    """Return the most bytes that a payload may have."""
    # Of a table, all rows but one with their numbers may be longer than all rows without.
    counts = [_rows(segment) - 1 for segment in layout.tables]
    whole = _end(layout, [_rows(segment) for segment in layout.tables], shared)
    return max(whole, _end(layout, counts, shared))


def pack(layout: Layout, dense: Buffer | None, tables: Sequence[TableRows], shared: bool) -> Buffer:
    """Return a payload.

    Parameters
    ----------
    layout : Layout
    dense : ndarray, shape (layout.dense_nbytes,) or longer, uint8, optional
        None where memory is shared.
    tables : sequence of TableRows
        Of each table, some rows or all.
    shared : bool
    """
    both = list(zip(layout.tables, tables, strict=True))
    counts = [_rows(s) if rows.ids is None else len(rows.ids) for s, rows in both]
    buffer = aligned_empty(_end(layout, counts, shared))
    buffer[: 8 * len(counts)].view(np.uint64)[:] = counts
    if dense is not None:
        start = _aligned(8 * len(counts))
        buffer[start : start + layout.dense_nbytes] = dense[: layout.dense_nbytes]
    for (_, rows), (ids, values) in zip(both, _places(layout, counts, shared), strict=True):
        if rows.ids is not None and ids.start < ids.stop:
            buffer[ids].view(np.uint32)[:] = rows.ids
        if values.start < values.stop:
            buffer[values].view(rows.values.dtype)[:] = rows.values.reshape(-1)
    return buffer


def unpack(
    layout: Layout, payload: memoryview | Buffer, shared: Buffer | None
) -> tuple[Buffer, list[TableRows]]:
    """Return the dense part and the rows of a payload, or of shared memory; nothing is copied.

    Parameters
    ----------
    layout : Layout
    payload : buffer
    shared : ndarray, shape (layout.nbytes,), uint8, optional
        Memory that both sides have.

    Raises
    ------
    RemoteProtocolError
        It is no such payload, or has rows that a table does not have, or not in ascending order.
    """
    data: Buffer = np.frombuffer(payload, np.uint8)
    head = 8 * len(layout.tables)
    counts = data[:head].view(np.uint64).tolist() if len(data) >= head else []
    pairs = zip(counts, layout.tables, strict=False)
    fits = len(counts) == len(layout.tables) and all(count <= _rows(s) for count, s in pairs)
    if not fits or len(data) != _end(layout, counts, shared is not None):
        raise RemoteProtocolError(
            f"Expected rows of {len(layout.tables)} tables, got {len(data)} bytes that say they "
            f"are {', '.join(map(str, counts)) or 'no'} rows."
        )
    if shared is None:
        start = _aligned(head)
        dense: Buffer = data[start : start + layout.dense_nbytes]
    else:
        dense = shared[: layout.dense_nbytes]
    found = list[TableRows]()
    for number, (ids, values) in enumerate(_places(layout, counts, shared is not None)):
        segment = layout.tables[number]
        rows, width = _shape(segment)
        if counts[number] == rows and shared is not None:
            found.append(TableRows(None, layout.table_arrays(shared)[number]))
            continue
        array: Array = data[values].view(segment.dtype).reshape(-1, width)
        names = None if counts[number] == rows else _numbers(data[ids], rows)
        found.append(TableRows(names, array))
    return dense, found


def _numbers(data: Buffer, rows: int) -> Array:
    ids = data.view(np.uint32).astype(np.int64)
    if len(ids) and (ids[-1] >= rows or not (ids[1:] > ids[:-1]).all()):
        raise RemoteProtocolError(
            f"Expected numbers of rows in ascending order, each below {rows}, got others."
        )
    return ids


def _places(layout: Layout, counts: Sequence[int], shared: bool) -> Iterator[tuple[slice, slice]]:
    """Yield where the numbers and the rows of each table are; at the end, where all ends."""
    start = _first(layout, shared)
    for count, segment in zip(counts, layout.tables, strict=True):
        rows, width = _shape(segment)
        whole = count == rows
        numbers = slice(start, start if whole else start + 4 * count)
        start = _aligned(numbers.stop)
        nbytes = 0 if whole and shared else count * width * np.dtype(segment.dtype).itemsize
        yield numbers, slice(start, start + nbytes)
        start = _aligned(start + nbytes)


def _end(layout: Layout, counts: Sequence[int], shared: bool) -> int:
    end = _first(layout, shared)
    for _, values in _places(layout, counts, shared):
        end = _aligned(values.stop)
    return end


def _first(layout: Layout, shared: bool) -> int:
    """Return where the first table begins, behind the dense part."""
    head = _aligned(8 * len(layout.tables))
    return head if shared else head + _aligned(layout.dense_nbytes)


def _shape(segment: Segment) -> tuple[int, int]:
    assert segment.table is not None
    return segment.table


def _rows(segment: Segment) -> int:
    return _shape(segment)[0]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
