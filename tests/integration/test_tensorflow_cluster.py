"""TensorFlow clusters on Spark's executors: nodes start, meet, are fed, fail and end as told."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from tests.support.long import few
from tests.support.python_workers import own_python_workers
from tests.support.served import port_keeper
from tests.unit.worker.support import until
from tos_notebook.errors import ConfigError, DataError, WaitTimeout, WorkerEnvironment, WorkerError
from tos_notebook.nodes.cluster import NodeCluster
from tos_notebook.nodes.context import NodeContext
from tos_notebook.nodes.plan import ClusterOptions
from tos_notebook.tensorflowonspark import TFCluster, TFNode
from tos_notebook.tensorflowonspark.TFCluster import InputMode

Main = Callable[[Any, NodeContext], object]


@pytest.fixture(scope="module")
def spark_context(spark_context: Any) -> Iterator[Any]:
    with own_python_workers(spark_context) as sc:
        yield sc


@contextmanager
def running(sc: Any, main: Main, args: Any = None, nodes: int = 2, **given: Any) -> Iterator[Any]:
    """Run a cluster, and end it if the test did not."""
    cluster = TFCluster.run(sc, main, args, nodes, given.pop("num_ps", 0), **given)
    try:
        yield cluster
    finally:
        cluster._cluster.stop()


def states(cluster: Any) -> dict[str, str]:
    """Return how the nodes of a cluster have ended."""
    return {node.name: node.state for node in cluster._cluster.roster.nodes.values()}


def square(args: Any, ctx: NodeContext) -> None:
    """Give back the square of each row, until the feed ends."""
    feed = TFNode.DataFeed(ctx.mgr, train_mode=False)
    while not feed.should_stop():
        feed.batch_results([row * row for row in feed.next_batch(7)])


def test_each_node_knows_itself_and_all_others(spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        import json

        spec = json.loads(os.environ["TF_CONFIG"])
        assert spec["cluster"] == ctx.cluster_spec
        assert spec["task"] == {"type": ctx.job_name, "index": ctx.task_index}
        assert ctx.num_workers == 2
        assert args == {"x": 1}
        print("I am", ctx.job_name, ctx.task_index)

    with running(spark_context, main, {"x": 1}, 3, num_ps=1, master_node="chief") as cluster:
        # The end of the workers stops a server that has not ended by itself.
        until(lambda: set(states(cluster).values()) == {"done"}, 60)
        cluster.shutdown(timeout=60)
        assert states(cluster) == {"ps:0": "done", "chief:0": "done", "worker:0": "done"}
        nodes = cluster._cluster.roster.nodes
        lines = [list(nodes[number].lines) for number in sorted(nodes)]
    assert lines == [["I am ps 0"], ["I am chief 0"], ["I am worker 0"]]


@pytest.mark.long
def test_results_come_in_the_order_of_the_rows_from_more_nodes_than_slots(
    spark_context: Any,
) -> None:
    rows = spark_context.parallelize(range(1000), 10)
    with running(spark_context, square, nodes=3, input_mode=InputMode.SPARK) as cluster:
        assert cluster.inference(rows).collect() == [row * row for row in range(1000)]
        assert cluster.inference(rows.filter(lambda row: row < 5)).collect() == [0, 1, 4, 9, 16]
        cluster.shutdown(timeout=60)
        assert set(states(cluster).values()) == {"done"}


@pytest.mark.long
def test_every_row_of_every_epoch_is_taken_once(spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        feed, total = ctx.get_data_feed(), 0
        while not feed.should_stop():
            total += sum(feed.next_batch(100))
        print("total", total)

    with running(spark_context, main, input_mode=InputMode.SPARK) as cluster:
        cluster.train(spark_context.parallelize(range(1000), 7), num_epochs=3)
        cluster.shutdown(timeout=60)
        nodes = list(cluster._cluster.roster.nodes.values())
        assert sum(node.rows for node in nodes) == 3000
        assert sum(int(node.lines[-1].split()[1]) for node in nodes) == 3 * sum(range(1000))


def test_a_consumer_that_ends_early_releases_the_feeders_at_once(spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        feed = ctx.get_data_feed()
        feed.next_batch(10)
        if args == "terminate":
            feed.terminate()

    def slow(rows: Any) -> Any:
        # More than fits into a queue, as if without an end.
        return ([0.0] * 1000 for _ in range(10**7))

    for how in ("terminate", "return"):
        with running(spark_context, main, how, input_mode=InputMode.SPARK) as cluster:
            cluster.train(spark_context.parallelize(range(4), 4).mapPartitions(slow), 1000)
            cluster.shutdown(timeout=60)
            assert set(states(cluster).values()) == {"done"}


@pytest.mark.long
def test_results_that_no_node_gives_are_an_error_and_not_left_out(spark_context: Any) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        feed = ctx.get_data_feed(train_mode=False)
        feed.batch_results(feed.next_batch(5))

    with running(spark_context, main, nodes=1, input_mode=InputMode.SPARK) as cluster:
        results = cluster.inference(spark_context.parallelize(range(10), 1))
        with pytest.raises(Exception, match="Expected a node to give back a result for each row"):
            results.collect()
        cluster.shutdown(timeout=60)


@pytest.mark.parametrize("when", few(["before", "during", "after"], "during"))
def test_an_error_is_the_users_own_line_and_leaves_spark_usable(
    spark_context: Any, when: str
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        feed = ctx.get_data_feed()
        if args == "before":
            raise ValueError("mine")
        while not feed.should_stop():
            feed.next_batch(10)
            if args == "during":
                raise ValueError("mine")
        raise ValueError("mine")

    def run() -> None:
        with running(spark_context, main, when, input_mode=InputMode.SPARK) as cluster:
            cluster.train(spark_context.parallelize(range(1000), 4), 1)
            cluster.shutdown(timeout=60)

    with pytest.raises(WorkerError, match=r"ValueError: mine \(in node worker:\d\)") as caught:
        run()
    assert "test_tensorflow_cluster.py" in caught.value.frames[0]
    assert 'raise ValueError("mine")' in caught.value.frames[0]
    assert spark_context.parallelize(range(10)).sum() == 45


def test_a_node_that_is_killed_ends_the_cluster_with_an_error_that_names_it(
    spark_context: Any,
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        if ctx.task_index == 1:
            print("so far so good", flush=True)
            os.kill(os.getpid(), 9)
        ctx.get_data_feed().next_batch(1)

    with running(spark_context, main) as cluster:
        with pytest.raises(WorkerError, match=r"SIGKILL ended it.*worker:1"):
            cluster.shutdown(timeout=60)
        assert states(cluster)["worker:0"] == "stopped"
        node = cluster._cluster.roster.failure
        assert list(node.lines) == ["so far so good"]


def test_a_node_that_is_lost_before_all_are_there_is_an_error_when_no_other_takes_its_place(
    spark_context: Any, tmp_path: Path
) -> None:
    def late(job: str, index: int, cluster: Sequence[Any]) -> dict[str, str]:
        while job == "ps" and not Path(folder, "go").exists():
            time.sleep(0.02)
        return {}

    folder = str(tmp_path)
    options = ClusterOptions({"ps": [0], "worker": [1, 2]}, feed=True, local=[0])
    cluster = NodeCluster(spark_context, square, None, options, late, wait=False)
    try:
        # Spark has nothing to start again: the tasks of both workers have ended.
        until(cluster._job.done, 60)
        os.kill(cluster.roster.nodes[2].meta["pid"], signal.SIGKILL)
        with pytest.raises(WorkerError, match=r"SIGKILL ended it.*worker:1"):
            cluster.wait_until_whole()
    finally:
        (tmp_path / "go").touch()
        cluster.stop()


def test_nodes_outlive_the_daemon_that_spark_starts_python_workers_with(
    spark_context: Any,
) -> None:
    def end_daemon(_: int) -> int:
        attempt = TaskContext.get().attemptNumber()
        if attempt == 0:
            # As Spark does when it cancels a task that waits for a new Python worker.
            os.kill(os.getppid(), signal.SIGTERM)
            until(lambda: False, 60)
        return int(attempt)

    with (
        own_python_workers(spark_context, "of a daemon that ends"),
        running(spark_context, square, nodes=1, input_mode=InputMode.SPARK) as cluster,
    ):
        # It is tried again in a worker of another daemon.
        assert spark_context.parallelize([1], 1).map(end_daemon).collect() == [1]
        assert cluster.inference(spark_context.parallelize([2, 3], 1)).collect() == [4, 9]
        assert states(cluster) == {"worker:0": "running"}


def test_parameter_servers_end_when_all_workers_have(
    spark_context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        if ctx.job_name in ("ps", "evaluator"):
            while True:
                time.sleep(1)

    given = {"num_ps": 1, "eval_node": True, "driver_ps_nodes": True}
    with running(spark_context, main, nodes=3, **given) as cluster:
        cluster.shutdown(timeout=60)
        assert states(cluster) == {"ps:0": "stopped", "evaluator:0": "stopped", "worker:0": "done"}
    # The caller does not show the notes of this cluster.
    assert "The nodes hold all 2 slots of Spark" in caplog.text


def test_the_port_is_kept_for_tensorflow_until_it_takes_it(spark_context: Any) -> None:
    for release in (True, False):
        with running(spark_context, port_keeper(), nodes=1, release_port=release) as cluster:
            assert all(node["port"] for node in cluster.cluster_info)
            cluster.shutdown(timeout=120)
            nodes = cluster._cluster.roster.nodes.values()
            assert all({"kept", "served"} <= set(node.lines) for node in nodes)


def test_what_cannot_be_fed_is_refused_and_leaves_the_cluster_usable(spark_context: Any) -> None:
    with running(spark_context, square, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(ConfigError, match="'none'"):
            cluster.train(spark_context.parallelize([1]), 1, qname="none")
        with pytest.raises(ConfigError, match="num_epochs"):
            cluster.train(spark_context.parallelize([1]), -1)
        with pytest.raises(DataError, match="Turn it into"):
            cluster.train(spark_context.parallelize([{1, 2}], 1), 1)
        with pytest.raises(WorkerError, match="ZeroDivisionError"):
            cluster.train(spark_context.parallelize([0], 1).map(lambda row: 1 / row), 1)
        assert cluster.inference(spark_context.parallelize([3], 1)).collect() == [9]
        cluster.shutdown(timeout=60)


def test_an_error_in_what_makes_the_rows_is_the_users_own_line_and_the_group_stays_theirs(
    spark_context: Any,
) -> None:
    def broken(row: int) -> int:
        raise ValueError("my row")

    with running(spark_context, square, nodes=1, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(WorkerError, match="ValueError: my row"):
            cluster.train(spark_context.parallelize([1], 1).map(broken), 1)
        # Jobs of the notebook after it are none of the cluster's.
        assert "tensorflow" not in (spark_context.getLocalProperty("spark.jobGroup.id") or "")


def test_a_node_on_the_drivers_machine_that_cannot_begin_is_an_error_at_once(
    spark_context: Any,
) -> None:
    def claim(job: str, index: int, cluster: Any) -> dict[str, str]:
        if job == "ps":
            raise WorkerEnvironment("no GPU here")
        return {}

    options = ClusterOptions({"ps": [0], "worker": [1]}, timeout=60.0, local=[0])
    with pytest.raises(WorkerEnvironment, match="no GPU here"):
        NodeCluster(spark_context, square, None, options, claim)


def test_a_function_that_takes_no_rows_is_named_when_the_feed_waits_too_long(
    spark_context: Any,
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        ctx.get_data_feed().next_batch(1)
        time.sleep(600)

    with running(spark_context, main, nodes=1, input_mode=InputMode.SPARK) as cluster:
        with pytest.raises(WaitTimeout, match="worker:0 has taken no row for 1 s: 9 of 10 wait"):
            cluster.train(spark_context.parallelize(range(10), 1), 1, feed_timeout=1)
        with pytest.raises(WaitTimeout, match="worker:0 still run"):
            cluster.shutdown(timeout=0.1)
        assert states(cluster) == {"worker:0": "stopped"}


@pytest.mark.long
def test_the_first_worker_shows_tensorboard_as_long_as_the_cluster_runs(
    spark_context: Any, tmp_path: Path
) -> None:
    def main(args: Any, ctx: NodeContext) -> None:
        ctx.get_data_feed().next_batch(1)

    given = {"tensorboard": True, "log_dir": str(tmp_path), "num_ps": 1}
    with running(spark_context, main, input_mode=InputMode.SPARK, **given) as cluster:
        url = cluster.tensorboard_url()
        until(lambda: b"TensorBoard" in page(url), 60.0)
    # The cluster has ended when its nodes have; what shows them ends after the first one.
    until(lambda: page(url) == b"", 60.0)


def page(url: str) -> bytes:
    """Return what is at an address, nothing if no server is."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except (OSError, HTTPException):
        # Also where the server ends in the middle of its answer.
        return b""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"num_executors": 1, "num_ps": 1}, "num_executors"),
        ({"num_executors": 0, "num_ps": 0}, "num_executors"),
        ({"num_executors": 2, "num_ps": -1}, "num_ps"),
        ({"num_executors": 2, "num_ps": 1, "driver_ps_nodes": True}, "driver_ps_nodes"),
        ({"num_executors": 2, "num_ps": 0, "eval_node": True}, "eval_node"),
        ({"num_executors": 2, "num_ps": 0, "master_node": "worker"}, "master_node"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TFCluster.run(None, square, None, input_mode=InputMode.SPARK, **given)


def test_rows_cannot_be_fed_to_nodes_that_read_their_data_themselves(spark_context: Any) -> None:
    with running(spark_context, lambda args, ctx: None) as cluster:
        with pytest.raises(ConfigError, match=r"InputMode\.SPARK"):
            cluster.train(spark_context.parallelize([1]))
        with pytest.raises(ConfigError, match=r"InputMode\.SPARK"):
            cluster.inference(spark_context.parallelize([1]))
        assert cluster.tensorboard_url() is None
        cluster.shutdown(timeout=60)
