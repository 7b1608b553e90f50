"""Rows in files are the rows that shards had: the later ones count, whatever was joined."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.long import examples
from tos_notebook.common import temporary
from tos_notebook.common.arrays import Array
from tos_notebook.common.served import ServedTable
from tos_notebook.strategies.ps.served.saved import SavedRows

TABLES = (ServedTable("users", 60, 2, 60, kept=(0.0,)), ServedTable("items", 50, 3, 50))
COPIES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 49), max_size=20, unique=True),
        st.lists(st.integers(0, 49), max_size=20, unique=True),
    ),
    max_size=6,
)


def _arrays(copy: tuple[list[int], ...], salt: int) -> list[Array]:
    arrays: list[Array] = []
    for table, ids in zip(TABLES, copy, strict=True):
        numbers = np.array(ids, np.int64)
        rows = np.repeat(numbers[:, None] * 100.0 + salt, table.columns, axis=1)
        arrays += [numbers, rows.astype(np.float32)]
    return arrays


def _files() -> list[Path]:
    return list(temporary.folder().glob("rows-*"))


@examples(0.5)
@given(COPIES, st.booleans(), st.integers(1, 4))
def test_what_is_found_is_what_came_last(
    copies: list[tuple[list[int], list[int]]], often: bool, most: int
) -> None:
    saved, known = SavedRows(TABLES), [dict[int, float](), dict[int, float]()]
    for salt, copy in enumerate(copies):
        saved = saved.changed([_arrays(copy, salt)])
        for numbers, ids in zip(known, copy, strict=True):
            numbers.update({i: i * 100.0 + salt for i in ids})
        if often:
            saved = saved.compact(most)
    saved = saved.compact(most)
    again = SavedRows.of_arrays(TABLES, saved.numbers, saved.arrays)
    for number, table in enumerate(TABLES):
        everything = np.arange(50)
        expected = table.begin(everything)
        for row, value in known[number].items():
            expected[row] = value
        assert np.array_equal(saved.find(number, everything), expected)
        assert np.array_equal(again.find(number, everything), expected)
        assert saved.counts()[table.name] == len(known[number])
    named = saved.named()
    assert named["users/ids"].tolist() == sorted(known[0])
    assert named["items/rows"][:, 0].tolist() == [known[1][i] for i in sorted(known[1])]
    pieces = [(number, i) for number, ids, _ in saved.pieces() for i in ids.tolist()]
    assert set(pieces) == {(n, i) for n, numbers in enumerate(known) for i in numbers}


def test_rows_of_several_shards_are_put_together() -> None:
    saved = SavedRows(TABLES).changed([_arrays(([9, 3], []), 0), _arrays(([5], [1]), 0)])
    assert [file.ids.tolist() for file in saved.files] == [[3, 5, 9], [1]]


def test_an_earlier_copy_stays_as_it_was_and_files_go_with_the_last_copy_that_names_them() -> None:
    # Those of other tests, which may wait for it.
    gc.collect()
    before = set(_files())
    first = SavedRows(TABLES).changed([_arrays(([1, 2], [3]), 0)])
    later = first.changed([_arrays(([1], [3]), 7)]).compact(1)
    assert first.find(0, np.array([1]))[0, 0] == 100.0
    assert later.find(0, np.array([1]))[0, 0] == 107.0
    del first, later
    gc.collect()
    assert set(_files()) == before


def test_large_files_are_not_written_again_for_few_rows() -> None:
    saved = SavedRows(TABLES).changed([_arrays((list(range(50)), []), 0)])
    (large,) = saved.own
    for salt in range(1, 5):
        saved = saved.changed([_arrays(([salt], []), salt)]).compact(2)
    assert saved.own[0] is large
    assert [file.count for file in saved.files] == [50, 4]


def test_rows_of_another_width_are_refused() -> None:
    arrays = [np.arange(2), np.zeros((2, 5), np.float32)]
    with pytest.raises(ValueError, match=r"rows of 4 values, got \(2, 5\)"):
        SavedRows.of_arrays(TABLES, [0], arrays)
