"""When a lost Spark job starts again, and when that is enough."""

from __future__ import annotations

import pytest

from tos_notebook.errors import ClusterUnreachable
from tos_notebook.steering.restarts import (
    FRUITLESS,
    LIMIT,
    LONGEST,
    STEADY_COMMITS,
    STEADY_SECONDS,
    Recoveries,
    Restarts,
)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_a_limit_and_then_the_job_is_given_up() -> None:
    restarts = Restarts(Time())
    delays = []
    for _ in range(LIMIT):
        restarts.begin()
        delays.append(restarts.delay(commits=1, least=1))
    assert delays == [0, 1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST]
    restarts.begin()
    assert restarts.delay(commits=1, least=1) is None


def test_a_job_that_committed_nothing_does_not_start_again() -> None:
    restarts = Restarts(Time())
    restarts.begin()
    assert restarts.delay(commits=0, least=0) is None


def test_a_job_that_ran_well_begins_another_row() -> None:
    clock = Time()
    restarts = Restarts(clock)
    for seconds, commits in ((STEADY_SECONDS, 1), (0.0, STEADY_COMMITS)):
        for _ in range(LIMIT):
            restarts.begin()
            restarts.delay(commits=1, least=1)
        restarts.begin()
        clock.now += seconds
        assert restarts.delay(commits, least=commits) == 0.0
        assert restarts.count == 1


def test_partitions_that_train_well_do_not_excuse_one_that_ends_every_job() -> None:
    restarts = Restarts(Time())
    for _ in range(LIMIT):
        restarts.begin()
        assert restarts.delay(commits=10 * STEADY_COMMITS, least=0) is not None
    restarts.begin()
    assert restarts.delay(commits=10 * STEADY_COMMITS, least=0) is None


def test_a_partition_that_got_done_begins_another_row() -> None:
    restarts = Restarts(Time())
    for _ in range(3 * LIMIT):
        restarts.begin()
        assert restarts.delay(commits=5, least=0, finished=1) == 0.0


def test_parameters_that_are_lost_again_and_again_with_nothing_trained_end_the_run() -> None:
    recoveries = Recoveries()
    rows = [recoveries.count("a host is full", version) for version in (5, 5, 9, 9, 9)]
    assert rows == [1, 2, 1, 2, FRUITLESS]
    with pytest.raises(ClusterUnreachable, match="a host is full"):
        recoveries.count("a host is full", 9)
