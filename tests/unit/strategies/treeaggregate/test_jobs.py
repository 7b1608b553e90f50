"""MLlib's gradient descent with a Spark job for each iteration, its tasks computed in this process.

What Spark does in between, to start tasks and to add up in a tree, `treeAggregate` stands for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.unit.strategies.treeaggregate.test_treeaggregate import (
    LIMIT,
    Single,
    X,
    Y,
    by_hand,
    converges_at,
    weights,
)
from tests.unit.strategies.treeaggregate.test_treeaggregate import bench as long_stage
from tos_notebook.chaos.rules import Pause
from tos_notebook.common.arrays import Array
from tos_notebook.common.threads import in_thread
from tos_notebook.coordination.task_workers import TaskWorkers
from tos_notebook.errors import ConfigError, DataError, SessionClosed, WorkerError
from tos_notebook.events import (
    CommandApplied,
    EpochFinished,
    MilestoneCommitted,
    PartitionFinished,
    UpdateSkipped,
    WorkerJoined,
)
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import TreeAggregate
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.treeaggregate.iteration import combined, compute
from tos_notebook.strategies.treeaggregate.updaters import UPDATERS
from tos_notebook.testing.bench import RUN, Bench
from tos_notebook.wire.messages import Finish, Join
from tos_notebook.wire.tasks import Assignment, TaskReport, Total
from tos_notebook.worker.chaos_effects import ChaosEffects
from tos_notebook.worker.plan import Plan
from tos_notebook.worker.recording import Recorder

Changed = Callable[[int, Total], Total]
"""Takes an epoch and what its job returns; returns what the driver is told instead."""


_numbers = itertools.count()


class Jobs:
    """The Spark jobs of a run, computed in this process, with a process for each attempt."""

    def __init__(self, run: Bench, attempt: int = 0) -> None:
        self.run, self.attempt, self.tasks = run, attempt, 0
        # Rows are kept by it.
        self.name = f"jobs {next(_numbers)}"
        self.workers: TaskWorkers = run.run.task_workers()
        self.slept: list[float] = []
        self.before: Callable[[int], object] = lambda epoch: None
        self.after: Changed = lambda epoch, total: total

    def work(self) -> None:
        """Train until the span or the run ends."""
        while (assignment := self.workers.next()) is not None:
            self.before(assignment.epoch)
            total = self.after(assignment.epoch, self.aggregate(assignment))
            self.workers.take(assignment, total, 1.0, self.locate)

    def locate(self, task_report: TaskReport) -> tuple[str, str]:
        return f"executor {task_report.join.pid}", task_report.join.host

    def aggregate(self, assignment: Assignment) -> Total:
        """Add up in a tree, the last partition first, as Spark may do it."""
        totals = [self.compute(assignment, p) for p in reversed(range(self.run.partitions))]
        add = partial(combined, self.run.program.spec.layout)
        while len(totals) > 1:
            totals = [add(add(Total(), totals[0]), totals[1]), *totals[2:]][::-1]
        return totals[0]

    def compute(self, assignment: Assignment, partition: int) -> Total:
        run = self.run
        source = run.run.state.span.source if run.run.state.span else None
        assert source is not None
        rows = source.rows(partition)
        task = 10_000 * self.attempt + self.tasks
        self.tasks += 1
        join = Join(RUN, partition, self.attempt, task, "here", self.attempt + 1, "", [])
        return compute(
            Recorder(assignment, lambda: rows or ()),
            run.program,
            Plan(RUN, 0, False, 7, run.columns, sampler=run.strategy.sampling),
            join,
            run.run.parameters.read()[0],
            (),
            f"{self.name} {assignment.layout} {partition}",
            ChaosEffects(self.slept.append),
        )


@pytest.fixture
def bench() -> Iterator[Callable[..., Jobs]]:
    """Return jobs of a run over the rows of `X` and `Y`."""
    opened = []

    def make(
        strategy: TreeAggregate, partitions: int, epochs: int, program: Any = None, rows: int = 31
    ) -> Jobs:
        context = long_stage(strategy, program)
        run = context.__enter__()
        opened.append(context)
        run.begin((X[:rows], Y[:rows]), partitions, range(epochs))
        return Jobs(run)

    yield make
    for context in opened:
        context.__exit__(None, None, None)


def a_job_each(*values: Any, **options: Any) -> TreeAggregate:
    return TreeAggregate(*values, **{"jobs": True, "convergence_tol": 0} | options)


def milestones(run: Bench) -> list[MilestoneCommitted]:
    return [event for event in run.events if isinstance(event, MilestoneCommitted)]


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("updater", UPDATERS)
def test_each_job_is_an_iteration_of_mllib(
    bench: Callable[..., Jobs], updater: str, fraction: float, partitions: int
) -> None:
    reg = 0.0 if updater == "none" else 0.05
    strategy = a_job_each(fraction, 0.7, updater, reg)
    jobs = bench(strategy, partitions, 8)
    jobs.work()
    np.testing.assert_allclose(weights(jobs.run), by_hand(strategy, partitions, 8), rtol=1e-12)


def test_batches_rows_and_epochs_are_counted_exactly(bench: Callable[..., Jobs]) -> None:
    jobs = bench(a_job_each(), 3, 4)
    jobs.work()
    run, found = jobs.run, milestones(jobs.run)
    assert [(e.epoch, e.partition, e.version) for e in found] == [
        (epoch, p, epoch + 1) for epoch in range(4) for p in range(3)
    ]
    assert sum(e.samples for e in found) == 4 * len(X)
    assert sum(e.optimizer_steps for e in found) == 4
    # A task took some of the job's second, and Spark the rest.
    assert all(0 < e.compute + e.exchange <= 1.001 for e in found)
    ends = [(e.epoch, e.samples) for e in run.events if isinstance(e, EpochFinished)]
    assert ends == [(epoch, len(X)) for epoch in range(4)]
    joined = [e.partition for e in run.events if isinstance(e, WorkerJoined)]
    assert joined == [0, 1, 2]
    assert run.run.facts(("", 0.0), 1).members == []


def test_a_sample_without_rows_makes_no_step_and_the_iteration_counts(
    bench: Callable[..., Jobs],
) -> None:
    strategy = a_job_each(0.1)
    sizes = [[len(strategy.sampling.draw(2, i, part)) for part in range(2)] for i in range(30)]
    assert [0, 0] in sizes
    assert any(0 in pair and sum(pair) for pair in sizes)
    jobs = bench(strategy, 2, 30, rows=4)
    jobs.work()
    np.testing.assert_allclose(weights(jobs.run), by_hand(strategy, 2, 30, rows=4), rtol=1e-12)


def test_single_precision_stays_near_double_and_statistics_are_averaged(
    bench: Callable[..., Jobs],
) -> None:
    strategy, program = a_job_each(updater="l2", reg_param=0.1), Single()
    jobs = bench(strategy, 3, 100, program)
    jobs.work()
    found = program.spec.layout.tensors(jobs.run.run.parameters.read()[0])
    np.testing.assert_allclose(found["w"], by_hand(strategy, 3, 100), rtol=1e-5)
    np.testing.assert_allclose(found["seen"], X.mean(), rtol=1e-12)


def test_a_run_stops_once_it_has_converged(bench: Callable[..., Jobs]) -> None:
    strategy = a_job_each(convergence_tol=0.05)
    last = converges_at(strategy, 1000)
    jobs = bench(strategy, 2, 1000)
    jobs.work()
    assert jobs.run.run.parameters.version == last
    assert jobs.run.run.reason == "the parameters have converged (convergence_tol)"


def in_steps(jobs: Jobs) -> Future[None]:
    """Train in a thread, so that this one can steer."""
    return in_thread("check-jobs", jobs.work)


def applied(run: Bench) -> list[Command]:
    return [event.command for event in run.events if isinstance(event, CommandApplied)]


def wait_until(run: Bench, holds: Callable[[], bool]) -> None:
    with run.told:
        assert run.told.wait_for(holds, LIMIT)


def test_a_pause_before_the_first_job_holds_it(bench: Callable[..., Jobs]) -> None:
    jobs = bench(a_job_each(), 2, 3)
    run = jobs.run
    run.run.command(Command.PAUSE)
    training = in_steps(jobs)
    wait_until(run, lambda: applied(run) == [Command.PAUSE])
    assert not milestones(run)
    run.run.command(Command.UNPAUSE)
    training.result(LIMIT)
    assert run.run.parameters.version == 3


def test_a_pause_counts_the_iteration_under_way_and_a_stop_ends_the_run(
    bench: Callable[..., Jobs],
) -> None:
    jobs = bench(a_job_each(), 2, 100_000)
    run = jobs.run
    jobs.before = lambda epoch: run.run.command(Command.PAUSE) if epoch == 2 else None
    training = in_steps(jobs)
    wait_until(run, lambda: applied(run) == [Command.PAUSE])
    assert run.run.parameters.version == 3
    run.run.command(Command.STOP)
    training.result(LIMIT)
    assert run.run.parameters.version == 3
    assert run.run.wait_left(0)


def test_a_stop_during_a_job_counts_what_it_has_computed(bench: Callable[..., Jobs]) -> None:
    jobs = bench(a_job_each(), 2, 100)
    jobs.before = lambda epoch: jobs.run.run.command(Command.STOP) if epoch == 4 else None
    jobs.work()
    assert jobs.run.run.parameters.version == 5
    assert sum(e.samples for e in milestones(jobs.run)) == 5 * len(X)


@pytest.mark.parametrize("lost", [0, 3])
def test_a_job_that_is_lost_counts_for_nothing_and_the_next_continues(
    bench: Callable[..., Jobs], lost: int
) -> None:
    strategy = a_job_each(0.5)
    jobs = bench(strategy, 3, 8)

    def lose(epoch: int, total: Total) -> Total:
        if epoch == lost:
            raise SessionClosed("Spark has lost the job.")
        return total

    jobs.after = lose
    with pytest.raises(SessionClosed):
        jobs.work()
    Jobs(jobs.run, attempt=1).work()
    np.testing.assert_allclose(weights(jobs.run), by_hand(strategy, 3, 8), rtol=1e-12)
    assert sorted((e.epoch, e.partition) for e in milestones(jobs.run)) == [
        (epoch, p) for epoch in range(8) for p in range(3)
    ]


def test_an_iteration_whose_step_is_made_already_is_only_finished(
    bench: Callable[..., Jobs],
) -> None:
    """A checkpoint may lie between the step and the end of its epoch."""
    jobs = bench(a_job_each(), 3, 4)

    def unfinished(epoch: int, total: Total) -> Total:
        if epoch < 2:
            return total
        cut = [
            task_report._replace(
                messages=tuple(m for m in task_report.messages if not isinstance(m, Finish))
            )
            for task_report in total.task_reports
        ]
        jobs.after = done
        return total._replace(task_reports=tuple(cut))

    def done(epoch: int, total: Total) -> Total:
        raise SessionClosed("Spark has lost the job.")

    jobs.after = unfinished
    with pytest.raises(SessionClosed):
        jobs.work()
    assert jobs.run.run.parameters.version == 3
    Jobs(jobs.run, attempt=1).work()
    assert jobs.run.run.parameters.version == 4
    np.testing.assert_allclose(weights(jobs.run), by_hand(a_job_each(), 3, 4), rtol=1e-12)
    finished = [e for e in jobs.run.events if isinstance(e, PartitionFinished)]
    assert len(finished) == 3 * 4


def test_a_partition_that_another_executor_computes_is_shown_there(
    bench: Callable[..., Jobs],
) -> None:
    jobs = bench(a_job_each(), 2, 2)
    jobs.before = lambda epoch: setattr(jobs, "attempt", epoch)
    jobs.work()
    shown = [(e.epoch, e.executor, e.attempt) for e in milestones(jobs.run)]
    assert shown == [(0, "executor 1", 0)] * 2 + [(1, "executor 2", 1)] * 2


def test_a_learning_rate_takes_the_place_of_the_step_size_even_in_the_first_job(
    bench: Callable[..., Jobs],
) -> None:
    jobs = bench(a_job_each(step_size=5.0), 2, 4)

    def change(epoch: int) -> None:
        if epoch == 0:
            jobs.run.run.change_settings(Command.SET, "learning_rate=0.3", learning_rate=0.3)

    jobs.before = change
    jobs.work()
    expected = by_hand(a_job_each(step_size=0.3), 2, 4)
    np.testing.assert_allclose(weights(jobs.run), expected, rtol=1e-12)
    assert applied(jobs.run) == [Command.SET]


def test_chaos_strikes_the_first_attempt_of_a_worker(bench: Callable[..., Jobs]) -> None:
    jobs = bench(a_job_each(), 2, 6)
    rule = Pause(0.5, worker=1, at=2)

    def change(epoch: int) -> None:
        if epoch == 1:
            jobs.run.run.change_settings(Command.CHAOS, "pause", chaos=(rule,))

    jobs.before = change
    jobs.work()
    assert jobs.slept == [0.5]


class Skipping(TreeAggregate):
    """Leaves out what is not finite."""

    def trainer(self, setup: TrainerSetup) -> Any:
        return TreeAggregate.trainer(self, replace(setup, non_finite="skip"))


def spoiled(bench: Callable[..., Jobs], kind: type[TreeAggregate]) -> Jobs:
    """Return jobs over rows of which the fifth holds NaN."""
    run = bench(kind(jobs=True, convergence_tol=0), 3, 3).run
    bad = X.copy()
    bad[4, 0] = np.nan
    run.begin((bad, Y), 3, range(3))
    return Jobs(run)


def test_a_row_that_is_not_finite_ends_the_run_and_is_named(bench: Callable[..., Jobs]) -> None:
    jobs = spoiled(bench, TreeAggregate)
    jobs.work()
    assert isinstance(jobs.run.run.error, DataError)
    assert "Row 4 of the arrays" in str(jobs.run.run.error)
    assert jobs.run.run.parameters.version == 0


def test_a_gradient_that_is_not_finite_can_be_left_out(bench: Callable[..., Jobs]) -> None:
    jobs = spoiled(bench, Skipping)
    jobs.work()
    skipped = [(e.epoch, e.partition) for e in jobs.run.events if isinstance(e, UpdateSkipped)]
    assert skipped == [(0, 0), (1, 0), (2, 0)]
    assert jobs.run.run.parameters.version == 3
    assert np.isfinite(weights(jobs.run)).all()


class Refusing(Single):
    """Raises in a partition of a few rows, as an operation of a program may."""

    def before(self, batch: tuple[Array, ...]) -> None:
        if len(batch[0]) == 3:
            raise ValueError("three")

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        return "ValueError: three rows are too few", []


def test_what_the_program_raises_ends_the_run_at_once(bench: Callable[..., Jobs]) -> None:
    """Another attempt would raise it again."""
    jobs = bench(a_job_each(), 10, 3, Refusing())
    jobs.work()
    assert isinstance(jobs.run.run.error, WorkerError)
    assert "three rows are too few" in str(jobs.run.run.error)


def test_what_else_is_raised_is_left_to_spark(bench: Callable[..., Jobs]) -> None:
    """It may try again."""
    program = Refusing()
    program.explain = lambda error: None  # type: ignore[method-assign, assignment]
    jobs = bench(a_job_each(), 10, 3, program)
    with pytest.raises(ValueError, match="three"):
        jobs.work()
    assert jobs.run.run.error is None


def test_means_of_means_are_weighted_by_rows() -> None:
    layout = Layout([ParameterSpec("a", (3,), "float32"), ParameterSpec("n", (), "int64")])

    def total(value: float, rows: int) -> Total:
        packed = layout.pack({"a": np.full(3, value, "f4"), "n": np.int64(value)})
        return Total(packed, rows)

    both = combined(layout, combined(layout, total(1, 1), Total()), total(5, 3))
    assert both.mean is not None
    found = layout.tensors(both.mean)
    assert (found["a"].tolist(), found["n"].tolist(), both.rows) == ([4.0] * 3, 4, 4)
    assert combined(layout, Total(), Total()) == Total()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"depth": 3}, r"depth: expected jobs=True with it.*got 3\. Add jobs=True"),
        ({"jobs": True, "depth": 0}, "depth: expected a whole number of at least 1"),
        ({"jobs": 1}, "jobs: expected True or False, got 1"),
    ],
)
def test_a_depth_needs_a_tree(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TreeAggregate(**given)


def test_the_settings_say_how_deep_the_tree_is() -> None:
    assert TreeAggregate().exact_settings().tree_depth is None
    assert "tree_depth" not in TreeAggregate().exact_settings().shown()
    own = TreeAggregate(jobs=True, depth=3).exact_settings()
    assert own.shown()["tree_depth"] == 3
