"""A program that counts: after a run its parameters say exactly which batches were applied."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos

Record = tuple[float]

COUNTERS = 16
"""Elements of two stripes."""


def program() -> Any:
    """Return a model whose step of gradient descent adds the batch's sum, and 1.

    The loss is -(total * sum(rows) + batches), so that with a learning rate of 1 a step changes
    `total` by the sum of its rows and `batches` by 1. The rows are integers: every sum below 2**53
    is exact in float64, whatever the order.

    `order`, which an optimizer with a state of its own draws to the sine of the rows, has other
    bits if batches come in another order, or one of them is applied to another state.

    `counters` count batches, too: they are so many that each of two shards has some.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        rows = v1.placeholder(tf.float64, [None], name="rows")
        counters = v1.get_variable("counters", initializer=np.zeros(COUNTERS))
        total = v1.get_variable("total", initializer=np.float64(0))
        batches = v1.get_variable("batches", initializer=np.float64(0))
        order = v1.get_variable("order", initializer=np.float64(0))
        count = -(total * tf.reduce_sum(rows) + batches + tf.reduce_sum(counters))
        distance = tf.reduce_mean((order - tf.sin(rows)) ** 2) / 2
        step = tf.group(
            v1.train.GradientDescentOptimizer(1.0).minimize(
                count, var_list=[counters, total, batches]
            ),
            v1.train.MomentumOptimizer(0.1, 0.5).minimize(distance, var_list=[order]),
        )
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        return tos.capture(step, feeds=[rows], loss=tf.reduce_mean(rows), session=session)


def counted(run: tos.Run) -> tuple[float, float]:
    """Return what a run's center has counted: the sum of all rows, and the batches.

    Raises
    ------
    ValueError
        Parts of the parameters have counted other batches.
    """
    found = {name.split(":")[0]: value for name, value in run.parameters().items()}
    batches = float(found["batches"])
    if not (found["counters"] == batches).all():
        raise ValueError(f"Expected {batches:g} batches in each part, got {found['counters']}.")
    return float(found["total"]), batches


def expected(sizes: Sequence[int], batch_size: int, epochs: int) -> tuple[float, float]:
    """Return what it must have counted, exactly, of `data` with partitions of these sizes."""
    rows = sum(sizes)
    batches = sum(-(-size // batch_size) for size in sizes)
    return float(epochs * rows * (rows + 1) // 2), float(epochs * batches)


def expected_together(sizes: Sequence[int], batch_size: int, epochs: int) -> tuple[float, float]:
    """Return what it must have counted where all workers make each step by their mean gradient.

    A step then adds the mean of what the workers add, and 1.

    Parameters
    ----------
    sizes : sequence of int
        All the same, so that all workers take part in every step.
    batch_size, epochs : int
    """
    if len(set(sizes)) != 1:
        raise ValueError(f"Expected partitions of one size, got {sizes}.")
    total, batches = expected(sizes, batch_size, epochs)
    return total / len(sizes), batches / len(sizes)


def expected_without(
    sizes: Sequence[int], trained: Sequence[Mapping[int, int]]
) -> tuple[float, float]:
    """Return what two workers must have counted, one of which was missing now and then.

    Parameters
    ----------
    sizes : sequence of int
        Both the same.
    trained : sequence of mapping of int
        For each epoch, how many rows of each partition were trained, in their order and one by one.
    """
    size, total = sizes[0], 0.0
    for rows in trained:
        for row in range(1, size + 1):
            both = [p * size + row for p in (0, 1) if row <= rows.get(p, 0)]
            total += sum(both) / max(1, len(both))
    return total, float(sum(max(rows.values()) for rows in trained))


Prepare = Callable[[int, int, Path], None]


def data(sc: Any, sizes: Sequence[int], folder: Path, prepare: Prepare | None = None) -> Any:
    """Return an RDD of the rows 1, 2, ..., whose partitions note which process reads them.

    Parameters
    ----------
    sc : SparkContext
    sizes : sequence of int
        Rows of each partition.
    folder : Path
        On this machine, which all executors of the test clusters share.
    prepare : callable, optional
        Called with the partition, the number of the attempt and the folder, after half of the rows.
    """
    ends = list(itertools.accumulate(sizes))

    def read(partition: int, _: Iterable[int]) -> Iterator[Record]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        note(folder, partition)
        first, last = ends[partition] - sizes[partition] + 1, ends[partition]
        for row in range(first, last + 1):
            if prepare is not None and row == (first + last) // 2:
                prepare(partition, context.attemptNumber(), folder)
            yield (float(row),)

    return sc.parallelize(range(len(sizes)), len(sizes)).mapPartitionsWithIndex(read)


def shuffled(sc: Any, sizes: Sequence[int], folder: Path) -> Any:
    """Return the rows of `data`, as a shuffle has brought them, in whatever order it likes.

    Of each partition that is shuffled come two batches of what Spark moves at once.
    """
    rows = sc.parallelize([(float(row),) for row in range(1, sum(sizes) + 1)], sum(sizes) // MOVED)

    def read(partition: int, records: Iterable[Record]) -> Iterator[Record]:
        note(folder, partition)
        return iter(records)

    return rows.repartition(len(sizes)).mapPartitionsWithIndex(read)


MOVED = 20
"""Rows of two batches that PySpark's `repartition` sends on as one."""


def note(folder: Path, partition: int) -> None:
    """Write down that this process reads a partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    name = f"{partition}.{context.taskAttemptId()}"
    (folder / f"{name}.tmp").write_text(str(os.getpid()))
    (folder / f"{name}.tmp").rename(folder / f"{name}.pid")


def opened(folder: Path) -> set[int]:
    """Return the partitions whose rows somebody has begun to read."""
    return {int(path.name.split(".")[0]) for path in folder.glob("*.pid")}


def process_of(folder: Path, partition: int) -> int:
    """Return the process of the newest attempt that reads a partition."""
    found = {int(p.name.split(".")[1]): p for p in folder.glob(f"{partition}.*.pid")}
    return int(found[max(found)].read_text())
