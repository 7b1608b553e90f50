"""The epochs of a run as Spark jobs, one for each.

The driver broadcasts the parameters, tasks compute an update each, Spark adds those up in a tree,
and the driver makes a step: as in `GradientDescent` of Spark's MLlib.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..blocks.source import DataSource
from ..cluster.calls import java_errors
from ..cluster.executors import executor_of_ended
from ..cluster.jobs import aggregate
from ..coordination.coordinator import Coordinator
from ..coordination.watchdog import Phase
from ..strategies.treeaggregate.iteration import Iteration, combined
from ..wire.tasks import Assignment, TaskReport, Total

if TYPE_CHECKING:
    from ..worker.task import Task


class Iterations:
    """Trains a layout of the data by a Spark job for each epoch; see `TaskWorkers`.

    Parameters
    ----------
    training : Coordinator
        Its strategy's settings have a `tree_depth`.
    source : DataSource
    phase : Phase
        Told of each job.
    """

    def __init__(self, training: Coordinator, source: DataSource, phase: Phase) -> None:
        self._training = training
        self._source = source
        self._phase = phase

    def run(
        self, sc: Any, make: Callable[[], Any], task: Task, group: str, description: str
    ) -> None:
        """Run jobs until the present span is trained, or the run ends; see `run_job`."""
        sc.setJobGroup(group, description, interruptOnCancel=True)
        workers, blocks, rows = self._training.task_workers(), make(), list[Any]()
        locate = partial(_place, sc)
        try:
            rows += self._sent(sc)
            while (assignment := workers.next()) is not None:
                number = assignment.epoch + 1
                self._phase.enter(f"Spark to end the job of iteration {number}")
                sc.setJobDescription(f"{group}: iteration {number}")
                began = time.perf_counter()
                total = self._aggregated(sc, blocks, task, assignment, rows)
                workers.take(assignment, total, time.perf_counter() - began, locate)
        finally:
            _drop(rows)

    def _sent(self, sc: Any) -> Iterable[Any]:
        """Yield the rows of each partition as a broadcast, if the driver has them."""
        for partition in range(self._source.partitions):
            columns = self._source.rows(partition)
            if columns is not None:
                yield sc.broadcast(columns)

    def _aggregated(
        self, sc: Any, blocks: Any, task: Task, assignment: Assignment, rows: list[Any]
    ) -> Total:
        parameters = self._training.trainer.parameters
        depth = self._training.settings.strategy.tree_depth
        sent = sc.broadcast(parameters.read()[0])
        try:
            iteration = Iteration(
                task.program, task.cores, task.plan, assignment, sent, tuple(rows)
            )
            add = partial(combined, parameters.layout)
            return aggregate(blocks, iteration, add, Total(), depth)
        finally:
            _drop([sent])


def _place(sc: Any, task_report: TaskReport) -> tuple[str, str]:
    return executor_of_ended(sc, task_report.stage, task_report.join.task, task_report.join.host)


def _drop(broadcasts: Iterable[Any]) -> None:
    """Let executors forget broadcasts; where Spark has stopped, there is nothing to forget."""
    for each in broadcasts:
        with suppress(*java_errors(OSError)):
            each.destroy()
