"""Rows of an RDD reach nodes once, whatever Spark does with its tasks, and each wait ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_tensorflow_cluster import running, square, states
from tests.support.long import few
from tests.unit.worker.support import until
from tos_notebook.common.threads import in_thread
from tos_notebook.errors import DataError, SessionClosed, WorkerError
from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark.TFCluster import InputMode

Rows = Callable[[int, Iterator[int]], Iterator[int]]


def add_up(args: Any, ctx: NodeContext) -> None:
    """Take all rows, and print how many they are, and their sum."""
    feed, rows = ctx.get_data_feed(), list[int]()
    while not feed.should_stop():
        rows += feed.next_batch(10)
    print(len(rows), sum(rows))


def totals(cluster: Any) -> tuple[int, int]:
    """Return how many rows the nodes have printed, and their sum."""
    nodes = cluster._cluster.roster.nodes.values()
    said = [list(map(int, node.lines[-1].split())) for node in nodes]
    return sum(count for count, _ in said), sum(total for _, total in said)


def lost(how: str) -> Rows:
    """Return what makes rows, and ends the first attempts of some tasks in the middle of them."""

    def rows(number: int, part: Iterator[int]) -> Iterator[int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for count, row in enumerate(part):
            if number % 3 and context.attemptNumber() < number % 3 and count == 100 * number:
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("mine")
            yield row

    return rows


@pytest.mark.parametrize("how", few(["raised", "killed"], "killed"))
def test_each_row_is_taken_once_where_spark_starts_tasks_again(
    spark_context: Any, how: str
) -> None:
    rows = spark_context.parallelize(range(3000), 3).mapPartitionsWithIndex(lost(how))
    with running(spark_context, add_up, input_mode=InputMode.SPARK) as cluster:
        cluster.train(rows, 2)
        cluster.shutdown(timeout=60)
        assert totals(cluster) == (6000, 2 * sum(range(3000)))
        assert sum(node.rows for node in cluster._cluster.roster.nodes.values()) == 6000


@pytest.mark.long
@pytest.mark.parametrize("how", few(["raised", "killed"], "raised"))
def test_results_come_once_and_in_order_where_spark_starts_tasks_again(
    spark_context: Any, how: str
) -> None:
    rows = spark_context.parallelize(range(6000), 6).mapPartitionsWithIndex(lost(how))
    with running(spark_context, square, input_mode=InputMode.SPARK) as cluster:
        assert cluster.inference(rows).collect() == [row * row for row in range(6000)]
        cluster.shutdown(timeout=60)


def stuck(begun: Path) -> Callable[[Iterator[int]], Iterator[int]]:
    """Return what notes that it has begun, and makes no row for long."""

    def rows(part: Iterator[int]) -> Iterator[int]:
        begun.touch()
        threading.Event().wait(600)
        yield from part

    return rows


def idle(sc: Any) -> None:
    """See that no job runs, and that tasks have left their slots."""
    until(lambda: not sc.statusTracker().getActiveJobsIds(), 60)
    assert sc.parallelize(range(10)).sum() == 45


@pytest.mark.parametrize(
    ("how", "said"),
    [
        pytest.param("raised", "mine", marks=pytest.mark.long),
        ("killed", "SIGKILL ended it"),
    ],
)
def test_a_node_that_fails_ends_the_feed_of_rows_that_take_long_to_make(
    spark_context: Any, tmp_path: Path, how: str, said: str
) -> None:
    begun = tmp_path / "begun"

    def main(args: str, ctx: NodeContext) -> None:
        pause = threading.Event()
        while not begun.exists():
            pause.wait(0.02)
        if args == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("mine")

    rows = spark_context.parallelize(range(4), 2).mapPartitions(stuck(begun))
    with running(spark_context, main, how, 1, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(WorkerError, match=said):
            cluster.train(rows, 1)
        idle(spark_context)


def test_an_interrupt_ends_the_feed_and_leaves_spark_usable(
    spark_context: Any, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    rows = spark_context.parallelize(range(4), 2).mapPartitions(stuck(begun))
    with running(spark_context, add_up, nodes=1, input_mode=InputMode.SPARK) as cluster:

        def interrupt() -> None:
            until(begun.exists, 60)
            os.kill(os.getpid(), signal.SIGINT)

        interrupted = in_thread("tos-test-interrupt", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cluster.train(rows, 1)
        interrupted.result(60)
        idle(spark_context)


def test_threads_that_feed_at_once_hear_of_their_own_errors(spark_context: Any) -> None:
    with running(spark_context, add_up, nodes=1, input_mode=InputMode.SPARK) as cluster:
        numbers = spark_context.parallelize(range(1000), 1)
        good = in_thread("tos-test-good", lambda: cluster.train(numbers, 3))
        sets = numbers.map(lambda number: {number})
        bad = in_thread("tos-test-bad", lambda: cluster.train(sets, 1))
        assert good.result(60) is None
        with pytest.raises(DataError, match="Turn it into"):
            bad.result(60)
        cluster.shutdown(timeout=60)
        assert totals(cluster) == (3000, 3 * sum(range(1000)))


def test_a_cluster_that_is_closed_ends_its_feeds_and_takes_no_other(
    spark_context: Any, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    rows = spark_context.parallelize(range(4), 2).mapPartitions(stuck(begun))
    with running(spark_context, add_up, nodes=1, input_mode=InputMode.SPARK) as cluster:
        fed = in_thread("tos-test-feed", lambda: cluster.train(rows, 1))
        until(begun.exists, 60)
        cluster.close()
        with pytest.raises(SessionClosed):
            fed.result(60)
        with pytest.raises(SessionClosed):
            cluster.train(spark_context.parallelize([1]), 1)
        assert states(cluster) == {"worker:0": "stopped"}
        idle(spark_context)
