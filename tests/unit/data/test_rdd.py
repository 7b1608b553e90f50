from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import until
from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.blocks.partitioners import Dirichlet, LabelPartitioner, RandomPartitioner, Shards
from tos_notebook.blocks.skips import SkipCounter
from tos_notebook.blocks.source import DataSource
from tos_notebook.data.arrays import ArraySource
from tos_notebook.data.rdd import RddSource
from tos_notebook.data.source import as_source
from tos_notebook.errors import DataError, ShapeMismatch


def flat(layout: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(layout))


def record(index: int) -> tuple[Any, int]:
    return np.full(3, index % 256, np.uint8), index


def layout_of(source: RddSource, sc: Any) -> list[list[int]]:
    """Return the labels in each partition, having checked them against the features."""

    def labels(blocks: Any) -> Any:
        found = []
        for features, numbers in blocks:
            np.testing.assert_array_equal(features[:, 0], numbers % 256)
            found += numbers.tolist()
        yield found

    return source.tasks(sc).mapPartitions(labels).collect()


@pytest.fixture(scope="module")
def source(spark_context: Any) -> RddSource:
    return RddSource(spark_context.parallelize(range(2500), 3).map(record))


def test_a_source_describes_itself_from_its_first_record(source: RddSource) -> None:
    assert source.columns == (ColumnSpec("uint8", (3,)), ColumnSpec("int64", ()))
    assert (source.partitions, source.samples, source.rows(0)) == (3, None, None)
    assert isinstance(source, DataSource)


def test_the_users_layout_is_kept(source: RddSource, spark_context: Any) -> None:
    layout = layout_of(source, spark_context)
    assert flat(layout) == list(range(2500))
    assert [len(part) for part in layout] == [833, 833, 834]


def test_executors_say_of_rows_what_the_driver_says_of_arrays(
    source: RddSource, spark_context: Any
) -> None:
    features = np.repeat((np.arange(2500) % 256).astype(np.uint8), 3).reshape(-1, 3)
    arrays = ArraySource((features, np.arange(2500)), 3)
    found = source.contents(spark_context, [2, 0])
    assert found == arrays.contents(spark_context, [2, 0])
    assert [content.rows for content in found] == [834, 833]


def test_rows_out_of_a_shuffle_come_in_one_order_however_spark_gives_them(
    spark_context: Any,
) -> None:
    def as_they_come(records: Any) -> Any:
        import secrets

        return sorted(records, key=lambda _: secrets.token_bytes(8))

    shuffled = spark_context.parallelize(range(2500), 3).map(record).repartition(2)
    source = RddSource(shuffled.mapPartitions(as_they_come))
    layout = layout_of(source, spark_context)
    assert sorted(flat(layout)) == list(range(2500))
    assert layout_of(source, spark_context) == layout
    assert layout_of(source.repartition(2, RandomPartitioner(2), 1), spark_context) == layout_of(
        source.repartition(2, RandomPartitioner(2), 1), spark_context
    )


def test_a_repartition_moves_every_record_once_to_where_the_partitioner_says(
    source: RddSource, spark_context: Any
) -> None:
    partitioner = RandomPartitioner(2, seed=5)
    layout = layout_of(source.repartition(2, partitioner, 1), spark_context)
    expected: list[list[int]] = [[], []]
    for number, part in enumerate(layout_of(source, spark_context)):
        for label, target in zip(part, partitioner.assign(len(part), 1, number), strict=True):
            expected[target].append(label)
    assert layout == expected


def test_a_repartition_is_a_function_of_its_arguments(
    source: RddSource, spark_context: Any
) -> None:
    first = source.repartition(4, RandomPartitioner(4), 1)
    detour = source.repartition(2, RandomPartitioner(2), 9).repartition(4, RandomPartitioner(4), 1)
    other = source.repartition(4, RandomPartitioner(4), 2)
    layouts = [layout_of(layout, spark_context) for layout in (first, detour, other)]
    assert layouts[0] == layouts[1] != layouts[2]


def test_rows_are_dealt_as_arrays_cut_the_same_way_are(
    source: RddSource, spark_context: Any
) -> None:
    arrays = ArraySource((np.arange(2500), np.arange(2500)), 3)
    for seed in (1, 2):
        dealt = source.dealt(2, seed)
        expected = arrays.dealt(2, seed)
        layout = layout_of(dealt, spark_context)
        assert layout == [expected.rows(p)[1].tolist() for p in range(2)]


def test_dealt_rows_are_computed_once_however_often_they_are_laid_out(spark_context: Any) -> None:
    computed = spark_context.accumulator(0)

    def seen(index: int) -> tuple[Any, int]:
        computed.add(1)
        return record(index)

    source = RddSource(spark_context.parallelize(range(600), 4).map(seen))
    before = computed.value
    dealt = source.dealt(4, 0)
    again = dealt.repartition(2, RandomPartitioner(2), 1)
    for layout in (dealt, dealt, again):
        assert sorted(flat(layout_of(layout, spark_context))) == list(range(600))
    assert computed.value - before == 600


@pytest.mark.parametrize("partitioner", [Shards(3, 2, seed=4), Dirichlet(3, 0.5, seed=4)], ids=repr)
def test_a_layout_by_label_is_that_of_arrays_with_the_same_rows(
    spark_context: Any, partitioner: LabelPartitioner
) -> None:
    """However the RDD was cut, and with an empty partition in it."""
    labels = np.random.default_rng(0).integers(10, size=1500)
    rows = [(index, np.eye(10, dtype=np.float32)[label]) for index, label in enumerate(labels)]
    rdd = spark_context.parallelize(range(4), 4).flatMap(
        lambda part: (rows[:0], rows[:400], rows[400:410], rows[410:])[part]
    )
    laid = RddSource(rdd).repartition(3, partitioner, 0)
    found = laid.tasks(spark_context).mapPartitions(
        lambda blocks: [[number for block in blocks for number in block[0].tolist()]]
    )
    arrays = ArraySource((np.arange(1500), labels), 2).repartition(3, partitioner, 7)
    assert found.collect() == [arrays.rows(p)[0].tolist() for p in range(3)]
    laid.close()


def test_labels_that_are_none_are_named_when_they_are_counted(spark_context: Any) -> None:
    source = RddSource(spark_context.parallelize([(1, 0.0), (2, 0.5)], 2))
    laid = source.repartition(2, Shards(2, 1), 0)
    with pytest.raises(Exception, match=r"DataError: Expected class labels .* Got 0\.5"):
        laid.tasks(spark_context)


def test_records_without_a_label_are_refused_at_once(spark_context: Any) -> None:
    source = RddSource(spark_context.parallelize([(1.0,)], 1))
    with pytest.raises(DataError, match="records of 1 field, no label"):
        source.repartition(2, Dirichlet(2, 1.0), 0)


def test_more_partitions_than_records_leave_some_empty(spark_context: Any) -> None:
    few = RddSource(spark_context.parallelize(range(2), 3).map(record))
    layout = layout_of(few.repartition(9, RandomPartitioner(9), 0), spark_context)
    assert len(layout) == 9
    assert sorted(flat(layout)) == [0, 1]


def test_blocks_are_fed_as_they_are(spark_context: Any) -> None:
    blocks = [(np.full((n, 3), n, np.uint8), np.full(n, n)) for n in (4, 1, 5)]
    columns = ColumnSpec("uint8", (3,)), ColumnSpec("int64", ())
    source = RddSource.from_decoded(spark_context.parallelize(blocks, 2), columns, SkipCounter())
    assert source.columns == columns
    assert layout_of(source, spark_context) == [[4] * 4, [1] + [5] * 5]
    again = layout_of(source.repartition(2, RandomPartitioner(2), 0), spark_context)
    assert sorted(flat(again)) == [1] + [4] * 4 + [5] * 5
    source.close()


def test_the_last_layout_to_close_unpersists_the_base(spark_context: Any) -> None:
    source = RddSource(spark_context.parallelize(range(20), 2).map(record))

    def persisted() -> bool:
        return bool(source.tasks(spark_context).getStorageLevel().useMemory)

    assert not persisted()
    layout = source.repartition(2, RandomPartitioner(2), 0)
    assert persisted()
    source.close()
    source.close()
    assert persisted()
    assert sorted(flat(layout_of(layout, spark_context))) == list(range(20))
    layout.close()
    assert not persisted()


def shuffles_of(sc: Any) -> dict[str, int]:
    """Return the bytes of each shuffle's files on this machine."""
    folders = sc.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).first()
    found: dict[str, int] = {}
    for file in (f for d in folders.split(",") for f in Path(d).rglob("shuffle_*_*_*")):
        with suppress(FileNotFoundError):
            number = file.name.split("_")[1]
            found[number] = found.get(number, 0) + file.stat().st_size
    return found


def test_each_layout_deletes_its_shuffle_and_the_last_one_the_dealt_rows(
    spark_context: Any,
) -> None:
    computed = spark_context.accumulator(0)

    def seen(row: tuple[Any, int]) -> tuple[Any, int]:
        computed.add(1)
        return row

    rows = spark_context.parallelize(range(600), 4).map(record)
    users = rows.map(lambda row: (row[1], row)).partitionBy(3).values().map(seen)
    source = RddSource(users)
    others = shuffles_of(spark_context).keys()
    before = computed.value
    dealt = source.dealt(4, 0)
    layout_of(dealt, spark_context)
    again = dealt.repartition(2, RandomPartitioner(2), 1)
    laid = layout_of(again, spark_context)
    third = dealt.repartition(2, RandomPartitioner(2), 2)
    assert len(shuffles_of(spark_context).keys() - others) == 2
    dealt.close()
    assert layout_of(again, spark_context) == laid
    again.close()
    again.close()
    until(lambda: len(shuffles_of(spark_context).keys() - others) == 1)
    # From the files of the dealt rows.
    assert sorted(flat(layout_of(third, spark_context))) == list(range(600))
    assert computed.value - before == 600
    third.close()
    # Spark may have deleted other tests' shuffles meanwhile.
    until(lambda: shuffles_of(spark_context).keys() <= others)
    # What is left is the user's own. A layout that is closed can still be read.
    assert sorted(flat(layout_of(third, spark_context))) == list(range(600))


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_empty_rdd_is_refused(spark_context: Any, partitions: int) -> None:
    with pytest.raises(DataError, match="RDD is empty"):
        RddSource(spark_context.parallelize([], partitions))


def test_an_rdd_without_partitions_is_refused(spark_context: Any) -> None:
    with pytest.raises(DataError, match="RDD is empty"):
        RddSource(spark_context.emptyRDD())


def test_records_that_are_no_tuples_are_refused_before_any_training(spark_context: Any) -> None:
    with pytest.raises(ShapeMismatch, match="record 0: expected a tuple"):
        RddSource(spark_context.parallelize([1, 2, 3], 2))


def test_a_join_that_was_not_flattened_is_refused(spark_context: Any) -> None:
    pairs = spark_context.parallelize([(0, (np.zeros(2), 1))], 1)
    with pytest.raises(ShapeMismatch, match="record 0, field 1: expected numbers"):
        RddSource(pairs)


def test_a_bad_record_of_a_later_partition_is_named(spark_context: Any) -> None:
    """All partitions are held against the RDD's first record, not each against its own."""
    rdd = spark_context.parallelize([(1.0, 1), (2.0, 2), ([3.0], 3)], 3)
    tasks = RddSource(rdd).tasks(spark_context)
    with pytest.raises(Exception, match=r"ShapeMismatch: partition 2: record 0, field 0"):
        tasks.collect()


def test_as_source_takes_what_users_have(spark_context: Any, source: RddSource) -> None:
    arrays = as_source(spark_context, (np.zeros((5, 2)), np.zeros(5)), 4)
    assert isinstance(arrays, ArraySource)
    assert arrays.partitions == 4
    rdd = as_source(spark_context, spark_context.parallelize([(1.0, 2)], 2), 4)
    assert isinstance(rdd, RddSource)
    assert rdd.partitions == 2
    assert as_source(spark_context, source, 4) is source


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], r"got list of \[\]"),
        (([1, 2], 3), r"got tuple of \['int', 'ndarray'\]"),
        ("train.csv", "got str"),
        (None, "got NoneType"),
    ],
)
def test_as_source_says_what_it_takes(spark_context: Any, data: Any, named: str) -> None:
    with pytest.raises(DataError, match=r"Expected .*RDD .*arrays or lists.*" + named):
        as_source(spark_context, data, 2)


def test_an_rdd_of_another_context_is_refused(spark_context: Any) -> None:
    with pytest.raises(DataError, match="another Spark context"):
        as_source(object(), spark_context.parallelize([(1.0, 2)], 1), 2)


def test_a_split_has_each_row_in_one_part_however_often_it_is_made(
    source: RddSource, spark_context: Any
) -> None:
    stay, go = source.split(0.2, seed=3)
    kept, drawn = (flat(layout_of(part, spark_context)) for part in (stay, go))
    assert sorted(kept + drawn) == list(range(2500))
    assert 400 < len(drawn) < 600
    assert flat(layout_of(go, spark_context)) == drawn
    again, other = (flat(layout_of(source.split(0.2, seed)[1], spark_context)) for seed in (3, 4))
    assert again == drawn != other
    assert sorted(flat(layout_of(stay.dealt(2, 0), spark_context))) == sorted(kept)


def test_rows_that_spark_makes_in_any_order_are_split_by_what_they_are(spark_context: Any) -> None:
    shuffled = spark_context.parallelize(range(600), 3).map(record).repartition(4)
    stay, go = RddSource(shuffled).split(0.3, seed=0)
    kept, drawn = (flat(layout_of(part, spark_context)) for part in (stay, go))
    assert sorted(kept + drawn) == list(range(600))
