"""Workers that are alive but stand still: when they lose their place, and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tos_notebook.coordination.membership import Doing, Member
from tos_notebook.coordination.standstill import ATTEMPTS, FIRST, GAP, SLOWER, Standstill, still
from tos_notebook.coordination.watchdog import JOB, Facts
from tos_notebook.errors import ClusterUnreachable, TosError, WaitTimeout

SECONDS = 100.0


def member(partition: int = 0, heard: float = 0.0, **changes: Any) -> Member:
    known: dict[str, Any] = {"pid": 123, "epoch": 1, "doing": Doing.TRAIN, "pushed": True}
    return Member(partition, 0, 7 + partition, "2", "node-a", 0, heard=heard, **(known | changes))


def facts(*members: Member, **changes: Any) -> Facts:
    known = Facts("running", JOB, 0.0, "bsp", 2, members, (), 0.0)
    return replace(known, **changes)


def found(known: Facts, now: float, since: float = 0.0) -> list[int]:
    return [member.partition for member in still(known, now, SECONDS, since)]


def test_a_silent_worker_stands_still_from_the_limit_on() -> None:
    known = facts(member(0, heard=0.0), member(1, heard=50.0, doing=Doing.WAIT))
    assert found(known, 99.9) == []
    assert found(known, 100.0) == [0]
    # One that waits asks all the time; if it is silent, it does not wait.
    assert found(known, 150.0) == [0, 1]


@pytest.mark.parametrize("doing", [Doing.LOAD, Doing.TRAIN])
def test_loading_and_the_first_milestone_may_take_several_times_as_long(doing: Doing) -> None:
    known = facts(member(doing=doing, pushed=False))
    assert found(known, FIRST * SECONDS - 1) == []
    assert found(known, FIRST * SECONDS) == [0]


def test_a_model_with_long_milestones_has_a_longer_limit() -> None:
    known = facts(member(0), member(1, heard=299.0, longest=80.0))
    assert found(known, SLOWER * 80.0 - 1) == []
    assert found(known, 300.0) == [0]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(facts(member(), state="paused"), id="paused"),
        pytest.param(facts(member(doing=Doing.MERGE)), id="the server merges"),
        pytest.param(facts(member(), phase="the validation"), id="between jobs"),
    ],
)
def test_a_worker_is_not_to_blame_for_what_others_do(known: Facts) -> None:
    assert found(known, 1e6) == []


class Told:
    """A `Standstill` that looks when a test says so."""

    def __init__(self, limit: float | None = SECONDS, answers: bool = True) -> None:
        self.superseded: list[tuple[int, str]] = []
        self.killed: list[int] = []
        self.failed: list[TosError] = []
        self.spoke = False
        self.answers = answers
        self.standstill = Standstill(
            limit,
            self._supersede,
            self._kill,
            self.failed.append,
        )

    def _kill(self, task: int, reason: str) -> None:
        self.killed.append(task)
        if not self.answers:
            raise WaitTimeout("Spark does not answer")

    def _supersede(self, member: Member, reason: str) -> bool:
        if self.spoke:
            return False
        self.superseded.append((member.partition, reason))
        return True

    def look(self, known: Facts, start: float, end: float) -> None:
        """Look every second."""
        now = start
        while now <= end:
            self.standstill.check(known, now)
            now += 1


def test_spark_is_not_asked_to_kill_what_a_restarted_job_has_left_behind() -> None:
    """Where Spark can end whole jobs only, it would end the one that has just started."""
    told = Told()
    told.standstill.check(facts(member(0, heard=5.0), member(1, heard=15.0), since=10.0), 115.0)
    assert [partition for partition, _ in told.superseded] == [0, 1]
    assert told.killed == [8]


def test_a_worker_that_stands_still_loses_its_place_and_spark_kills_its_task() -> None:
    told = Told()
    told.look(facts(member(1)), 0, 100)
    assert told.superseded == [(1, "it stood still for 100 s (worker_timeout=100)")]
    assert told.killed == [8]
    (note,) = told.standstill.notes
    assert note == (
        "Partition 1 on executor 2 (node-a, process 123, attempt 0) lost its place to another "
        "attempt in epoch 2: it stood still for 100 s (worker_timeout=100)."
    )


def test_one_that_speaks_at_the_last_moment_keeps_its_place() -> None:
    told = Told()
    told.spoke = True
    told.look(facts(member()), 0, 100)
    assert (told.killed, told.standstill.notes) == ([], ())


def test_without_a_limit_nobody_loses_a_place() -> None:
    told = Told(None)
    told.look(facts(member()), 0, 1000)
    assert not told.superseded


def test_silence_counts_from_the_end_of_a_pause_on() -> None:
    told = Told()
    told.look(facts(member(), state="paused"), 0, 500)
    told.look(facts(member()), 501, 599)
    assert not told.superseded
    told.look(facts(member()), 600, 600)
    assert told.superseded


def test_a_notebook_that_stood_still_itself_does_not_blame_its_workers() -> None:
    """As with a suspended laptop, or a cell that holds the interpreter for minutes."""
    told = Told()
    told.look(facts(member()), 0, 10)
    told.look(facts(member()), 10 + 5 * GAP + 200, 10 + 5 * GAP + 299)
    assert not told.superseded
    told.look(facts(member()), 10 + 5 * GAP + 300, 10 + 5 * GAP + 300)
    assert told.superseded


def test_attempts_that_stand_still_one_after_the_other_end_the_run() -> None:
    told = Told()
    stuck, now = facts(member()), 0.0
    for attempt in range(ATTEMPTS + 1):
        silent = 100.0 if attempt == 0 else FIRST * SECONDS
        told.look(stuck, now, now + silent)
        assert len(told.superseded) == attempt + 1
        now += silent
        stuck = facts(member(heard=now, pushed=False))
    (error,) = told.failed
    assert error.partition == 0
    assert f"{ATTEMPTS} attempts in a row" in error.message
    assert len(told.killed) == ATTEMPTS


def test_tasks_that_have_left_but_do_not_end_are_killed_once() -> None:
    told = Told()
    told.look(facts(left=(7, 8)), 0, 99)
    assert told.killed == []
    told.look(facts(left=(7, 8)), 100, 300)
    assert told.killed == [7, 8]
    assert not told.superseded


def test_spark_is_asked_again_until_another_attempt_has_come() -> None:
    told = Told(answers=False)
    told.look(facts(member(1)), 0, 100)
    told.look(facts(missing=(1,), changed=100.0), 101, 310)
    assert told.killed == [8, 8, 8]
    told.look(facts(replace(member(1, heard=311.0), task=9)), 311, 400)
    assert told.killed == [8, 8, 8]


def waiting(*partitions: int, **changes: Any) -> Facts:
    """Return a run in which some workers wait for a partition that has none since time 0."""
    there = [member(p, heard=1e9, doing=Doing.WAIT) for p in partitions]
    return facts(*there, **{"missing": [2], "lockstep": True} | changes)


def test_workers_do_not_wait_for_ever_for_a_partition_that_is_lost() -> None:
    told = Told()
    told.look(facts(member(0, heard=1e9), member(2, heard=1e9), lockstep=True), 0, 10)
    told.look(waiting(0, 1, changed=10.0), 11, 109)
    assert not told.failed
    told.look(waiting(0, 1, changed=10.0), 110, 110)
    (error,) = told.failed
    assert isinstance(error, ClusterUnreachable)
    assert "Partition 2 has had no worker for too long (worker_timeout=100)" in str(error)
    assert "from a checkpoint with more slots or fewer partitions" in str(error)


def test_a_partition_that_no_worker_had_yet_is_waited_for_longer() -> None:
    told = Told()
    told.look(waiting(0), 0, FIRST * SECONDS - 1)
    assert not told.failed
    told.look(waiting(0), FIRST * SECONDS, FIRST * SECONDS)
    assert len(told.failed) == 1


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(waiting(0, lockstep=False), id="the others train"),
        pytest.param(waiting(0, state="paused"), id="paused"),
        pytest.param(waiting(0, phase="the validation"), id="between jobs"),
        pytest.param(waiting(), id="no worker at all"),
        pytest.param(waiting(0, missing=[]), id="none is missing"),
    ],
)
def test_a_missing_partition_ends_no_run_in_which_none_waits_for_it(known: Facts) -> None:
    told = Told()
    told.look(known, 0, 10 * SECONDS)
    assert not told.failed


def test_workers_that_may_continue_do_so_after_the_patience_and_the_run_does_not_fail() -> None:
    without: list[list[int]] = []
    told = Told()
    standstill = Standstill(
        None, told._supersede, told._kill, told.failed.append, without.append, 60.0
    )
    known = waiting(0, 1, continues=True)
    standstill.check(facts(member(2), lockstep=True, continues=True), 0)
    for now in range(60):
        standstill.check(known, now)
    assert not without
    standstill.check(known, 60)
    assert without == [[2]]
    assert not told.failed


def test_a_partition_whose_absence_is_allowed_ends_no_run() -> None:
    told = Told()
    told.look(waiting(0, continues=True), 0, 10 * SECONDS)
    assert not told.failed
