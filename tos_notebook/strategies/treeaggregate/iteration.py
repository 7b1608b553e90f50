"""The worker's side of an iteration that is a Spark job, and how Spark adds up what workers bring.

Without a connection: a task is told all that it needs, and returns all that it has to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...archive.runner import Runner
from ...blocks.block import Columns
from ...cluster.gpus import claim_gpus
from ...common.arrays import Buffer
from ...layout import Layout
from ...runtime.loaded import Loaded
from ...wire.messages import Failed, Join, Push
from ...wire.tasks import Assignment, TaskReport, Total
from ...worker.batches import Batches
from ...worker.chaos_effects import ChaosEffects
from ...worker.loading import load
from ...worker.loop import Worker
from ...worker.plan import Plan
from ...worker.recording import RecordedExchange, Recorder
from ...worker.task import die, join_of, runner_of, spark_task, whole
from ..allreduce.mean import mean

_kept: dict[str, Loaded[Batches]] = {}
"""Rows of the last partitions that this process has loaded, for later iterations of the same run.

A process trains other partitions now and then, and keeps few: the rows are in Spark's store, too.
"""


@dataclass(frozen=True, slots=True)
class Iteration:
    """A task of one iteration: a function of (partition, blocks) for Spark.

    Parameters
    ----------
    program : str
        Name of the published program file.
    cores : int
        Cores of one task.
    plan : Plan
    assignment : Assignment
    parameters : Broadcast of ndarray
        Those to compute gradients at, shape (layout.nbytes,), uint8.
    rows : sequence of Broadcast of Columns
        Of each partition, where Spark does not have the rows.
    """

    program: str
    cores: int
    plan: Plan
    assignment: Assignment
    parameters: Any
    rows: Sequence[Any]

    def __call__(self, partition: int, blocks: Iterable[Columns]) -> Iterator[Total]:
        """Compute one partition's gradient."""
        gpus = claim_gpus()
        runner = runner_of(self.program, self.plan.leg, self.cores, gpus)
        recorder = Recorder(self.assignment, lambda: self.rows[partition].value)
        done = compute(
            recorder,
            runner,
            self.plan,
            join_of(self.plan.run, partition),
            self.parameters.value,
            whole(blocks),
            f"{self.assignment.layout} {partition}",
            ChaosEffects(kill=die),
        )
        stage = spark_task().stageId()
        task_reports = tuple(task_report._replace(stage=stage) for task_report in done.task_reports)
        yield done._replace(task_reports=task_reports)


def compute(
    recorder: Recorder,
    runner: Runner,
    plan: Plan,
    join: Join,
    parameters: Buffer,
    blocks: Iterable[Columns],
    name: str,
    chaos: ChaosEffects | None = None,
) -> Total:
    """Compute the gradient of one partition's sample.

    Parameters
    ----------
    recorder : Recorder
    runner : Runner
    plan : Plan
    join : Join
        The identity of the worker.
    parameters : ndarray, shape (layout.nbytes,), uint8
    blocks : iterable of Columns
        The partition's rows, where Spark brings them.
    name : str
        Under which this process keeps them, of one run.
    chaos : ChaosEffects, optional

    Returns
    -------
    Total
        What the program itself has raised is in it: another attempt would raise it again.

    Raises
    ------
    Exception
        Anything else that was raised, after which Spark may try again.
    """
    exchange = RecordedExchange(recorder, runner.spec.layout, parameters)
    worker = Worker(
        recorder, exchange, runner, plan, join, chaos=chaos, load=_keeping(plan.leg, name)
    )
    try:
        worker.run(blocks)
    except Exception:
        if not any(isinstance(said, Failed) and said.in_program for said in recorder.said):
            raise
    joined, *messages = recorder.said
    push = next((said for said in messages if isinstance(said, Push)), None)
    task_report = TaskReport(cast(Join, joined), 0, tuple(messages))
    if push is None:
        return Total(task_reports=(task_report,))
    if not push.finite:
        return Total(task_reports=(task_report._replace(spoiled=exchange.update),))
    return Total(exchange.update, push.samples, (task_report,))


def _keeping(leg: str, name: str) -> Callable[..., Batches]:
    """Return what loads rows, unless this process has them."""
    if leg not in _kept:
        _kept.clear()
    kept = _kept.setdefault(leg, Loaded())

    def rows(connection: Any, plan: Plan, partition: int, feeds: Any, blocks: Any) -> Batches:
        found = kept.get(name)
        if found is None:
            found = load(connection, plan, partition, feeds, blocks)
        else:
            # Spark starts another process for the next task where one leaves rows unread.
            for _ in blocks:
                pass
        return kept.keep(name, found)

    return rows


def combined(layout: Layout, one: Total, other: Total) -> Total:
    """Return what two groups of workers bring together; an inner node of Spark's tree.

    Parameters
    ----------
    layout : Layout
        Of the updates.
    one, other : Total
    """
    parts = [(each.mean, each.rows) for each in (one, other) if each.mean is not None]
    task_reports = one.task_reports + other.task_reports
    if len(parts) < 2:
        return Total(*parts[0], task_reports) if parts else Total(task_reports=task_reports)
    out = layout.allocate()
    mean(layout, parts, out)
    return Total(out, one.rows + other.rows, task_reports)
