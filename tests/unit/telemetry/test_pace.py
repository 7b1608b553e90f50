"""What workers do with their time of late, as the history tells it."""

from __future__ import annotations

import pytest

from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import CommandAccepted, Event, Repartitioned, RunResumed, StrategySwapped
from tos_notebook.telemetry.history import History
from tos_notebook.telemetry.pace import WINDOW, Paces


def paces(*events: Event) -> Paces:
    history = History()
    for event in events:
        history(event)
    return history.paces()


def test_before_the_first_milestone_there_is_no_pace() -> None:
    assert paces(started()) == Paces()
    assert Paces().milestones == 0


def test_each_worker_has_its_own_medians() -> None:
    found = paces(
        *(milestone(float(at), partition=0, compute=0.5, exchange=0.1) for at in range(3)),
        *(milestone(2.0 * at, partition=1, compute=0.2, wait=1.5) for at in range(5)),
    )
    first, second = found.workers
    assert (first.milestones, second.milestones, found.milestones) == (3, 5, 8)
    assert (first.compute, first.exchange, first.interval) == (0.5, 0.1, 1.0)
    assert (second.compute, second.wait, second.interval) == (0.2, 1.5, 2.0)
    assert (first.steps, first.samples, first.bytes_up, first.bytes_down) == (10, 100, 8, 16)


def test_to_collect_rows_is_part_of_training_and_not_of_exchange() -> None:
    (worker,) = paces(*(milestone(float(at), compute=0.5) for at in range(3))).workers
    assert worker.busy == pytest.approx(1.0 - worker.exchange)


def test_one_milestone_has_no_next_and_takes_what_it_says() -> None:
    (worker,) = paces(milestone(compute=0.3, exchange=0.1, wait=0.2)).workers
    assert worker.interval == pytest.approx(0.6)
    assert worker.busy == pytest.approx(0.3)


def test_a_pause_and_the_first_trace_are_in_no_median() -> None:
    times = [0.0, 1.0, 2.0, 63.0, 64.0]
    found = paces(
        milestone(0.0, compute=20.0),
        *(milestone(at, wait=60.0 if at == 63 else 0.0, compute=0.9) for at in times),
    )
    (worker,) = found.workers
    assert (worker.compute, worker.wait, worker.interval) == (0.9, 0.0, 1.0)


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        (CommandAccepted(1.0, "set", "", {"sync_interval": "20"}), 1),
        (CommandAccepted(1.0, "set", "", {"learning_rate": "0.1"}), 4),
        (CommandAccepted(1.0, "pause", ""), 4),
        (CommandAccepted(1.0, "chaos", ""), 1),
        (CommandAccepted(1.0, "repartition", ""), 4),
        (CommandAccepted(1.0, "swap strategy", ""), 4),
        (CommandAccepted(1.0, "swap combiner", ""), 1),
        (StrategySwapped(1.0, 1, "allreduce", True), 1),
        (Repartitioned(1.0, 1, 4, 0.1), 1),
        (RunResumed(1.0, 3, 5, 2, None), 1),
    ],
)
def test_what_changes_the_work_begins_a_new_count(event: Event, counts: int) -> None:
    assert paces(*[milestone()] * 3, event, milestone()).milestones == counts


def test_only_the_latest_milestones_count() -> None:
    old, new = milestone(compute=9.0), milestone(compute=1.0)
    (worker,) = paces(*[old] * WINDOW, *[new] * WINDOW).workers
    assert (worker.milestones, worker.compute) == (WINDOW, 1.0)


def test_where_workers_run_is_told() -> None:
    local = [milestone(executor="driver", host="here", workers=3)] * 2
    assert (paces(*local).local, paces(*local).remote, paces(*local).at_once) == (True, False, 3)
    apart = paces(milestone(host="a"), milestone(partition=1, host="b"))
    assert (apart.local, apart.remote) == (False, True)
