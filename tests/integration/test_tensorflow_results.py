"""Results of a TensorFlow cluster: whatever is wrong with them is one readable error, and soon."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_tensorflow_cluster import running, square, states
from tests.integration.test_tensorflow_feeding import idle, stuck
from tests.support.long import few
from tests.support.python_workers import own_python_workers
from tos_notebook.errors import ConfigError, SessionClosed, WorkerError
from tos_notebook.nodes.context import NodeContext
from tos_notebook.tensorflowonspark.TFCluster import InputMode


@pytest.fixture(scope="module")
def spark_context(spark_context: Any) -> Iterator[Any]:
    with own_python_workers(spark_context) as sc:
        yield sc


def wrong(args: str, ctx: NodeContext) -> None:
    """Give back results, and after some of them go wrong."""
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        rows = feed.next_batch(10)
        if any(row >= 50 for row in rows):
            if args == "raise":
                raise ValueError("mine")
            if args == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            rows = rows[1:] if args == "few" else rows * 2
        feed.batch_results(rows)


ACTIONS: dict[str, Callable[[Any, Path], object]] = {
    "collect": lambda results, folder: results.collect(),
    "count": lambda results, folder: results.count(),
    "sum of a map": lambda results, folder: results.map(lambda row: row + 1).sum(),
    "take": lambda results, folder: results.filter(lambda row: row > 55).take(3),
    "iterator": lambda results, folder: list(results.toLocalIterator()),
    "text": lambda results, folder: results.saveAsTextFile(str(folder / "text")),
    "pickle": lambda results, folder: results.saveAsPickleFile(str(folder / "pickle")),
}


@pytest.mark.parametrize("action", few(ACTIONS, "collect", "pickle"))
def test_an_error_of_main_is_the_users_own_line(
    spark_context: Any, tmp_path: Path, action: str
) -> None:
    with running(spark_context, wrong, "raise", 1, input_mode=InputMode.SPARK) as cluster:
        results = cluster.inference(spark_context.parallelize(range(100), 4))
        began = time.monotonic()
        with pytest.raises(WorkerError, match=r"^ValueError: mine \(in node worker:0\)") as caught:
            ACTIONS[action](results, tmp_path)
        assert time.monotonic() - began < 20
        assert 'raise ValueError("mine")' in caught.value.frames[0]
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        with pytest.raises(WorkerError, match="ValueError: mine"):
            cluster.shutdown(timeout=60)
        idle(spark_context)


def test_results_are_those_of_an_rdd(spark_context: Any, tmp_path: Path) -> None:
    with running(spark_context, square, nodes=1, input_mode=InputMode.SPARK) as cluster:
        rows = spark_context.parallelize(range(100), 4)
        results = cluster.inference(rows)
        right = [row * row for row in range(100)]
        assert results.collect() == right
        assert (results.first(), results.take(3), results.count()) == (0, [0, 1, 4], 100)
        assert list(results.toLocalIterator()) == right
        assert rows.zip(results).map(lambda pair: pair[1] - pair[0]).sum() == sum(right) - 4950
        results.saveAsTextFile(str(tmp_path / "text"))
        assert sorted(spark_context.textFile(str(tmp_path / "text")).map(int).collect()) == right
        kept = results.cache()
        assert [kept.map(str).collect(), kept.collect()] == [list(map(str, right)), right]
        kept.unpersist()
        cluster.shutdown(timeout=60)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("die", r"^The process of the node ended without a word: SIGKILL.* \(in node worker:0\)"),
        ("many", r"^ConfigError: Expected one result for each row .*got more: 20 for 10"),
    ],
)
def test_a_node_that_ends_or_gives_too_many_results_is_named(
    spark_context: Any, how: str, said: str
) -> None:
    with running(spark_context, wrong, how, 1, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(WorkerError, match=said):
            cluster.inference(spark_context.parallelize(range(100), 4)).collect()
        idle(spark_context)


def test_too_few_results_are_an_error_at_once(spark_context: Any) -> None:
    with running(spark_context, wrong, "few", 1, input_mode=InputMode.SPARK) as cluster:
        results = cluster.inference(spark_context.parallelize(range(100), 4))
        with pytest.raises(ConfigError, match="has returned 22 results for 25 rows, and its func"):
            results.collect()
        idle(spark_context)


def test_a_node_that_fails_ends_the_wait_for_rows_that_take_long_to_make(
    spark_context: Any, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def main(args: Any, ctx: NodeContext) -> None:
        while not begun.exists():
            time.sleep(0.02)
        raise ValueError("mine")

    rows = spark_context.parallelize(range(4), 2).mapPartitions(stuck(begun))
    with running(spark_context, main, nodes=1, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(WorkerError, match="mine"):
            cluster.inference(rows).count()
        idle(spark_context)


def test_an_error_in_what_makes_the_rows_or_uses_the_results_is_the_users_own(
    spark_context: Any,
) -> None:
    with running(spark_context, square, nodes=1, input_mode=InputMode.SPARK) as cluster:
        rows = spark_context.parallelize([0, 1], 1)
        for made in (
            cluster.inference(rows.map(lambda row: 1 // row)),
            cluster.inference(rows).map(lambda row: 1 // row),
        ):
            with pytest.raises(WorkerError, match="ZeroDivisionError") as caught:
                made.collect()
            assert "test_tensorflow_results.py" in caught.value.frames[0]
        assert cluster.inference(rows).collect() == [0, 1]
        cluster.shutdown(timeout=60)
        assert states(cluster) == {"worker:0": "done"}


def test_results_of_a_cluster_that_has_ended_are_refused(spark_context: Any) -> None:
    with running(spark_context, square, nodes=1, input_mode=InputMode.SPARK) as cluster:
        rows = spark_context.parallelize([3], 1)
        results = cluster.inference(rows)
        assert results.collect() == [9]
        cluster.shutdown(timeout=60)
        for call in (results.collect, lambda: cluster.inference(rows), lambda: cluster.train(rows)):
            with pytest.raises(SessionClosed, match="has ended, and no longer takes rows"):
                call()
        # Behind a shuffle the RDD is Spark's, and so is its error.
        with pytest.raises(Exception, match="The TensorFlow cluster has ended, or this task"):
            results.repartition(1).collect()
