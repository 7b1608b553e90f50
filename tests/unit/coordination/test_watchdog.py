"""The watchdog: what a run waits for, as a function of what is known and of the time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from tests.support.threads import LIMIT
from tests.unit.worker.support import counting_training, finish, join, of, push
from tos_notebook.coordination.membership import Doing, Member
from tos_notebook.coordination.watchdog import JOB, Facts, Phase, Watchdog, held, is_queued, waits
from tos_notebook.events import Event, Stalled, StallEnded
from tos_notebook.steering.machine import Command
from tos_notebook.wire.messages import Poll

PATIENCE = 60.0


def member(partition: int = 0, heard: float = 0.0, doing: Doing = Doing.TRAIN) -> Member:
    return Member(partition, 1, 7, "2", "node-a", 0, pid=123, epoch=1, doing=doing, heard=heard)


def facts(*members: Member, **changes: Any) -> Facts:
    known = Facts("running", JOB, 0.0, "asp", 2, members, (), 0.0)
    return replace(known, **changes)


def said(found: Facts, now: float) -> list[str]:
    return [wait.what for wait in waits(found, now, PATIENCE)]


@pytest.mark.parametrize("now", [0.0, 30.0, 59.9])
def test_nothing_is_said_before_patience_is_over(now: float) -> None:
    assert said(facts(member()), now) == []
    assert said(facts(missing=(0, 1)), now) == []
    assert said(facts(phase="the validation"), now) == []


def test_a_silent_worker_is_named_with_place_process_and_epoch() -> None:
    (wait,) = waits(facts(member(3, heard=15.0), member(4, heard=70.0)), 75.0, PATIENCE)
    assert wait.what == (
        "partition 3 on executor 2 (node-a, process 123, attempt 1), training in epoch 2"
    )
    assert (wait.since, wait.executor) == (15.0, "2")


@pytest.mark.parametrize(
    ("doing", "text"),
    [(Doing.LOAD, "loading its data"), (Doing.MERGE, "whose push is being merged")],
)
def test_what_a_silent_worker_was_last_at_is_said(doing: Doing, text: str) -> None:
    (what,) = said(facts(member(doing=doing)), 60.0)
    assert text in what


def test_who_waits_for_a_silent_worker_is_counted() -> None:
    others = [member(p, heard=99.0, doing=Doing.WAIT) for p in (1, 2, 3)]
    (what,) = said(facts(member(0), *others, sync="bsp", slots=4), 100.0)
    assert what.startswith("partition 0")
    assert what.endswith("; 3 others wait for it (bsp)")
    (what,) = said(facts(member(0), others[0], sync="ssp:3"), 100.0)
    assert what.endswith("; 1 other waits for it (ssp:3)")


def test_a_run_without_workers_waits_for_one_to_join() -> None:
    (wait,) = waits(facts(missing=(0, 1, 2)), 60.0, PATIENCE)
    assert wait.what == ("a worker to join for partition 0 and 2 more, and no other worker trains")
    assert wait.executor is None


def test_it_waits_since_the_last_worker_left_or_the_job_began() -> None:
    assert said(facts(missing=(0,), changed=30.0), 89.0) == []
    assert said(facts(missing=(0,), since=40.0, changed=30.0), 99.0) == []
    assert said(facts(missing=(0,), since=40.0, changed=30.0), 100.0)


def test_partitions_without_a_slot_are_nobody_s_fault() -> None:
    busy = [member(0, heard=99.0), member(1, heard=99.0)]
    assert said(facts(*busy, missing=(2, 3), slots=2), 100.0) == []
    assert said(facts(busy[0], missing=(2, 3), slots=2), 100.0) == [
        "a worker to join for partition 2 and 1 more"
    ]


@pytest.mark.parametrize(
    ("workers", "slots", "expected"),
    [
        ({"1": 2}, 2, "run 1 holds both slots of local[2]"),
        ({'"first"': 2}, 2, 'run "first" holds both slots of local[2]'),
        ({"1": 1}, 1, "run 1 holds the only slot of local[2]"),
        ({"1": 2, '"b"': 1, "3": 1, "4": 0}, 4, 'runs 1, "b" and 3 hold all 4 slots of local[2]'),
        ({"1": 1}, 2, ""),
        ({}, 2, ""),
    ],
)
def test_the_runs_that_hold_all_slots_are_named(
    workers: dict[str, int], slots: int, expected: str
) -> None:
    assert held(workers, slots, "local[2]") == expected


def test_a_run_whose_slots_another_holds_says_so_at_once() -> None:
    text = "run 1 holds both slots of local[2]"
    (wait,) = waits(facts(missing=(0, 1), held=text), 0.0, PATIENCE)
    assert wait.what == text
    # What it is, and each way to give it room.
    assert all(word in wait.known for word in ("queued", "stop another run", "repartition"))
    assert said(facts(held=text), 0.0) == []


def test_a_run_without_a_job_is_queued_from_its_beginning() -> None:
    (wait,) = waits(facts(held="run 1 holds it", state="starting", phase="x"), 0.0, PATIENCE)
    assert is_queued("starting", [wait.cause])


def test_a_job_that_goes_on_behind_its_last_partition_is_named() -> None:
    assert said(facts(), 60.0) == ["Spark to end the job: every partition is used up"]


def test_beside_the_job_the_phase_is_what_it_waits_for() -> None:
    assert said(facts(phase="the validation", since=10.0), 70.0) == ["the validation"]


def test_a_paused_run_waits_for_a_person_and_says_nothing() -> None:
    assert said(facts(member(), missing=(1,), state="paused"), 1e6) == []


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_checkpoint_that_is_not_stored_is_named_beside_a_run_that_trains(state: str) -> None:
    busy = member(heard=100.0)
    saving = ("hdfs://node/runs/run-1", 30.0)
    assert said(facts(busy, state=state, saving=saving), 89.0) == []
    (wait,) = waits(facts(busy, state=state, saving=saving), 90.0, PATIENCE)
    assert wait.what == "a checkpoint to be stored in hdfs://node/runs/run-1"
    assert "Training continues" in wait.known


class Told:
    """A watchdog on facts and a time that a test sets."""

    def __init__(self, found: Facts) -> None:
        self.found, self.now = found, 0.0
        self.events: list[Event] = []
        self.published = threading.Event()
        self.watchdog = Watchdog(
            lambda: self.found,
            lambda executor: f"Look at {executor}.",
            self._publish,
            PATIENCE,
            lambda: self.now,
            interval=0.001,
        )

    def _publish(self, event: Event) -> None:
        self.events.append(event)
        self.published.set()

    def at(self, now: float, **changes: Any) -> list[Event]:
        """Return what is published by looking at some time."""
        self.now, self.found = now, replace(self.found, **changes)
        before = len(self.events)
        self.watchdog.check()
        return self.events[before:]


def test_each_wait_is_told_once_and_withdrawn_when_it_is_over() -> None:
    told = Told(facts(member(0)))
    assert told.at(59.0) == []
    (stalled,) = told.at(60.0)
    assert isinstance(stalled, Stalled)
    assert (stalled.look, stalled.cause) == ("Look at 2.", "silent 0.7")
    assert stalled.message.startswith("Nothing has come since ")
    assert told.watchdog.stalls == (stalled,)
    assert told.at(61.0) == []
    (ended,) = told.at(62.0, members=[member(0, heard=61.5)])
    assert isinstance(ended, StallEnded)
    assert ended.cause == stalled.cause
    assert told.watchdog.stalls == ()


def test_a_pause_withdraws_what_was_told() -> None:
    told = Told(facts(member(0)))
    assert of(Stalled, told.at(60.0))
    assert of(StallEnded, told.at(61.0, state="paused"))


def test_several_waits_are_told_beside_each_other() -> None:
    told = Told(facts(member(0), missing=(1,)))
    assert {event.cause for event in of(Stalled, told.at(60.0))} == {"silent 0.7", "worker"}


def test_closing_withdraws_what_is_open_and_ends_the_thread() -> None:
    told = Told(facts(member(0)))
    told.now = 60.0
    told.watchdog.start()
    assert told.published.wait(LIMIT)
    told.watchdog.close()
    assert [type(event) for event in told.events] == [Stalled, StallEnded]
    assert "tos-watchdog" not in {thread.name for thread in threading.enumerate()}


def test_looking_at_spark_that_fails_does_not_end_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks, published = threading.Semaphore(0), list[Event]()

    def found() -> Facts:
        looks.release()
        raise RuntimeError("no Spark")

    watchdog = Watchdog(found, str, published.append, PATIENCE, interval=0.001)
    watchdog.start()
    # The second one comes only if the first has not ended the thread.
    assert all(looks.acquire(timeout=LIMIT) for _ in range(2))
    watchdog.close()
    assert published == []
    assert "could not look" in caplog.text


# -- what the server knows ---------------------------------------------------------------


def test_the_facts_follow_a_worker_from_its_join_to_its_last_epoch() -> None:
    training, _ = counting_training(partitions=2, rows=4)
    phase = Phase(lambda: 5.0)
    phase.enter(JOB)

    def known() -> Facts:
        return training.facts(phase.now, 2)

    assert (known().phase, known().since, list(known().missing)) == (JOB, 5.0, [0, 1])
    one, _ = training.join(join(0), False)
    assert ([m.doing for m in known().members], list(known().missing)) == ([Doing.LOAD], [1])
    training.push(one, push(0), training.store.layout.allocate())
    assert (known().members[0].doing, known().members[0].epoch) == (Doing.TRAIN, 0)
    training.command(Command.PAUSE, "")
    training.poll(one, Poll(0))
    assert (known().members[0].doing, known().state) == (Doing.WAIT, "paused")
    training.command(Command.UNPAUSE, "")
    training.finish(one, finish(0, 1, 1))
    assert (known().members, list(known().missing)) == ([], [1])


def test_a_worker_is_heard_with_everything_that_it_asks() -> None:
    training, _ = counting_training()
    one, _ = training.join(join(0), False)
    for ask in (
        lambda: training.push(one, push(0), training.store.layout.allocate()),
        lambda: training.poll(one, Poll(0)),
        lambda: training.finish(one, finish(0, 1, 1)),
    ):
        one.heard = 0.0
        ask()
        assert one.heard > 0
