"""What Spark says of itself where its driver's JVM belongs to this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .calls import within

if TYPE_CHECKING:
    from pyspark import SparkContext

DRIVER = "driver"
"""Spark's id of the process that runs the tasks of a ``local[...]`` master."""

RECENT_TASKS = 1000
"""Tasks of a stage, newest first, among which a running one is looked up."""

_LOCAL = re.compile(r"local(\[(?P<slots>\d+|\*)(\s*,\s*(?P<failures>\d+))?\s*\])?")


def local_master(master: str) -> re.Match[str] | None:
    """Return what a ``local[...]`` master says; None for any other one."""
    return _LOCAL.fullmatch(master)


class JvmBackend:
    """See `Backend`; this one asks by py4j.

    Parameters
    ----------
    sc : SparkContext
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc

    def is_running(self) -> bool:
        """See `Backend.is_running`."""
        return getattr(self._sc, "_jsc", None) is not None

    def setting(self, key: str, default: str) -> str:
        """See `Backend.setting`."""
        # sc.getConf() would copy all settings, one call to Java for each: 30 ms.
        return str(self._sc._jsc.sc().conf().get(key, default))

    def driver_host(self) -> str:
        """See `Backend.driver_host`."""
        if local_master(self._sc.master) is not None:
            return "127.0.0.1"
        return self.setting("spark.driver.host", "127.0.0.1")

    def executor_cores(self) -> list[int]:
        """See `Backend.executor_cores`."""
        local = local_master(self._sc.master)
        if local is None:
            return [executor.totalCores() for executor in self._executors()]
        return [self._local_cores(local["slots"])]

    def _local_cores(self, given: str | None) -> int:
        if given != "*":
            return int(given or "1")
        return int(self._sc._jvm.java.lang.Runtime.getRuntime().availableProcessors())

    def task_attempts(self) -> int:
        """See `Backend.task_attempts`."""
        local = local_master(self._sc.master)
        if local is None:
            return int(self.setting("spark.task.maxFailures", "4"))
        # Spark heeds the setting on clusters only.
        return int(local["failures"] or 1)

    def slots(self) -> int:
        """See `Backend.slots`."""
        local = local_master(self._sc.master)
        if local is None:
            known = sum(executor.maxTasks() for executor in self._executors())
            return max(1, known or self._sc.defaultParallelism)
        cores = self._local_cores(local["slots"])
        return max(1, cores // int(self.setting("spark.task.cpus", "1")))

    def registered(self) -> int:
        """See `Backend.registered`."""
        return sum(1 for _ in self._executors())

    def tasks_started(self) -> int | None:
        """See `Backend.tasks_started`."""
        from py4j.protocol import Py4JError

        try:
            return int(self._sc._jsc.sc().taskScheduler().nextTaskId())
        except (Py4JError, TypeError):
            return None

    def place_of_running(self, task: int) -> tuple[str, str] | None:
        """See `Backend.place_of_running`."""
        return _place(self._running_tasks(), task)

    def place_of_ended(self, stage: int, task: int) -> tuple[str, str] | None:
        """See `Backend.place_of_ended`."""
        from py4j.protocol import Py4JError

        # The attempts of a stage are listed one by one, and few have more than one.
        try:
            tasks = _items(self._sc._jsc.sc().statusStore().taskList(stage, 0, RECENT_TASKS))
            return _place(tasks, task)
        except Py4JError:
            return None

    def where_to_look(self, executor: str | None) -> str:
        """See `Backend.where_to_look`."""
        ui = self._sc.uiWebUrl
        if executor is None:
            found = 1 if local_master(self._sc.master) else self.registered()
            busy = sum(1 for _ in self._running_tasks())
            page = f" See {ui}." if ui else " See Spark's master or resource manager."
            return (
                f"Spark has {found} executor{'' if found == 1 else 's'} with "
                f"{self.slots() if found else 0} slots, and {busy} tasks run.{page}"
            )
        for known in self._executors():
            if known.id() == executor:
                logs = known.executorLogs()
                if logs.contains("stderr"):
                    return f"See its standard error: {logs.apply('stderr')}"
        return f"See the executor's log{f' by {ui}/executors/' if ui else ''}; it may be gone."

    def tasks_of(self, group: str) -> int | None:
        """See `Backend.tasks_of`."""
        tracker: Any = self._sc.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        running = [job for job in jobs if job.status == "RUNNING"]
        stages = [tracker.getStageInfo(stage) for job in running for stage in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage) if running else None

    def cancel(self, group: str, timeout: float) -> None:
        """See `Backend.cancel`."""
        # Not cancelJobGroup, which does nothing if the job has not been submitted yet.
        self._ask(lambda sc: sc.cancelJobGroupAndFutureJobs(group), "cancel its job", timeout)

    def kill(self, task: int, group: str, reason: str, timeout: float) -> None:
        """See `Backend.kill`."""
        self._ask(
            lambda sc: sc.killTaskAttempt(task, True, reason),
            f"kill task {task}",
            timeout,
        )

    def _ask(self, call: Callable[[Any], object], what: str, timeout: float) -> None:
        """Make a call with Java's Spark context, unless it has stopped."""

        def call_if_running() -> None:
            context = self._sc._jsc.sc() if self.is_running() else None
            if context is not None and not context.isStopped():
                call(context)

        within(timeout, call_if_running, f"Spark to {what}")

    def _executors(self) -> Iterator[Any]:
        """Iterate over those of a cluster; Spark lists the driver among them."""
        known = _items(self._sc._jsc.sc().statusStore().executorList(True))
        return (executor for executor in known if executor.id() != DRIVER)

    def _running_tasks(self) -> Iterator[Any]:
        store = self._sc._jsc.sc().statusStore()
        for stage in _items(store.activeStages()):
            yield from _items(store.taskList(stage.stageId(), stage.attemptId(), RECENT_TASKS))


def _place(tasks: Iterator[Any], number: int) -> tuple[str, str] | None:
    return next(((t.executorId(), t.host()) for t in tasks if t.taskId() == number), None)


def _items(sequence: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq."""
    return (sequence.apply(index) for index in range(sequence.size()))
