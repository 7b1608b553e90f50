from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.data.arrays import ArraySource
from tos_notebook.data.dealing import deal
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch


def flat(layout: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(layout))


def source_of(rows: int, partitions: int) -> ArraySource:
    return ArraySource(
        (np.arange(rows * 2, dtype=np.uint8).reshape(-1, 2), np.arange(rows)), partitions
    )


def layout_of(source: ArraySource) -> list[list[int]]:
    return [source.rows(p)[1].tolist() for p in range(source.partitions)]


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_first_layout_is_even_and_contiguous(rows: int, partitions: int) -> None:
    layout = layout_of(source_of(rows, partitions))
    assert flat(layout) == list(range(rows))
    sizes = [len(part) for part in layout]
    assert max(sizes) - min(sizes) <= 1


def test_the_first_layout_is_views() -> None:
    features = np.zeros((10, 2))
    source = ArraySource([features, np.zeros(10)], 2)
    assert np.shares_memory(source.rows(1)[0], features)


def test_a_source_describes_itself() -> None:
    source = source_of(7, 3)
    assert source.columns == (ColumnSpec("uint8", (2,)), ColumnSpec("int64", ()))
    assert (source.partitions, source.samples) == (3, 7)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_a_repartition_keeps_every_row_once(rows: int, old: int, new: int, epoch: int) -> None:
    source = source_of(rows, old).repartition(new, RandomPartitioner(new), epoch)
    layout = layout_of(source)
    assert len(layout) == new
    assert sorted(flat(layout)) == list(range(rows))
    assert all(part == sorted(part) for part in layout)
    for partition in range(new):
        features, labels = source.rows(partition)
        np.testing.assert_array_equal(features[:, 0] // 2, labels)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_dealing_keeps_every_row_once_in_its_own_order(
    rows: int, old: int, new: int, seed: int
) -> None:
    layout = layout_of(source_of(rows, old).dealt(new, seed))
    assert len(layout) == new
    assert sorted(flat(layout)) == list(range(rows))
    assert all(part == sorted(part) for part in layout)


def test_sorted_rows_are_dealt_so_that_every_partition_has_the_mix_of_all() -> None:
    labels = np.repeat(np.arange(10), 100)
    for seed in range(3):
        dealt = ArraySource((labels, labels), 4).dealt(4, seed)
        for partition in range(4):
            counts = np.bincount(dealt.rows(partition)[1], minlength=10)
            assert np.abs(counts - 25).max() < 5 * 5


def test_the_seed_decides_how_rows_are_dealt() -> None:
    layouts = [layout_of(source_of(50, 2).dealt(2, seed)) for seed in (0, 0, 1)]
    assert layouts[0] == layouts[1] != layouts[2]


def test_one_partition_keeps_its_rows_as_they_are() -> None:
    source = source_of(10, 1)
    assert deal(None, source, None, 0) is source


def test_a_repartition_does_not_depend_on_the_ones_before() -> None:
    source = source_of(50, 3)
    direct = source.repartition(4, RandomPartitioner(4), 2)
    detour = source.repartition(2, RandomPartitioner(2), 1).repartition(4, RandomPartitioner(4), 2)
    assert layout_of(direct) == layout_of(detour)


def test_epochs_have_other_layouts() -> None:
    source, partitioner = source_of(50, 2), RandomPartitioner(2)
    layouts = [layout_of(source.repartition(2, partitioner, epoch)) for epoch in range(3)]
    assert layouts[0] != layouts[1] != layouts[2] != layouts[0]


def test_foreign_byte_order_becomes_native() -> None:
    (column,) = ArraySource([np.arange(3, dtype=">f4")], 1).rows(0)
    assert column.dtype.isnative
    assert column.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("arrays", "partitions", "error", "message"),
    [
        ([np.zeros((0, 2)), np.zeros(0)], 1, DataError, "at least one row"),
        ([], 1, DataError, "at least one array"),
        ([np.zeros(3), np.zeros(4)], 1, ShapeMismatch, r"same number of rows.*\[3, 4\]"),
        ([np.zeros(3), np.array(["a", None, 1])], 1, DataError, "Array 1: .*got object"),
        ([np.array(["a", "b"])], 1, DataError, "Array 0: expected numbers"),
        ([np.float32(1)], 1, DataError, r"row dimension, got float32 of shape \(\)"),
        ([np.zeros(3)], 0, ConfigError, "at least 1, got 0"),
    ],
)
def test_arrays_that_cannot_be_trained_on(
    arrays: Any, partitions: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ArraySource(arrays, partitions)


def test_the_tasks_are_as_many_as_partitions_and_hold_nothing(spark_context: Any) -> None:
    tasks = source_of(5, 7).tasks(spark_context)
    assert tasks.getNumPartitions() == 7
    assert tasks.collect() == []


def test_a_split_has_each_row_once_in_its_order_and_under_its_number() -> None:
    rows = np.arange(1000)
    source = ArraySource((rows.reshape(-1, 1), rows), 3)
    stay, go = source.split(0.1, seed=7)
    assert (stay.samples, go.samples) == (900, 100)
    kept, drawn = stay.arrays[1], go.arrays[1]
    assert sorted([*kept, *drawn]) == rows.tolist()
    for part in (kept, drawn):
        assert np.all(np.diff(part) > 0)
    # Not the first or the last ones.
    assert 300 < drawn.mean() < 700
    assert stay.number(0, 5) == kept[5]
    dealt = stay.dealt(2, 0)
    found = dealt.rows(1)[1]
    assert [dealt.number(1, row) for row in range(len(found))] == found.tolist()


def test_a_split_depends_on_the_seed_alone() -> None:
    source = ArraySource((np.arange(50),), 2)
    first, again, other = (source.split(0.5, seed)[1].arrays[0].tolist() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_a_split_that_leaves_a_part_empty_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match=r"validation_split: .* of 3 rows to evaluate by 0\.[19]"):
        ArraySource((np.arange(3),), 1).split(share, 0)
