"""What is sent of tables: it comes as it was sent, and anything else is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.common.table_rows import TableRows
from tos_notebook.errors import RemoteProtocolError
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.rows.changes import changed_rows
from tos_notebook.strategies.ps.rows.payload import longest, pack, unpack

LAYOUT = Layout(
    [
        ParameterSpec("users", (9, 3), "float32", by_row=True),
        ParameterSpec("kernel", (4,), "float64"),
        ParameterSpec("items", (5, 1), "float16", by_row=True),
    ]
)
NO_TABLES = Layout([ParameterSpec("kernel", (4,), "float64")])
ONLY_TABLES = Layout([ParameterSpec("users", (9, 3), "float32", by_row=True)])

IDS = st.one_of(st.none(), st.sets(st.integers(0, 4)).map(sorted))


def rows(layout: Layout, ids: list[Any]) -> list[TableRows]:
    random, found = np.random.default_rng(0), []
    for segment, numbers in zip(layout.tables, ids, strict=False):
        assert segment.table is not None
        count = segment.table[0] if numbers is None else len(numbers)
        values = random.normal(size=(count, segment.table[1])).astype(segment.dtype)
        whole = numbers is None or count == segment.table[0]
        found.append(TableRows(None if whole else np.array(numbers, np.int64), values))
    return found


@given(
    st.sampled_from([LAYOUT, ONLY_TABLES, NO_TABLES]),
    st.lists(IDS, min_size=2, max_size=2),
    st.booleans(),
)
def test_rows_come_as_they_were_sent(layout: Layout, ids: list[Any], shared: bool) -> None:
    sent, memory = rows(layout, ids), layout.allocate()
    memory[:] = np.arange(layout.nbytes, dtype=np.uint8)
    if shared:
        for array, part in zip(layout.table_arrays(memory), sent, strict=True):
            if part.ids is None:
                array[...] = part.values
    payload = pack(layout, None if shared else memory, sent, shared)
    assert len(payload) <= longest(layout, shared)
    dense, found = unpack(layout, payload.data, memory if shared else None)
    assert bytes(dense) == bytes(memory[: layout.dense_nbytes])
    for one, other in zip(sent, found, strict=True):
        ids = [None if part.ids is None else part.ids.tolist() for part in (one, other)]
        assert ids[0] == ids[1]
        assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize("ids", [[3, 3], [4, 1], [1, 9], [2**32 - 1, 2**32 - 1]])
def test_rows_that_a_table_does_not_have_are_refused(ids: list[int]) -> None:
    good = [TableRows(np.array([1, 2]), np.ones((2, 3), np.float32)), rows(LAYOUT, [[], []])[1]]
    payload = pack(LAYOUT, LAYOUT.allocate(), good, shared=False)
    at = payload.tobytes().index(np.array([1, 2], np.uint32).tobytes())
    payload[at : at + 8].view(np.uint32)[:] = ids
    with pytest.raises(RemoteProtocolError, match="ascending order, each below 9"):
        unpack(LAYOUT, payload.data, None)


@pytest.mark.parametrize("count", [0, 8, 10, 2**63, 2**64 - 1])
def test_a_count_that_does_not_fit_is_refused(count: int) -> None:
    payload = pack(LAYOUT, LAYOUT.allocate(), rows(LAYOUT, [[1, 2], [0]]), shared=False)
    payload[:8].view(np.uint64)[:] = count
    with pytest.raises(RemoteProtocolError, match="rows of 2 tables"):
        unpack(LAYOUT, payload.data, None)


@given(st.binary(max_size=700), st.booleans())
def test_other_bytes_are_refused_or_are_rows_of_the_tables(data: bytes, shared: bool) -> None:
    memory = LAYOUT.allocate() if shared else None
    with suppress(RemoteProtocolError):
        _, found = unpack(LAYOUT, memoryview(bytearray(data)), memory)
        for segment, part in zip(LAYOUT.tables, found, strict=True):
            assert segment.table is not None
            ids = np.arange(segment.table[0]) if part.ids is None else part.ids
            assert part.values.shape == (len(ids), segment.table[1])


def test_rows_differ_that_have_other_values() -> None:
    before = np.zeros((70_000, 2), np.float32)
    after = before.copy()
    after[[0, 40_000, 69_999], 1] = 1
    after[5] = np.nan
    assert changed_rows(before, after).tolist() == [0, 5, 40_000, 69_999]
