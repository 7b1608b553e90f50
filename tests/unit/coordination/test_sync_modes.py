"""Who waits for whom, call by call, without a connection."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.numpy_program import Counting
from tests.support.threads import Aside
from tests.unit.worker.support import center, counting_training, finish, join, of, push
from tos_notebook.combiners import EASGD, Downpour
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.events import CommandApplied, Event, MilestoneCommitted
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import as_sync
from tos_notebook.wire.messages import Directive, Failed, Poll, Proceed, Reply

LAYOUT = Counting().spec.layout
GO, WAIT = Directive.GO, Directive.WAIT


pytestmark = pytest.mark.usefixtures("shared_memory")


class Crew:
    """A run and its workers, each of which pushes 1 at every milestone."""

    def __init__(
        self, sync: str, partitions: int, long_poll: float = 0.0, **options: object
    ) -> None:
        made = counting_training(
            partitions,
            epochs=10**6,
            sync=as_sync(sync),
            timeouts=Timeouts(long_poll=long_poll),
            **options,  # type: ignore[arg-type]
        )
        self.training, self.events = made
        self.members: dict[int, Member] = {}
        self.counts = dict.fromkeys(range(partitions), 0)
        self.tasks = 0

    def enter(self, *partitions: int) -> None:
        for partition in partitions:
            self.tasks += 1
            message = join(partition, self.tasks)
            self.members[partition], joined = self.training.join(message, False)
            assert joined.sequence == self.counts[partition]

    def push(self, partition: int, version: int = 0, **changes: object) -> Reply:
        fields = {"base_version": 0, "settings_version": version} | changes
        number = self.counts[partition]
        self.counts[partition] += 1
        return self.training.push(
            self.members[partition], push(number, **fields), LAYOUT.pack({"total": 1.0, "rows": 1})
        )

    def poll(self, partition: int) -> Proceed:
        return self.training.poll(self.members[partition], Poll(0))

    def waits(self, partition: int) -> bool:
        return self.poll(partition).directive is WAIT

    def switch(self, sync: str) -> None:
        self.training.change_settings(Command.SET, f"sync={sync}", sync=as_sync(sync))


def test_asp_waits_for_nobody() -> None:
    crew = Crew("asp", 2)
    crew.enter(0, 1)
    assert {crew.push(0).directive for _ in range(100)} == {GO}


def test_bsp_lets_nobody_begin_a_round_before_all_have_ended_the_last() -> None:
    crew = Crew("bsp", 3)
    crew.enter(0, 1, 2)
    for _ in range(3):
        assert [crew.push(p).directive for p in (2, 0)] == [WAIT, WAIT]
        assert crew.waits(0)
        assert crew.waits(2)
        assert crew.push(1).directive is GO
        assert not crew.waits(0)
        assert not crew.waits(2)


def test_ssp_lets_a_worker_be_just_so_many_milestones_ahead() -> None:
    crew = Crew("ssp:3", 2)
    crew.enter(0, 1)
    assert [crew.push(0).directive for _ in range(4)] == [GO, GO, GO, WAIT]
    assert crew.push(1).directive is GO
    assert not crew.waits(0)
    assert crew.push(0).directive is WAIT


def test_who_waited_goes_on_with_everything_that_the_others_pushed_meanwhile() -> None:
    crew = Crew("bsp", 2)
    crew.enter(0, 1)
    crew.push(0)
    crew.push(1)
    adopted = LAYOUT.allocate()
    proceed = crew.training.poll(crew.members[0], Poll(0), adopted)
    assert proceed.version == 2
    assert LAYOUT.tensors(adopted)["total"] == 2


class Own(Downpour):
    """A user's, with which other pushes may come between merge and answer."""


@pytest.mark.parametrize("sync", ["bsp", "ssp:1"])
def test_nobody_goes_on_without_a_push_that_came_between_its_merge_and_its_milestone(
    sync: str,
) -> None:
    crew = Crew(sync, 2, combiner=Own())
    crew.enter(0, 1)
    update, overtakes = LAYOUT.pack({"total": 1.0, "rows": 1}), [1]
    publish = crew.training.state.publish

    def overtake(event: Event) -> None:
        publish(event)
        if isinstance(event, MilestoneCommitted) and overtakes:
            crew.push(overtakes.pop())

    crew.training.state.publish = overtake
    reply = crew.training.push(crew.members[0], push(0, base_version=0, settings_version=0), update)
    assert (reply.directive, reply.version) == (GO, 2)
    assert LAYOUT.tensors(update)["total"] == 2


def test_who_keeps_its_own_parameters_is_given_none() -> None:
    crew = Crew("bsp", 2, combiner=EASGD())
    crew.enter(0, 1)
    crew.push(0)
    crew.push(1)
    adopted = LAYOUT.allocate()
    assert crew.training.poll(crew.members[0], Poll(0), adopted).version is None
    assert LAYOUT.tensors(adopted)["total"] == 0


@pytest.mark.parametrize("sync", ["bsp", "ssp:1"])
@pytest.mark.parametrize("how", ["lost", "failed", "finished", "taken over"])
def test_a_worker_that_has_gone_holds_nobody_up(sync: str, how: str) -> None:
    crew = Crew(sync, 2)
    training = crew.training
    crew.enter(0, 1)
    while crew.push(0).directive is not WAIT:
        pass
    gone = crew.members[1]
    if how == "lost":
        training.lost(gone, "closed")
    elif how == "failed":
        training.failed(gone, Failed("ValueError: x", [], False, 0, []))
    elif how == "finished":
        training.end_span_early(Command.REPARTITION, "")
        training.finish(gone, finish(0, 0, 0))
    else:
        crew.enter(1)
        training.lost(crew.members[1], "closed")
    assert not crew.waits(0)


def test_a_partition_that_waits_for_a_slot_holds_nobody_up_then_or_later() -> None:
    """It counts from where the slowest of the others is when it comes."""
    crew = Crew("ssp:1", 3)
    crew.enter(0, 1)
    for _ in range(50):
        assert crew.push(0).directive is GO
        assert crew.push(1).directive is GO
    assert crew.push(0).directive is GO
    crew.enter(2)
    assert crew.push(0).directive is WAIT
    assert crew.push(1).directive is GO
    assert crew.push(2).directive is GO
    assert not crew.waits(0)


def test_a_worker_that_comes_back_goes_on_beside_the_slowest() -> None:
    crew = Crew("bsp", 2)
    crew.enter(0, 1)
    for _ in range(5):
        crew.push(0)
        crew.push(1)
    crew.training.lost(crew.members[1], "closed")
    for _ in range(7):
        assert crew.push(0).directive is GO
    crew.enter(1)
    assert crew.push(1).directive is WAIT
    assert crew.push(0).directive is GO


def test_an_update_that_is_left_out_is_a_milestone_all_the_same() -> None:
    crew = Crew("bsp", 2, non_finite="skip")
    crew.enter(0, 1)
    crew.push(0)
    number = crew.counts[1]
    crew.counts[1] += 1
    bad = LAYOUT.pack({"total": float("nan"), "rows": 1})
    reply = crew.training.push(crew.members[1], push(number, finite=False), bad)
    assert reply.status == "skipped"
    assert not crew.waits(0)


def test_a_push_that_came_twice_counts_once() -> None:
    crew = Crew("ssp:1", 2)
    crew.enter(0, 1)
    assert crew.push(0).directive is GO
    crew.counts[0] -= 1
    again = crew.push(0)
    assert (again.status, again.directive) == ("duplicate", GO)


def test_another_mode_lets_those_go_who_wait_and_is_reported_when_all_know_it() -> None:
    crew = Crew("bsp", 2)
    crew.enter(0, 1)
    assert crew.push(0).directive is WAIT
    crew.switch("asp")
    assert not crew.waits(0)
    assert [crew.push(0, 1).directive for _ in range(9)] == [GO] * 9
    assert not of(CommandApplied, crew.events)
    crew.push(1, 1)
    assert [event.command for event in of(CommandApplied, crew.events)] == ["set"]


def test_milestones_are_counted_anew_from_a_change_of_mode_on() -> None:
    """Else the fastest would wait until the slowest has made up for all of the past."""
    crew = Crew("asp", 2)
    crew.enter(0, 1)
    for _ in range(1000):
        crew.push(0)
    crew.switch("ssp:2")
    assert [crew.push(0).directive for _ in range(3)] == [GO, GO, WAIT]


def test_a_stop_reaches_those_who_wait_for_others() -> None:
    crew = Crew("bsp", 2)
    crew.enter(0, 1)
    crew.push(0)
    crew.training.command(Command.STOP, "")
    assert crew.poll(0).directive is Directive.STOP


def test_a_pause_and_a_barrier_do_not_wait_for_each_other() -> None:
    crew = Crew("bsp", 2)
    crew.enter(0, 1)
    crew.push(0)
    assert crew.waits(0)
    crew.training.command(Command.PAUSE, "")
    assert crew.push(1).directive is WAIT
    assert crew.waits(1)
    assert [event.command for event in of(CommandApplied, crew.events)] == ["pause"]
    crew.training.command(Command.UNPAUSE, "")
    assert not crew.waits(0)
    assert not crew.waits(1)


@pytest.mark.parametrize("how", ["push", "lost", "switch"])
def test_a_long_poll_ends_with_what_it_waits_for(how: str) -> None:
    crew = Crew("bsp", 2, long_poll=60.0)
    crew.enter(0, 1)
    crew.push(0)
    polling = Aside(lambda: crew.poll(0))
    actions: dict[str, Callable[[], object]] = {
        "push": lambda: crew.push(1),
        "lost": lambda: crew.training.lost(crew.members[1], "closed"),
        "switch": lambda: crew.switch("asp"),
    }
    actions[how]()
    assert polling.result().directive is GO


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_happens_the_spread_is_bounded_and_somebody_may_go_on(data: st.DataObject) -> None:
    slack = data.draw(st.integers(0, 3))
    crew = Crew(f"ssp:{slack}", 4, combiner=Downpour())
    crew.enter(*range(data.draw(st.integers(1, 4))))
    active = set(crew.members)
    for _ in range(data.draw(st.integers(1, 60))):
        ready = [p for p in sorted(active) if not crew.waits(p)]
        assert bool(ready) == bool(active)
        absent = sorted(set(range(4)) - active)
        action = data.draw(st.sampled_from(["push"] * 6 + ["leave", "enter"]))
        if action == "push" and ready:
            crew.push(data.draw(st.sampled_from(ready)))
        elif action == "leave" and active:
            gone = data.draw(st.sampled_from(sorted(active)))
            active.remove(gone)
            crew.training.lost(crew.members[gone], "closed")
        elif action == "enter" and absent:
            comes = data.draw(st.sampled_from(absent))
            crew.enter(comes)
            active.add(comes)
        clocks = [crew.members[p].clock for p in active]
        assert not clocks or max(clocks) - min(clocks) <= slack + 1
    assert center(crew.training)["rows"] == sum(crew.counts.values())
