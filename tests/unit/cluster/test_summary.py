"""What is said of a Spark application."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tos_notebook.cluster.executors import active_context, is_running
from tos_notebook.cluster.summary import summary


def test_a_local_spark_is_one_executor_with_its_slots(spark_context: Any) -> None:
    found = summary(spark_context)
    assert (found.master, found.local) == (spark_context.master, True)
    assert (found.executors, found.tasks, found.cores) == (1, 2, 2)
    assert found.ui is None
    assert found.versions["Spark"] == spark_context.version
    assert found.versions["TensorFlow"].startswith("2.")


def test_the_running_spark_is_found_and_a_stopped_one_is_told_apart(spark_context: Any) -> None:
    assert active_context() is spark_context
    assert is_running(spark_context)
    assert not is_running(SimpleNamespace(_jsc=None))
