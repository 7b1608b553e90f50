"""A `tf.data.Dataset` object: its graph gives each partition its share of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest
import tensorflow as tf

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.dataset_graph import is_batched, written
from tos_notebook.data.datasets import GraphDataset, rows_of
from tos_notebook.data.described import DatasetContext
from tos_notebook.errors import DataError, ShapeMismatch

Data = tf.data.Dataset

X = FeedSpec("x", "float32", (1,), part="inputs")
Y = FeedSpec("y", None, None, part="labels")


def numbers(count: int = 100) -> Any:
    return Data.from_tensor_slices((np.arange(count, dtype="float32")[:, None], np.arange(count)))


def noisy(x: Any, y: Any) -> Any:
    return x + tf.random.uniform(()), y


def table() -> Any:
    values = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], "int64"), [10, 20])
    return tf.lookup.StaticHashTable(values, 0)


TRAVEL: dict[str, Callable[[], Any]] = {
    "arrays": numbers,
    "shuffled": lambda: numbers().shuffle(10),
    "shuffled by a seed": lambda: numbers().shuffle(100, seed=3),
    "shuffled once": lambda: numbers().shuffle(100, reshuffle_each_iteration=False),
    "batched": lambda: numbers().shuffle(50).batch(32).prefetch(1),
    "of whole batches": lambda: (
        numbers().batch(30, drop_remainder=True).map(lambda x, y: (2 * x, y))
    ),
    "cached": lambda: numbers().cache().shuffle(10),
    "random": lambda: numbers().map(noisy, num_parallel_calls=4, deterministic=False).batch(8),
    "filtered": lambda: numbers().filter(lambda x, y: y % 3 == 0),
    "of a table": lambda: numbers().map(lambda x, y: (x, (table().lookup(y), y))),
    "by name": lambda: numbers().map(lambda x, y: ({"x": x}, y)),
}


def sent(dataset: Any) -> Callable[[DatasetContext], Any]:
    """Return what makes the dataset's partitions, as it arrives in another process."""
    batched = is_batched(dataset, ())
    graph, reason = written(dataset, batched)
    assert not reason
    made: Any = cloudpickle.loads(
        cloudpickle.dumps(GraphDataset(graph, dataset.element_spec, batched))
    )
    return made


def share(made: Any, partition: int, partitions: int, epoch: int = 0) -> list[list[float]]:
    rows = made(DatasetContext(partition, partitions, epoch, 7)).as_numpy_iterator()
    return [[float(np.ravel(leaf)[0]) for leaf in tf.nest.flatten(row)] for row in rows]


@pytest.mark.parametrize("kind", TRAVEL)
def test_each_row_is_in_one_partition_in_every_epoch_and_comes_again_in_the_same_order(
    kind: str,
) -> None:
    made = sent(TRAVEL[kind]())
    for epoch in (0, 1):
        parts = [share(made, partition, 3, epoch) for partition in range(3)]
        assert parts == [share(made, partition, 3, epoch) for partition in range(3)]
        whole = sorted(row[-1] for row in share(made, 0, 1, epoch))
        assert sorted(row[-1] for part in parts for row in part) == whole
        assert len(set(whole)) == {"of whole batches": 90, "filtered": 34}.get(kind, 100)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("kind", "differs"), [("shuffled", True), ("random", True), ("shuffled once", False)]
)
def test_what_is_drawn_at_random_is_another_in_each_epoch(kind: str, differs: bool) -> None:
    made = sent(TRAVEL[kind]())
    assert (share(made, 0, 2, 0) != share(made, 0, 2, 1)) == differs


def test_two_functions_and_two_partitions_draw_different_numbers() -> None:
    def two(x: Any, y: Any) -> Any:
        return x, tf.random.uniform(())

    def three(x: Any, y: Any) -> Any:
        return x, y, tf.random.uniform(())

    made = sent(numbers().map(two).map(three))
    first, second = (np.array(share(made, partition, 2)) for partition in (0, 1))
    assert len({*first[:, 1:].ravel(), *second[:, 1:].ravel()}) == 200


def test_partitions_draw_differently_by_a_seed_of_the_dataset_too() -> None:
    made = sent(numbers().map(lambda x, y: (x, tf.random.uniform((), seed=5))))
    first, second = (np.array(share(made, partition, 2)) for partition in (0, 1))
    assert not {*first[:, 1]} & {*second[:, 1]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers().repeat().filter(lambda x, y: y > 3),
        lambda: numbers().repeat().interleave(lambda x, y: Data.from_tensors((x, y))),
    ],
)
def test_a_dataset_that_repeats_itself_is_refused_though_tensorflow_cannot_count_it(
    make: Callable[[], Any],
) -> None:
    with pytest.raises(DataError, match="leave repeat"):
        rows_of(make(), [X, Y])


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers().repeat().filter(lambda x, y: y > 3).take(5),
        lambda: numbers().repeat(2).filter(lambda x, y: y > 3),
        lambda: Data.zip((numbers().filter(lambda x, y: y > 3), numbers().repeat())).map(
            lambda record, other: record
        ),
    ],
)
def test_a_dataset_that_ends_though_tensorflow_cannot_count_it_is_read(
    make: Callable[[], Any],
) -> None:
    assert len(rows_of(make(), [X, Y])[0]) in (5, 96, 192)


def test_rows_are_chosen_before_what_is_done_with_each() -> None:
    """So that a worker decodes and augments its own rows alone."""

    def only_even(x: Any, y: Any) -> Any:
        return tf.debugging.check_numerics(x / tf.cast(1 - y % 2, "float32"), "odd"), y

    made = sent(numbers().map(only_even, num_parallel_calls=2).batch(8).prefetch(1))
    assert len(share(made, 0, 2)) == 50
    with pytest.raises(tf.errors.InvalidArgumentError, match="odd"):
        share(made, 1, 2)


def generated() -> Iterator[tuple[list[float], int]]:
    yield from (([float(n)], n) for n in range(10))


SIGNATURE = tf.TensorSpec((1,), tf.float32), tf.TensorSpec((), tf.int64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Data.from_generator(generated, output_signature=SIGNATURE),
        lambda: Data.range(4).map(lambda n: tf.py_function(lambda n: n, [n], tf.int64)),
    ],
    ids=["generator", "py_function"],
)
def test_what_calls_python_does_not_travel(make: Callable[[], Any]) -> None:
    assert written(make(), False) == (b"", "it calls a generator or another function of Python's")


@pytest.mark.parametrize("batched", [True, False])
def test_rows_are_read_here_as_they_come(batched: bool) -> None:
    dataset = Data.from_generator(generated, output_signature=SIGNATURE)
    x, y = rows_of(dataset.batch(3) if batched else dataset, [X, Y])
    assert x.tolist() == [[float(n)] for n in range(10)]
    assert y.tolist() == list(range(10))


def test_names_and_single_values_go_where_the_feeds_take_them() -> None:
    text = FeedSpec("t", "string", (1,), part="inputs")
    dataset = Data.from_tensor_slices(({"x": [1.0, 2.0], "t": ["a", "b"]}, [0, 1]))
    found = rows_of(dataset.batch(2), [text, X, Y])
    assert [array.tolist() for array in found] == [[[b"a"], [b"b"]], [[1.0], [2.0]], [0, 1]]


@pytest.mark.parametrize(
    ("dataset", "error", "text"),
    [
        (numbers().repeat(), DataError, "a dataset with an end"),
        (numbers().take(0), DataError, "at least one row"),
        (numbers().map(lambda x, y: ({"z": x}, y)), ShapeMismatch, "the names 'x', got 'z'"),
        (numbers().map(lambda x, y: (x[: y % 2], y)), DataError, "of known shapes"),
    ],
    ids=["endless", "empty", "names", "ragged"],
)
def test_a_dataset_that_cannot_be_fed_is_refused(
    dataset: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        rows_of(dataset, [X, Y])


def test_too_many_rows_for_the_driver_are_told_of_the_function_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tos_notebook.data.datasets.LIMIT", 100)
    with pytest.raises(DataError, match=r"first 100 rows take more than.*def data\(ctx\)"):
        rows_of(numbers(), [X, Y])


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (numbers(), False),
        (numbers().batch(3), True),
        (numbers().batch(3, drop_remainder=True).prefetch(1), True),
        (numbers().batch(3).unbatch(), False),
        (Data.range(3), False),
    ],
    ids=["rows", "batches", "whole batches", "taken apart", "scalars"],
)
@pytest.mark.parametrize("feeds", [(), (X, Y)], ids=["by itself", "by feeds"])
def test_batches_are_recognized(dataset: Any, expected: bool, feeds: Any) -> None:
    assert is_batched(dataset, feeds) == expected
