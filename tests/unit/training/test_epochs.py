"""A run's jobs when they lose their workers: which are begun again, and which end the run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import Aside
from tests.unit.worker.support import center, counting_training, finish, join, of, push
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import ClusterUnreachable, TosError, WorkerEnvironment
from tos_notebook.events import JobRestarted
from tos_notebook.steering.machine import Command
from tos_notebook.steering.restarts import LIMIT
from tos_notebook.training import epochs as epochs_module
from tos_notebook.training.epochs import Epochs
from tos_notebook.training.limits import Limits
from tos_notebook.training.options import RunOptions
from tos_notebook.training.run_plan import RunPlan
from tos_notebook.wire.messages import Directive, Failed

SOON = Limits(job_look=0.01, give_up=0.01)

LAYOUT = Counting().spec.layout

LOST = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: "
    "Lost task 0.3 in stage 1.0 (TID 7) (host executor 1): ExecutorLostFailure (executor 1 exited)"
)

SECONDS = 10.0

Job = Callable[[Coordinator, int], None]


def work(training: Coordinator, task: int, pushes: int) -> None:
    """Let a task push batches of its one partition, three an epoch, and finish epochs."""
    member, joined = training.join(join(task=task), False)
    epoch, sequence = joined.epoch, joined.sequence
    for _ in range(pushes):
        update = LAYOUT.pack({"total": np.float64(1), "rows": np.int64(1)})
        training.push(member, push(sequence, epoch=epoch), update)
        sequence += 1
        if sequence == 3:
            if training.finish(member, finish(epoch, 3, 3)).directive is not Directive.GO:
                return
            epoch, sequence = epoch + 1, 0


def dies(pushes: int, error: Exception) -> Job:
    def job(training: Coordinator, task: int) -> None:
        if pushes:
            work(training, task, pushes)
        raise error

    return job


def returns(pushes: int) -> Job:
    return lambda training, task: work(training, task, pushes)


def train(monkeypatch: pytest.MonkeyPatch, *jobs: Job, epochs: int = 2) -> tuple[Coordinator, int]:
    """Run epochs over scripted jobs; return the training and how many were run."""
    training, _ = counting_training(rows=3, epochs=epochs)
    ran, left = scripted(monkeypatch, training, jobs, epochs, lambda seconds: None)
    ran.train()
    return training, len(jobs) - len(left)


def scripted(
    monkeypatch: pytest.MonkeyPatch,
    training: Coordinator,
    jobs: Sequence[Job],
    epochs: int,
    rest: Callable[[float], object] | None,
    every: int | None = None,
    limits: Limits | None = None,
) -> tuple[Epochs, list[Job]]:
    """Return epochs over scripted jobs, and the jobs that are left."""
    left = list(jobs)

    def run_job(sc: Any, make: Any, task: Any, group: str, description: str) -> None:
        left.pop(0)(training, len(jobs) - len(left))

    monkeypatch.setattr(epochs_module, "run_job", run_job)
    source = ArraySource((np.arange(3.0),), 1)
    task: Any = None
    options = RunOptions(epochs, repartition_every=every)
    plan = RunPlan(options, 1, limits=limits or Limits())
    return Epochs(None, training, task, source, plan, training.state.publish, rest=rest), left


def test_a_job_that_lost_its_workers_goes_on_behind_what_was_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = [dies(n, RuntimeError(LOST)) for n in (1, 2, 1)]
    training, jobs = train(monkeypatch, *lost, returns(6))
    assert jobs == 4
    assert center(training) == {"total": 6, "rows": 6}


def test_a_job_that_got_nowhere_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a cluster that loses every executor at once would be asked for ever."""
    with pytest.raises(ClusterUnreachable, match="ExecutorLostFailure"):
        train(monkeypatch, dies(2, RuntimeError(LOST)), dies(0, RuntimeError(LOST)), returns(6))


def test_what_the_user_s_code_raised_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def job(training: Coordinator, task: int) -> None:
        work(training, task, 1)
        member, _ = training.join(join(task=task + 1), False)
        training.failed(member, Failed("ValueError: spoiled", [], False, 0, []))
        raise RuntimeError(LOST)

    with pytest.raises(TosError):
        train(monkeypatch, job, returns(6))


def test_a_missing_package_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("ModuleNotFoundError: No module named 'tos_notebook'")
    with pytest.raises(WorkerEnvironment):
        train(monkeypatch, dies(1, error), returns(6))


def test_a_job_that_spark_takes_for_done_too_early_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    training, jobs = train(monkeypatch, returns(1), returns(6))
    assert (jobs, center(training)["rows"]) == (2, 6)
    with pytest.raises(ClusterUnreachable, match="took the job for done"):
        train(monkeypatch, returns(1), lambda training, task: None)


def test_a_job_that_dies_again_and_again_ends_the_run_with_a_wait_before_each_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with an executor that runs out of memory after each push."""
    training, events = counting_training(rows=3, epochs=20)
    jobs = [dies(1, RuntimeError(LOST))] * (LIMIT + 1)
    waits: list[float] = []
    ran, left = scripted(monkeypatch, training, jobs, 20, waits.append)
    with pytest.raises(ClusterUnreachable, match=r"11 times in a row.*\n?.*ExecutorLostFailure"):
        ran.train()
    assert not left
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    told = of(JobRestarted, events)
    assert [event.restarts for event in told] == list(range(1, LIMIT + 1))
    assert "ExecutorLostFailure" in str(told[-1])
    assert "restarted 10 times" in ran.notes[0]
    assert center(training)["rows"] == LIMIT + 1


def test_a_stop_ends_the_wait_before_a_restart_at_once() -> None:
    training, _ = counting_training()
    waiting = Aside(lambda: training.wait_ending(1000 * LIMIT))
    training.command(Command.STOP, "now")
    waiting.result()


def test_a_job_that_somebody_cancelled_does_not_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "[SPARK_JOB_CANCELLED] Job 3 cancelled as part of cancellation of all jobs"
    with pytest.raises(RuntimeError, match="SPARK_JOB_CANCELLED"):
        train(monkeypatch, dies(1, RuntimeError(said)), returns(6))


def test_a_job_that_does_not_end_holds_no_run_up_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with a JVM that hangs, which does not hear that the job is cancelled."""
    training, _ = counting_training(rows=3, epochs=2)
    freed = threading.Event()

    def hang(training: Coordinator, task: int) -> None:
        training.command(Command.STOP, "now")
        assert freed.wait(SECONDS)

    ran, left = scripted(monkeypatch, training, [hang], 2, None, limits=SOON)
    Aside(ran.train).result()
    freed.set()
    assert not left
    assert "Spark has not ended the job" in ran.notes[0]


@pytest.mark.parametrize("hangs", ["repartition", "persist"])
def test_spark_that_does_not_answer_about_the_data_holds_no_run_up_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    training, _ = counting_training(rows=3, epochs=2)
    freed = threading.Event()

    def hang(*_: object) -> None:
        training.command(Command.STOP, "now")
        assert freed.wait(SECONDS)

    monkeypatch.setattr(ArraySource, hangs, hang)
    ran, left = scripted(monkeypatch, training, [returns(3)], 2, None, 1, SOON)
    Aside(ran.train).result()
    freed.set()
    for thread in threading.enumerate():
        if thread.name.startswith("tos-data-"):
            # Else it would close its data by what the next test puts in place.
            thread.join(SECONDS)
    assert len(left) == (1 if hangs == "persist" else 0)
    assert "Spark has not answered" in ran.notes[0]


def test_a_run_continues_while_spark_does_not_answer_about_an_earlier_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training, _ = counting_training(rows=3, epochs=2)
    freed = threading.Event()
    monkeypatch.setattr(ArraySource, "close", lambda source: freed.wait(SECONDS))
    limits = Limits(release=0.01)
    ran, left = scripted(monkeypatch, training, [returns(3)] * 2, 2, None, 1, limits)
    Aside(ran.train).result()
    freed.set()
    assert not left
    assert center(training)["rows"] == 6
    (note,) = ran.notes
    assert note.startswith("Spark has not released the rows of an earlier layout: Waited")


def test_rows_that_spark_does_not_release_between_two_jobs_do_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no answer\nfrom Java")

    monkeypatch.setattr(ArraySource, "close", fails)
    training, _ = counting_training(rows=3, epochs=2)
    ran, left = scripted(monkeypatch, training, [returns(3)] * 2, 2, None, every=1)
    ran.train()
    assert not left
    assert center(training)["rows"] == 6
    assert ran.notes == ("Spark has not released the rows of an earlier layout: no answer",)
