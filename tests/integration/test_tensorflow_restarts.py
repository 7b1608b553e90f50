"""A TensorFlow cluster begins again when a node fails or dies, as often as it may."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.long import few
from tests.support.python_workers import own_python_workers
from tos_notebook.errors import WorkerError
from tos_notebook.nodes.cluster import NodeCluster
from tos_notebook.nodes.context import NodeContext
from tos_notebook.nodes.plan import ClusterOptions

Main = Callable[[Any, NodeContext], object]


@pytest.fixture(scope="module")
def spark_context(spark_context: Any) -> Iterator[Any]:
    with own_python_workers(spark_context) as sc:
        yield sc


@contextmanager
def running(sc: Any, main: Main, mark: Path, nodes: int = 2, **given: Any) -> Iterator[NodeCluster]:
    """Run a cluster whose nodes know a file by which they go on."""
    options = ClusterOptions({"worker": range(nodes)}, restarts=1, **given)
    with NodeCluster(sc, main, str(mark), options) as cluster:
        yield cluster


def lines(cluster: NodeCluster) -> list[list[str]]:
    """Return what the nodes have printed since the cluster began the last time."""
    return [list(node.lines) for _, node in sorted(cluster.roster.nodes.items())]


def test_a_node_that_dies_lets_all_begin_again_from_what_they_have_saved(
    spark_context: Any, tmp_path: Path
) -> None:
    def main(args: str, ctx: NodeContext) -> None:
        saved = Path(args)
        if saved.exists():
            print("from step", saved.read_text())
            return
        if ctx.task_index == 1:
            saved.write_text("7")
            os.kill(os.getpid(), 9)
        threading.Event().wait()

    with running(spark_context, main, tmp_path / "saved") as cluster:
        cluster.wait(60)
        assert lines(cluster) == [["from step 7"]] * 2
        assert cluster.roster.start == 1


@pytest.mark.parametrize("when", few(["while it is fed", "after its feed"], "while it is fed"))
def test_rows_of_a_node_that_fails_come_once_more(
    spark_context: Any, tmp_path: Path, when: str
) -> None:
    def main(args: str, ctx: NodeContext) -> None:
        feed, total, failed = ctx.get_data_feed(), 0, Path(args)
        first = not failed.exists()
        failed.touch()
        while not feed.should_stop():
            total += sum(feed.next_batch(10))
            if first and total and when == "while it is fed":
                raise ValueError("mine")
        if first:
            raise ValueError("mine")
        print("total", total)

    with running(spark_context, main, tmp_path / "failed", nodes=1, feed=True) as cluster:
        cluster.feed(spark_context.parallelize(range(100), 4))
        cluster.close_feed()
        cluster.wait(60)
        assert lines(cluster) == [["total 4950"]]
        assert cluster.roster.start == 1


def test_what_fails_too_often_ends_the_cluster_with_its_error(
    spark_context: Any, tmp_path: Path
) -> None:
    def main(args: str, ctx: NodeContext) -> None:
        with Path(args).open("a") as calls:
            calls.write("x")
        raise ValueError("mine")

    calls = tmp_path / "calls"
    with running(spark_context, main, calls, nodes=1) as cluster:
        with pytest.raises(WorkerError, match="mine") as caught:
            cluster.wait(60)
        assert (caught.value.executor, caught.value.host) == ("driver", "127.0.0.1")
    assert calls.read_text() == "xx"
    assert spark_context.parallelize(range(10)).sum() == 45


def test_a_cluster_that_was_stopped_does_not_begin_again(
    spark_context: Any, tmp_path: Path
) -> None:
    def main(args: str, ctx: NodeContext) -> None:
        threading.Event().wait()

    with running(spark_context, main, tmp_path) as cluster:
        cluster.stop()
        cluster.wait(60)
        assert cluster.roster.start == 0
        assert {node.state for node in cluster.roster.nodes.values()} == {"stopped"}
