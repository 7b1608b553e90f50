from __future__ import annotations

import math

import pytest

from tests.unit.telemetry.samples import joined, lost, milestone, started
from tos_notebook.events import (
    Event,
    RunFinished,
    RunResumed,
    Stalled,
    StrategySwapped,
    WorkerFailed,
)
from tos_notebook.telemetry.tally import RECENT, STEADY, Tally, WorkerTally


def tally(*events: Event) -> Tally:
    result = Tally()
    for event in events:
        result(event)
    return result


def test_nothing_known_yet() -> None:
    totals = tally().totals()
    assert (totals.epoch, totals.epochs, totals.milestones, totals.samples) == (0, 0, 0, 0)
    assert totals.samples_total is None
    assert totals.samples_per_second == 0
    assert totals.elapsed == 0
    assert math.isnan(totals.loss)
    assert math.isnan(totals.staleness_mean)
    assert math.isnan(totals.recent_staleness)
    assert math.isnan(totals.recent_workers)


def test_rate_is_from_first_to_last_milestone_without_the_first_ones_samples() -> None:
    one = [started(time=0.0), milestone(time=10.0, samples=500)]
    assert tally(*one).totals().samples_per_second == 0
    totals = tally(*one, milestone(time=12.0, samples=300)).totals()
    assert totals.samples_per_second == pytest.approx(150.0)
    assert totals.samples == 800


def test_a_step_that_all_workers_make_together_counts_once() -> None:
    step = [milestone(partition=p, steps=4, optimizer_steps=1 - p, wait=p) for p in (0, 1)]
    found = tally(started(lockstep=True), *step, *step)
    assert found.totals().steps == 2
    assert [worker.waited for worker in found.workers.values()] == [0, 2]


def test_where_all_make_each_step_together_nothing_is_stale() -> None:
    totals = tally(started(lockstep=True), milestone(staleness=0)).totals()
    assert math.isnan(totals.staleness_mean)
    assert math.isnan(totals.recent_staleness)
    assert totals.recent_workers == 2


def test_elapsed_runs_from_the_start_of_the_run_to_the_latest_event() -> None:
    totals = tally(started(time=5.0), milestone(time=6.0), RunFinished(9.0, "finished")).totals()
    assert totals.elapsed == pytest.approx(4.0)


def test_samples_total_is_over_all_epochs_and_none_where_unknown() -> None:
    assert tally(started(epochs=3, samples=1000)).totals().samples_total == 3000
    assert tally(started(epochs=3, samples=None)).totals().samples_total is None


def test_loss_is_weighted_by_samples_and_forgets_old_milestones() -> None:
    weighted = tally(milestone(samples=300, loss=1.0), milestone(samples=100, loss=5.0))
    assert weighted.totals().loss == pytest.approx(2.0)
    recent = tally(milestone(loss=1e9), *[milestone(loss=0.25)] * RECENT)
    assert recent.totals().loss == pytest.approx(0.25)


def test_epoch_is_the_latest_of_any_worker() -> None:
    totals = tally(started(epochs=4), milestone(epoch=2), milestone(epoch=1)).totals()
    assert (totals.epoch, totals.epochs) == (2, 4)


def test_staleness_is_averaged_over_milestones() -> None:
    totals = tally(milestone(staleness=0), milestone(staleness=3)).totals()
    assert totals.staleness_mean == pytest.approx(1.5)


def test_recent_means_forget_old_milestones() -> None:
    late = milestone(staleness=3, workers=8)
    totals = tally(*[milestone(staleness=90, workers=1)] * 5, *[late] * (STEADY - 1)).totals()
    assert totals.recent_staleness == pytest.approx(3 + 87 / STEADY)
    assert totals.recent_workers == pytest.approx(8 - 7 / STEADY)


def test_steps_of_all_workers_are_counted_and_metrics_averaged_as_the_loss_is() -> None:
    found = tally(
        milestone(steps=3, samples=300, metrics={"accuracy": 0.5}),
        milestone(steps=4, samples=100, partition=1, metrics={"accuracy": 0.9}),
        milestone(steps=5, samples=100, partition=2),
    ).totals()
    assert found.steps == 12
    assert found.metrics == {"accuracy": pytest.approx(0.6)}


def test_workers_are_told_apart_by_executor_host_and_partition() -> None:
    counted = tally(
        milestone(),
        milestone(),
        milestone(partition=1),
        milestone(executor="2"),
        milestone(host="other"),
    )
    assert {key: worker.milestones for key, worker in counted.workers.items()} == {
        ("1", "node", 0): 2,
        ("1", "node", 1): 1,
        ("2", "node", 0): 1,
        ("1", "other", 0): 1,
    }


def test_a_worker_is_busy_while_it_computes_or_exchanges_not_while_it_waits() -> None:
    counted = tally(milestone(samples=100, compute=0.3, exchange=0.1, wait=99.0))
    assert counted.workers["1", "node", 0].samples_per_second == pytest.approx(250.0)


def test_a_worker_without_milestones_has_no_rate_and_no_staleness() -> None:
    assert WorkerTally().samples_per_second == 0
    assert math.isnan(WorkerTally().staleness_mean)


def test_each_lost_attempt_counts() -> None:
    counted = tally(joined(), lost(), joined(attempt=1), lost(attempt=1), joined(attempt=2))
    assert counted.workers["1", "node", 0].lost == 2


def test_failure_and_loss_of_one_attempt_count_once() -> None:
    failed = WorkerFailed(1.0, 0, 0, "1", "node", "ValueError: x", (), 0, ())
    counted = tally(joined(), failed, lost())
    assert counted.workers["1", "node", 0].lost == 1


def test_a_staleness_that_nobody_counts_is_unknown_and_not_zero() -> None:
    found = tally(started(), milestone(staleness=None), milestone(staleness=None))
    assert math.isnan(found.totals().staleness_mean)
    assert math.isnan(found.totals().recent_staleness)
    assert math.isnan(found.workers["1", "node", 0].staleness_mean)
    assert found.totals().recent_workers == 2


def test_staleness_is_told_while_a_strategy_trains_by_which_something_can_be_stale() -> None:
    """Steps that all workers make together are not stale, and are no part of the mean."""
    apart, together = milestone(staleness=4), milestone(staleness=0)
    there = [started(), apart, StrategySwapped(2.0, 1, "allreduce", True), together, together]
    assert math.isnan(tally(*there).totals().staleness_mean)
    back = tally(*there, StrategySwapped(3.0, 2, "ps", False), milestone(staleness=2)).totals()
    assert back.staleness_mean == pytest.approx(3.0)
    assert back.recent_staleness == pytest.approx(2.0)


def test_the_time_in_which_a_run_was_queued_does_not_count() -> None:
    waits = Stalled(1.0, "slots: run 1 holds both slots", "Waiting.", "Stop it.", 0.0)
    found = tally(started(time=0.0), waits)
    assert (found.elapsed(30.0), found.totals().queued) == (0.0, True)
    found(joined(time=35.0))
    found(milestone(time=36.0))
    assert (found.totals().elapsed, found.totals().queued) == (1.0, False)
    # A partition that waits later holds nothing up.
    found(Stalled(40.0, "slots: run 3 holds both slots", "Waiting.", "Stop it.", 40.0))
    assert found.elapsed(45.0) == 10.0


def test_a_resumed_run_that_is_queued_keeps_the_time_that_it_has_trained() -> None:
    found = tally(started(time=0.0), joined(time=1.0), milestone(time=4.0))
    found(RunResumed(100.0, 1, 5, 2, 1000))
    found(Stalled(101.0, "slots: run 1 holds both slots", "Waiting.", "Stop it.", 100.0))
    assert found.elapsed(130.0) == 4.0
    found(joined(time=130.0))
    assert found.elapsed(132.0) == 6.0
