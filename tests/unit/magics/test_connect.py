"""``%tos_connect`` with a Spark that is only looked at."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.threads import wait_for_end
from tests.unit.magics.conftest import Cells, Cluster
from tos_notebook.errors import WorkerEnvironment


def test_this_package_is_sent_to_all_executors_when_asked(cells: Cells, cluster: Cluster) -> None:
    cells("%tos_connect local[2] --no-warm-up")
    cells("%tos_connect local[2] --no-warm-up --ship-package")
    assert cluster.shipped == [False, True]


def test_what_it_connects_to_is_shown_and_in_the_notebook(cells: Cells, cluster: Cluster) -> None:
    cluster.context.startTime = (time.time() + 60) * 1000
    output = cells("%tos_connect local[2] --conf spark.a=1 spark.b=x=y --conf spark.c=2")
    assert cluster.calls == [("local[2]", {"spark.a": "1", "spark.b": "x=y", "spark.c": "2"})]
    assert "Started Spark on local[2]" in output
    assert "1 executor in this process's JVM, 2 cores, 2 tasks at once" in output
    assert "Spark 4.0.1, TensorFlow 2." in output
    assert cells.space["sc"] is cluster.context
    assert cells.space["spark"].sparkContext is cluster.context


def test_it_warms_up_in_the_background_once(cells: Cells, cluster: Cluster) -> None:
    cluster.release.clear()
    assert "warm up in the background" in cells("%tos_connect")
    assert "reusing it" in (again := cells("%tos_connect"))
    assert "still warm up" in again
    cluster.release.set()
    wait_for_end("tos-warm-up")
    assert "The executors are warm." in cells("%tos_connect")
    assert cluster.warmed == [cluster.context]


def test_another_context_is_warmed_up_again(cells: Cells, cluster: Cluster) -> None:
    cells("%tos_connect")
    wait_for_end("tos-warm-up")
    cluster.context = cluster.new_context()
    assert "Adopted the running Spark" in cells("%tos_connect")
    wait_for_end("tos-warm-up")
    assert len(cluster.warmed) == 2


def test_without_warming_up(cells: Cells, cluster: Cluster) -> None:
    assert "when the first run starts" in cells("%tos_connect --no-warm-up")
    assert not cluster.warmed


def test_what_goes_wrong_in_warming_up_is_shown_by_the_next_magic_once(
    cells: Cells, cluster: Cluster
) -> None:
    cluster.error = WorkerEnvironment("Host a: cannot import tensorflow")
    cells("%tos_connect")
    wait_for_end("tos-warm-up")
    assert "WorkerEnvironment: Host a" in cells.fails("%tos_status")
    assert "Host a" not in cells.fails("%tos_status")
    cluster.error = None
    assert "warm up in the background" in cells("%tos_connect")


def test_the_notebooks_spark_is_adopted_while_it_runs(cells: Cells, cluster: Cluster) -> None:
    context = type("SparkContext", (), {"__module__": "pyspark.core.context", "_jsc": object()})()
    cells.space["sc"] = context
    cells("%tos_connect --no-warm-up")
    context._jsc = None
    cells.space["sc"], cells.space["spark"] = context, 3
    cells("%tos_connect --no-warm-up")
    assert [master for master, _ in cluster.calls] == [context, None]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%tos_connect --conf spark.a", "expected name=value"),
        ("%tos_connect --config spark.a=1", "Did you mean --conf?"),
        ("%tos_connect --conf s.a=1 --conf s.a=2", "s.a: expected one value, got 1 and 2."),
        ("%tos_connect a b", "unrecognized arguments: b"),
    ],
)
def test_mistakes_are_one_message(cells: Cells, cluster: Cluster, line: str, text: str) -> None:
    output = cells.fails(line)
    assert text in output
    assert len(output.strip().splitlines()) == 1


def test_a_real_spark_is_adopted(cells: Cells, spark_context: Any) -> None:
    cells.shell.extension_manager.reload_extension("tos_notebook")
    cells.space["sc"] = spark_context
    output = cells("%tos_connect --no-warm-up")
    assert "Adopted the running Spark on local[2,4]" in output
    assert f"2 cores, 2 tasks at once\n  Spark {spark_context.version}" in output
    assert cells.space["spark"].sparkContext is spark_context
