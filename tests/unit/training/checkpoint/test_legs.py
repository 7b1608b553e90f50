"""Where a resumed run's Spark jobs begin, and when it may lay its data out again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.telemetry.samples import milestone, started
from tests.unit.worker.support import counting_training, numbers
from tos_notebook.blocks.partitioners import RandomPartitioner
from tos_notebook.coordination.snapshots import BEGINNING, RunPosition
from tos_notebook.data.arrays import ArraySource
from tos_notebook.events import RunResumed
from tos_notebook.telemetry.tally import Tally
from tos_notebook.training import epochs as epochs_module
from tos_notebook.training.epochs import Asked, Epochs
from tos_notebook.training.options import RunOptions
from tos_notebook.training.run_plan import RunPlan

# First epoch, last epoch, partitions and the epoch that the layout was made for.
Job = tuple[int, int, int, int | None]


def jobs(
    monkeypatch: pytest.MonkeyPatch,
    reached: RunPosition,
    ahead: int | None = None,
    asked: Asked | None = None,
    every: int | None = None,
    slots: int = 2,
    epochs: int = 6,
) -> list[Job]:
    """Return the jobs of a run that goes on; one worker may have been ahead, in an epoch."""
    training, _ = counting_training(partitions=2, rows=8)
    training.state.span = None
    if ahead is not None:
        training.state.ledger.begin(0, 0, ahead)
        training.state.ledger.admit(ahead, 0, 0, 0, 1)
    done: list[Job] = []

    def run_job(*_: Any) -> None:
        span = training.state.span
        assert span is not None
        epoch = None if span.layout is None else span.layout.epoch
        done.append((span.first_epoch, span.last_epoch, span.source.partitions, epoch))

    monkeypatch.setattr(epochs_module, "run_job", run_job)
    monkeypatch.setattr(training, "has_trained", lambda span: True)
    source: Any = ArraySource((numbers(8),), 2)
    if reached.layout is not None:
        source = source.repartition(*reached.layout)
    plan = RunPlan(RunOptions(epochs, repartition_every=every), slots, asked=asked)
    Epochs(None, training, None, source, plan, lambda _: None, reached).train()  # type: ignore[arg-type]
    return done


def test_a_fresh_run_and_one_that_goes_on_differ_in_where_they_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert jobs(monkeypatch, BEGINNING) == [(0, 5, 2, None)]
    assert jobs(monkeypatch, RunPosition(3, False, None)) == [(3, 5, 2, None)]


def test_a_layout_that_was_due_between_two_epochs_is_made_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = RunPosition(2, True, None)
    assert jobs(monkeypatch, reached, every=2) == [(2, 3, 2, 2), (4, 5, 2, 4)]
    assert jobs(monkeypatch, reached) == [(2, 5, 2, None)]


@pytest.mark.parametrize("slots", [1, 2])
def test_no_new_layout_until_all_have_done_the_epochs_that_some_have_begun(
    monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    """Else an epoch would be trained under two layouts, and rows twice."""
    asked = 3, RandomPartitioner(3)
    found = jobs(monkeypatch, RunPosition(1, False, None), ahead=2, asked=asked, slots=slots)
    before = [job for job in found if job[2] == 2]
    after = [job for job in found if job[2] == 3]
    assert [before[0][0], before[-1][1]] == [1, 2]
    assert [after[0][0], after[-1][1]] == [3, 5]
    assert {job[3] for job in after} == {3}


def test_rate_and_time_leave_out_that_there_was_no_process() -> None:
    tally = Tally()
    for event in (
        started(time=0.0, epochs=2, samples=400),
        milestone(time=10.0, samples=100),
        milestone(time=20.0, samples=100),
        RunResumed(1000.0, 3, 5, 2, 400),
        milestone(time=1010.0, samples=100),
        milestone(time=1020.0, samples=50),
    ):
        tally(event)
    totals = tally.totals()
    assert totals.elapsed == 40.0
    assert totals.samples_per_second == 5.0
    assert (totals.samples, totals.samples_total, totals.epochs) == (350, 2000, 5)
