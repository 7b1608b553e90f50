"""What the driver knows of the executors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

DRIVER = "driver"
"""Spark's id of the process that runs the tasks of a ``local[...]`` master."""

UNKNOWN = "?"

RECENT_TASKS = 1000
"""Tasks of a stage, newest first, among which a running one is looked up."""

_LOCAL = re.compile(r"local(\[(?P<slots>\d+|\*)(\s*,\s*\d+)?\s*\])?")


def is_local(sc: SparkContext) -> bool:
    """Tell whether tasks run in the driver's own JVM (``local[...]``)."""
    return _LOCAL.fullmatch(sc.master) is not None


def task_cores(sc: SparkContext) -> int:
    """Return how many cores a task may use, ``spark.task.cpus``."""
    return int(_setting(sc, "spark.task.cpus", "1"))


def slots(sc: SparkContext) -> int:
    """Return how many tasks run at once, on the executors there are now; at least 1.

    Spark's default parallelism where no executor has registered yet.
    """
    local = _LOCAL.fullmatch(sc.master)
    if local is None:
        registered = sum(e.maxTasks() for e in _executors(sc) if e.id() != DRIVER)
        return max(1, registered or sc.defaultParallelism)
    count = local["slots"] or "1"
    if count == "*":
        count = sc._jvm.java.lang.Runtime.getRuntime().availableProcessors()
    return max(1, int(count) // task_cores(sc))


def executor_of(sc: SparkContext, task_attempt_id: int) -> tuple[str, str]:
    """Return the executor id and host of a running task.

    The task cannot know them itself; it can send its ``TaskContext.taskAttemptId()``.

    Parameters
    ----------
    sc : SparkContext
    task_attempt_id : int

    Returns
    -------
    tuple of str
        ``("?", "?")`` if Spark's status store does not have the task (yet, or any more).
    """
    if is_local(sc):
        return DRIVER, contact_host(sc)
    for task in _running_tasks(sc):
        if task.taskId() == task_attempt_id:
            return task.executorId(), task.host()
    return UNKNOWN, UNKNOWN


def contact_host(sc: SparkContext) -> str:
    """Return the address at which executors reach the driver's process."""
    if is_local(sc):
        return "127.0.0.1"
    return _setting(sc, "spark.driver.host", "127.0.0.1")


def _setting(sc: SparkContext, key: str, default: str) -> str:
    # sc.getConf() would copy all settings, one call to Java for each: 30 ms.
    return str(sc._jsc.sc().conf().get(key, default))


def _executors(sc: SparkContext) -> Iterator[Any]:
    return _items(sc._jsc.sc().statusStore().executorList(True))


def _running_tasks(sc: SparkContext) -> Iterator[Any]:
    store = sc._jsc.sc().statusStore()
    for stage in _items(store.activeStages()):
        yield from _items(store.taskList(stage.stageId(), stage.attemptId(), RECENT_TASKS))


def _items(sequence: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))
