"""The server's state of a run, call by call, without a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import center, counting_training, finish, join, of, push, until
from tos_notebook.combiners import (
    DCASGD,
    EASGD,
    Clip,
    Combiner,
    Downpour,
    Median,
    PushInfo,
    SlowMo,
    TensorCombiner,
)
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.ledger import Ledger
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.errors import (
    CheckpointError,
    CombinerError,
    ConfigError,
    DataError,
    InvalidTransition,
    NonFiniteUpdate,
    RemoteProtocolError,
    SessionClosed,
    TosError,
    WaitTimeout,
    WorkerError,
)
from tos_notebook.events import (
    CommandAccepted,
    CommandApplied,
    EpochFinished,
    MilestoneCommitted,
    PartitionFinished,
    StateChanged,
    UpdateSkipped,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)
from tos_notebook.steering.machine import Command, RunEvent
from tos_notebook.training.results.held_model import HeldModel
from tos_notebook.wire.messages import Directive, Failed, Poll, Suspect
from tos_notebook.wire.settings import WorkerSettings

LAYOUT = Counting().spec.layout


pytestmark = pytest.mark.usefixtures("shared_memory")


def enter(training: Coordinator, partition: int = 0, task: int = 0) -> Member:
    member, _ = training.join(join(partition, task), False)
    return member


def begin(training: Coordinator, partition: int = 0, task: int = 0) -> Member:
    """Let a worker join and go on, its rows and its program loaded."""
    member = enter(training, partition, task)
    assert training.poll(member, Poll(0)).directive is Directive.GO
    return member


def update(total: float, rows: int = 1) -> Any:
    return LAYOUT.pack({"total": np.float64(total), "rows": np.int64(rows)})


def value(buffer: Any) -> float:
    return float(LAYOUT.tensors(buffer)["total"])


def applied(events: list[Any], command: str) -> int:
    return sum(event.command == command for event in of(CommandApplied, events))


class Slow(Downpour):
    """Downpour that waits in its first merge until it is let go."""

    striped = False

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        self.entered.set()
        assert self.released.wait(LIMIT)
        super().merge(center, update, push)


def test_the_state_has_no_more_attributes_than_python_keeps_beside_each_other() -> None:
    training, _ = counting_training()
    # From one more on they are in a dictionary, and every push takes longer.
    assert len(vars(training.state)) <= 30


# -- exactly once -----------------------------------------------------------------------


def test_the_same_push_again_changes_nothing_and_brings_the_center() -> None:
    training, events = counting_training()
    member = enter(training)
    first = training.push(member, push(0), update(5))
    again = update(5)
    reply = training.push(member, push(0), again)
    assert (first.status, reply.status) == ("committed", "duplicate")
    assert (reply.version, value(again)) == (1, 5)
    assert center(training) == {"total": 5, "rows": 1}
    assert len(of(MilestoneCommitted, events)) == 1


def test_a_superseded_attempt_can_do_nothing_any_more() -> None:
    training, events = counting_training(epochs=2)
    old = enter(training, task=0)
    training.push(old, push(0), update(5))
    new = enter(training, task=100)
    before = len(events)

    assert training.push(old, push(1), update(7)).status == "superseded"
    # Were it to return, Spark would take the partition for done and kill the new attempt.
    with pytest.raises(SessionClosed, match="Partition 0 belongs to a later attempt"):
        training.finish(old, finish(0, 1, 1))
    with pytest.raises(SessionClosed, match="later attempt"):
        training.poll(old, Poll(0))
    training.failed(old, Failed("ValueError: late", [], False, 0, []))
    training.lost(old, "closed")
    with pytest.raises(SessionClosed):
        training.rows(old)
    assert events[before:] == []
    assert not training.failures
    assert center(training)["total"] == 5
    assert training.push(new, push(1), update(1)).status == "committed"
    assert [m.executor for m in of(WorkerLost, events)] == ["executor-0"]


def test_an_attempt_that_is_superseded_while_its_push_is_merged_must_end() -> None:
    """Its push counts: the new attempt was told so. But it may not pass for done."""
    combiner = Slow()
    training, _ = counting_training(combiner=combiner)
    old = enter(training, task=0)
    pushed = Aside(lambda: training.push(old, push(0), update(5)))
    assert combiner.entered.wait(LIMIT)
    new = Aside(lambda: training.join(join(task=100), False)[1])
    until(lambda: not training.state.membership.is_current(old))
    combiner.released.set()
    assert pushed.result().status == "superseded"
    assert (new.result().steps, new.result().sequence) == (1, 1)
    assert center(training)["total"] == 5


def test_an_older_task_may_not_take_a_partition_back() -> None:
    training, events = counting_training()
    member = enter(training, task=100)
    with pytest.raises(SessionClosed, match="later attempt"):
        enter(training, task=99)
    assert training.push(member, push(0), update(1)).status == "committed"
    assert len(of(WorkerJoined, events)) == 1


def test_finishes_are_counted_once_and_an_epoch_has_all_its_samples() -> None:
    training, events = counting_training(partitions=2, epochs=2)
    members = [enter(training, partition, task=partition) for partition in range(2)]
    for member in members:
        training.push(member, push(0, samples=3 + member.partition), update(1))
        for _ in range(3):
            training.finish(member, finish(0, 3 + member.partition, 1))
    assert [(e.partition, e.samples) for e in of(PartitionFinished, events)] == [(0, 3), (1, 4)]
    assert [(e.epoch, e.samples) for e in of(EpochFinished, events)] == [(0, 7)]


def test_an_epoch_s_samples_include_those_of_attempts_that_died() -> None:
    training, events = counting_training(partitions=1, epochs=1)
    first = enter(training)
    training.push(first, push(0, samples=6, steps=2), update(1))
    training.lost(first, "gone")
    second = enter(training, task=100)
    training.push(second, push(1, samples=2), update(1))
    training.finish(second, finish(0, 8, 3))
    assert [e.samples for e in of(EpochFinished, events)] == [8]


@pytest.mark.parametrize(("samples", "steps"), [(2, 1), (2, 3), (0, 0), (-1, 2)])
def test_a_partition_of_other_batches_than_were_committed_is_not_finished(
    samples: int, steps: int
) -> None:
    """A batch that was lost must not go unseen."""
    training, events = counting_training()
    member = enter(training)
    training.push(member, push(0, samples=2, steps=2), update(1))
    with pytest.raises(RemoteProtocolError, match="expected 2 batches, as committed"):
        training.finish(member, finish(0, samples, steps))
    assert not of(PartitionFinished, events)
    assert training.finish(member, finish(0, 2, 2)).directive is Directive.LEAVE


def test_an_epoch_of_other_rows_than_the_one_before_ends_the_run() -> None:
    training, events = counting_training(epochs=2)
    member = enter(training)
    training.push(member, push(0, samples=2, steps=2), update(1))
    training.finish(member, finish(0, 2, 2))
    training.push(member, push(0, epoch=1, samples=2, steps=2), update(1))
    assert training.finish(member, finish(1, 3, 2)).directive is Directive.LEAVE
    assert isinstance(training.error, DataError)
    text = "Partition 0, epoch 2: expected 2 rows, got 3 rows. A partition must hold the same rows"
    assert str(training.error).startswith(text)
    assert [e.epoch for e in of(PartitionFinished, events)] == [0]
    assert not training.machine.active


@pytest.mark.parametrize(
    "changes",
    [
        {"settings_version": 1},
        {"settings_version": -1},
        {"base_version": 1},
        {"base_version": -1},
        {"steps": 0},
        {"steps": -1},
        {"samples": 0},
        {"samples": -5},
        {"steps": 3, "samples": 2},
        {"sequence": 1},
        {"sequence": -1},
        {"epoch": 1},
        {"epoch": -1},
    ],
    ids=str,
)
def test_a_push_that_cannot_be_right_is_refused_and_the_right_one_still_counts(
    changes: dict[str, int],
) -> None:
    training, events = counting_training()
    member = enter(training)
    with pytest.raises(RemoteProtocolError, match=r"expected|came again"):
        training.push(member, push(**changes), update(7))
    assert center(training) == {"total": 0, "rows": 0}
    assert training.push(member, push(0), update(5)).status == "committed"
    assert center(training)["total"] == 5
    assert len(of(MilestoneCommitted, events)) == 1


class Opaque(TensorCombiner):
    """Adds up changes, but first returns what numpy cannot look into, as a symbolic tensor."""

    pushes = "delta"

    def __init__(self) -> None:
        self.symbols = [Symbol()]

    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: int = -1, name: str | None = None
    ) -> Any:
        return self.symbols.pop() if self.symbols else origin_weight + new_weight


class Symbol:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Cannot convert a symbolic tensor")


def test_a_merge_that_fails_for_an_unforeseen_reason_can_be_repeated() -> None:
    """The push is taken back: its batches were not merged."""
    training, _ = counting_training(combiner=Opaque())
    member = enter(training)
    with pytest.raises(NotImplementedError):
        training.push(member, push(0), update(5))
    assert center(training) == {"total": 0, "rows": 0}
    assert training.push(member, push(0), update(5)).status == "committed"
    assert center(training)["total"] == 5
    assert training.machine.active


class Fails(Slow):
    """Waits in its first merge, then raises what it is told to."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def propose(self, name: str, center: Any, update: Any, push: PushInfo) -> Any:
        self.entered.set()
        assert self.released.wait(LIMIT)
        if self.error is UNCHECKED:
            return Symbol(), update
        raise self.error


UNCHECKED = Exception("raised where the result is looked at, not by the combiner")


@pytest.mark.parametrize(
    "error", [ValueError("mine"), UNCHECKED, SystemExit(1), NonFiniteUpdate("too large")], ids=repr
)
@pytest.mark.parametrize("task", [0, 100], ids=["same task", "later attempt"])
def test_a_push_that_counts_but_cannot_be_merged_any_more_ends_the_run(
    error: BaseException, task: int
) -> None:
    """A later attempt was told that it counts, and goes on behind it."""
    combiner = Fails(error)
    training, _ = counting_training(combiner=combiner, epochs=2)
    old = enter(training, task=0)
    pushed = Aside(lambda: training.push(old, push(0), update(5)))
    assert combiner.entered.wait(LIMIT)
    assert training.join(join(task=task), False)[1].sequence == 1
    combiner.released.set()
    assert pushed.result().status == "superseded"
    assert training.machine.state == "failed"
    assert isinstance(training.error, CombinerError)
    assert "Push 0 of partition 0, epoch 1, was not merged" in str(training.error)
    assert "The ledger counts it already." in str(training.error)
    assert training.store.torn == "The parameters lack a push that counts as merged."
    with pytest.raises(CheckpointError, match="lack a push that counts"):
        training.snapshot()


@pytest.mark.parametrize("fails", [False, True])
def test_a_push_that_comes_again_while_it_is_being_merged_counts_once_or_ends_the_run(
    fails: bool,
) -> None:
    """A task came back by another connection, and was told that its push counts."""
    combiner = Fails(ValueError("mine")) if fails else Slow()
    training, events = counting_training(combiner=combiner)
    first = enter(training)
    pushed = Aside(lambda: training.push(first, push(0), update(5)))
    assert combiner.entered.wait(LIMIT)
    reply = training.push(enter(training), push(0), update(5))
    assert (reply.status, reply.version) == ("duplicate", 0)
    combiner.released.set()
    pushed.result()
    assert training.state.ledger.committed(0, 0).steps == 1
    assert (center(training)["total"], len(of(MilestoneCommitted, events))) == (
        (0, 0) if fails else (5, 1)
    )
    assert training.machine.state == ("failed" if fails else "running")


def test_a_later_attempt_that_has_pushed_on_relies_on_the_push_before_it() -> None:
    combiner = Fails(ValueError("mine"))
    training, _ = counting_training(combiner=combiner)
    old = enter(training, task=0)
    pushed = Aside(lambda: training.push(old, push(0), update(5)))
    assert combiner.entered.wait(LIMIT)
    new = enter(training, task=0)
    training.state.ledger.admit(0, 0, 0, 1, 1)
    training.lost(new, "gone")
    combiner.released.set()
    pushed.result()
    assert "The ledger counts it already." in str(training.error)


def test_a_combiner_that_ends_the_process_ends_the_run() -> None:
    combiner = Fails(SystemExit(1))
    combiner.released.set()
    training, _ = counting_training(combiner=combiner)
    reply = training.push(enter(training), push(0), update(5))
    assert reply.directive is Directive.STOP
    assert "SystemExit: 1. It does not count either." in str(training.error)
    assert training.state.ledger.committed(0, 0).steps == 0
    assert training.snapshot() is not None


def test_a_copy_counts_what_is_trained_until_all_workers_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some change the parameters by themselves: what the ledger lacks would be trained again."""
    training, _ = counting_training()
    member = enter(training)

    @contextmanager
    def quiesce() -> Iterator[None]:
        training.push(member, push(0), update(5))
        yield

    monkeypatch.setattr(training.trainer, "quiesce", quiesce)
    copy = training.snapshot()
    assert copy is not None
    assert copy.progress.copied.version == 1
    assert Ledger.from_json(copy.progress.ledger).committed(0, 0).steps == 1


def _raise(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


# -- who may come in --------------------------------------------------------------------


def test_the_first_worker_sets_the_run_going() -> None:
    training, events = counting_training(partitions=2)
    enter(training, 0)
    enter(training, 1, task=1)
    assert training.machine.state == "running"
    assert [event.state for event in of(StateChanged, events)] == ["running"]


def test_a_worker_of_another_run_or_partition_is_refused() -> None:
    training, events = counting_training(partitions=2)
    with pytest.raises(SessionClosed, match="run-0 is over"):
        training.join(join(run="run-0"), False)
    for partition in (2, -1):
        with pytest.raises(RemoteProtocolError, match="partition from 0 to 1"):
            training.join(join(partition), False)
    assert not events


@pytest.mark.parametrize("end", [RunEvent.ENDED, RunEvent.FAILED])
def test_after_the_end_nothing_is_merged_told_or_let_in(end: RunEvent) -> None:
    training, events = counting_training(epochs=2)
    member = enter(training)
    training.push(member, push(0), update(5))
    training.report(end)
    before = len(events)

    late = update(7)
    reply = training.push(member, push(1), late)
    assert (reply.status, reply.directive, value(late)) == ("skipped", Directive.STOP, 5)
    assert training.finish(member, finish(0, 1, 1)).directive is Directive.STOP
    assert training.poll(member, Poll(0)).directive is Directive.STOP
    training.failed(member, Failed("late", [], False, 0, []))
    training.lost(member, "closed")
    with pytest.raises(SessionClosed):
        enter(training, task=1)
    assert center(training)["total"] == 5
    assert events[before:] == []


def test_members_of_an_earlier_job_are_strangers_in_the_next() -> None:
    training, events = counting_training(partitions=2, epochs=2)
    old = enter(training, 1)
    span = training.begin_span(training.state.span.source, 1, 1)  # type: ignore[union-attr]
    assert span.first_epoch == 1
    assert training.push(old, push(0), update(7)).status == "superseded"
    training.lost(old, "closed")
    assert not of(WorkerLost, events)
    assert center(training)["total"] == 0


def test_the_driver_s_own_name_of_a_host_is_preferred() -> None:
    training, events = counting_training(partitions=2, locate=lambda task: ("7", "node-3"))
    enter(training)
    assert [(e.executor, e.host) for e in of(WorkerJoined, events)] == [("7", "node-3")]


# -- members that leave -----------------------------------------------------------------


def test_a_worker_that_was_told_to_stop_or_leave_is_not_lost() -> None:
    training, events = counting_training(partitions=2)
    stopped, done = enter(training, 0), enter(training, 1, task=1)
    training.push(done, push(0), update(1))
    assert training.finish(done, finish(0, 1, 1)).directive is Directive.LEAVE
    training.command(Command.STOP, "")
    assert training.push(stopped, push(0), update(1)).directive is Directive.STOP
    training.lost(done, "closed")
    training.lost(stopped, "closed")
    assert not of(WorkerLost, events)


def test_a_worker_that_vanishes_is_lost_once() -> None:
    training, events = counting_training()
    member = enter(training)
    training.lost(member, "connection reset")
    training.lost(member, "again")
    assert [event.reason for event in of(WorkerLost, events)] == ["connection reset"]


def test_combiners_are_told_how_many_workers_are_active() -> None:
    counts: list[int] = []

    class Spy(Downpour):
        def divisor(self, push: PushInfo) -> float:
            counts.append(push.workers)
            return 1

    training, _ = counting_training(partitions=3, combiner=Spy())
    members = [enter(training, partition, task=partition) for partition in range(3)]
    training.push(members[0], push(0), update(1))
    training.lost(members[1], "gone")
    training.push(members[0], push(1), update(1))
    training.push(members[2], push(0), update(1))
    training.finish(members[2], finish(0, 1, 1))
    training.push(members[0], push(2), update(1))
    per_push = counts[:: len(LAYOUT.segments)]
    assert per_push == [3, 2, 2, 1]


# -- pause and settings -----------------------------------------------------------------


def wait_in(training: Coordinator, member: Member) -> None:
    assert training.poll(member, Poll(0)).directive is Directive.WAIT


@pytest.mark.parametrize("how", ["lost", "failed", "finished"])
def test_a_pause_does_not_wait_for_a_worker_that_leaves(how: str) -> None:
    training, events = counting_training(partitions=2, timeouts=Timeouts(long_poll=0.001))
    waits, leaves = begin(training, 0), begin(training, 1, task=1)
    training.command(Command.PAUSE, "")
    wait_in(training, waits)
    assert applied(events, "pause") == 0
    if how == "lost":
        training.lost(leaves, "gone")
    elif how == "failed":
        training.failed(leaves, Failed("ValueError: x", [], False, 0, []))
    else:
        training.finish(leaves, finish(0, 0, 0))
    assert applied(events, "pause") == 1
    wait_in(training, waits)
    assert applied(events, "pause") == 1


def test_a_pause_does_not_wait_for_a_worker_that_is_loading() -> None:
    """It trains nothing before it has asked whether to."""
    training, events = counting_training(partitions=2, timeouts=Timeouts(long_poll=0.001))
    waits, loads = begin(training, 0), enter(training, 1, task=1)
    training.command(Command.PAUSE, "")
    wait_in(training, waits)
    assert applied(events, "pause") == 1
    wait_in(training, loads)


def test_a_worker_begins_with_the_parameters_of_when_it_is_ready() -> None:
    """Not with those of when it joined: to load its rows and the program may take seconds."""
    training, _ = counting_training(partitions=2)
    loads, trains = enter(training, 0), begin(training, 1, task=1)
    training.push(trains, push(0), update(4))
    begun = LAYOUT.allocate()
    assert training.poll(loads, Poll(0), begun, owed=True).version == 1
    assert LAYOUT.tensors(begun)["total"] == 4


def test_a_pause_that_was_resumed_before_it_took_effect_is_not_reported() -> None:
    training, events = counting_training(partitions=2, timeouts=Timeouts(long_poll=0.001))
    members = [begin(training, partition, task=partition) for partition in range(2)]
    training.command(Command.PAUSE, "")
    wait_in(training, members[0])
    training.command(Command.UNPAUSE, "")
    assert training.poll(members[1], Poll(0)).directive is Directive.GO
    assert applied(events, "pause") == 0
    assert [event.command for event in of(CommandAccepted, events)] == ["pause", "unpause"]


def test_a_setting_changed_while_paused_does_not_end_the_pause() -> None:
    training, events = counting_training(timeouts=Timeouts(long_poll=0.001))
    member = enter(training)
    training.command(Command.PAUSE, "")
    training.change_settings(Command.SET, "sync_interval=3", sync_interval=3)
    answer = training.poll(member, Poll(0))
    assert answer.directive is Directive.WAIT
    assert answer.settings is not None
    assert (answer.settings_version, answer.settings.sync_interval) == (1, 3)
    assert applied(events, "pause") == 1


def test_a_combiner_that_needs_single_steps_is_refused_before_anything_is_changed() -> None:
    """Else the first push would end the run."""
    training, events = counting_training()
    training.change_settings(Command.SET, "", sync_interval=10)
    before = len(of(CommandAccepted, events))
    with pytest.raises(ConfigError, match="dcasgd: expected sync_interval 1, got 10"):
        training.change_settings(Command.SWAP_COMBINER, "", combiner=DCASGD())
    assert training.store.combiner is training.settings.strategy.combiner
    assert len(of(CommandAccepted, events)) == before
    training.change_settings(Command.SET, "", sync_interval=1)
    training.change_settings(Command.SWAP_COMBINER, "", combiner=Clip(1.0, then=DCASGD()))
    with pytest.raises(ConfigError, match="clip: expected sync_interval 1, got 2"):
        training.change_settings(Command.SET, "", sync_interval=2)
    assert training.settings.sync_interval == 1


def test_a_setting_takes_effect_with_the_last_active_worker() -> None:
    training, events = counting_training(partitions=3)
    members = [enter(training, partition, task=partition) for partition in range(3)]
    training.change_settings(Command.SET, "", sync_interval=3)
    assert training.poll(members[1], Poll(0)).settings_version == 1
    training.change_settings(Command.SET, "", learning_rate=0.5)
    reply = training.push(members[0], push(0), update(1))
    assert reply.settings == WorkerSettings(
        3, 0.5, {"pushes": "delta", "codec": "fp32", "by_row": "yes"}
    )
    reply = training.push(members[0], push(1, settings_version=2), update(1))
    assert (reply.settings_version, reply.settings) == (2, None)
    training.push(members[1], push(0, settings_version=1), update(1))
    assert applied(events, "set") == 0
    training.lost(members[2], "gone")
    assert applied(events, "set") == 1
    training.push(members[1], push(1, settings_version=2), update(1))
    assert applied(events, "set") == 2


def test_what_no_worker_went_by_is_not_among_the_settings_of_a_run_that_is_over() -> None:
    training, _ = counting_training(partitions=1)
    member = enter(training, 0, task=0)
    before = training.settings.sync_interval
    training.change_settings(Command.SET, "", learning_rate=0.5)
    training.push(member, push(0), update(1))
    training.push(member, push(1, settings_version=1), update(1))
    for change in ({"sync_interval": 3}, {"learning_rate": 0.25}, {"sync_interval": 4}):
        training.change_settings(Command.SET, "", **change)
    assert training.gone_by == training.settings
    training.fail(TosError("over"))
    assert (training.gone_by.sync_interval, training.gone_by.learning_rate) == (before, 0.5)
    assert (training.settings.sync_interval, training.settings.learning_rate) == (4, 0.25)


def test_what_one_worker_went_by_is_among_the_settings_of_a_run_that_is_over() -> None:
    training, _ = counting_training(partitions=2)
    member, _ = (enter(training, partition, task=partition) for partition in range(2))
    for version, rate in enumerate((0.5, 0.25)):
        training.change_settings(Command.SET, "", learning_rate=rate)
        training.push(member, push(version, settings_version=version + 1), update(1))
    training.fail(TosError("over"))
    assert training.gone_by.learning_rate == 0.25


def test_changes_do_not_pile_up_while_a_worker_does_not_push() -> None:
    """A schedule may change a setting twice a second, for days."""
    training, events = counting_training(partitions=2)
    pushes, stands = (enter(training, partition, task=partition) for partition in range(2))
    for number in range(200):
        change = {"learning_rate": 1.0 + number} if number % 2 else {"sync_interval": 1 + number}
        training.change_settings(Command.SET, str(number), **change)
        version = number + 1 if number % 3 else max(0, pushes.settings_version)
        training.push(pushes, push(number, settings_version=version), update(1))
    # The newest, and for each worker that of its latest push and the one it was told.
    assert len(training.state.settings_log._versions) <= 5
    assert len(training.state.acknowledgements._pending) == 2
    assert applied(events, "set") == 198
    last = [event.detail for event in of(CommandApplied, events)][-1]
    assert last == "197: a later change has taken its place"
    # The one that stood still pushes under what it knows, and hears of the newest.
    reply = training.push(stands, push(0, settings_version=0), update(1))
    assert (reply.status, reply.settings_version) == ("committed", 200)
    assert reply.settings is not None
    assert (reply.settings.learning_rate, reply.settings.sync_interval) == (200.0, 199)
    for member, number in ((stands, 1), (pushes, 200)):
        training.push(member, push(number, settings_version=200), update(1))
    assert applied(events, "set") == 200


def test_a_version_of_the_settings_that_was_never_told_is_refused() -> None:
    training, _ = counting_training()
    member = enter(training)
    for rate in (1.0, 2.0, 3.0):
        training.change_settings(Command.SET, "", learning_rate=rate)
    for version in (1, 2, 4, -1):
        with pytest.raises(RemoteProtocolError, match="expected 3 or one that the worker was told"):
            training.push(member, push(0, settings_version=version), update(1))
    assert training.push(member, push(0, settings_version=0), update(1)).status == "committed"


def test_a_setting_that_nobody_is_there_to_use_is_not_reported_yet() -> None:
    training, events = counting_training(epochs=2)
    member = enter(training)
    training.change_settings(Command.SET, "", sync_interval=3)
    training.lost(member, "gone")
    assert applied(events, "set") == 0
    training.push(enter(training, task=100), push(0, settings_version=1), update(1))
    assert applied(events, "set") == 1


def test_an_illegal_change_changes_nothing() -> None:
    training, events = counting_training()
    training.report(RunEvent.ENDED)
    before = len(events)
    with pytest.raises(InvalidTransition):
        training.change_settings(Command.SWAP_COMBINER, "", combiner=EASGD())
    assert isinstance(training.settings.strategy.combiner, Downpour)
    assert isinstance(training.store.combiner, Downpour)
    assert len(events) == before


def test_a_change_computed_before_a_swap_is_merged_by_the_old_rule() -> None:
    training, _ = counting_training()
    member = enter(training)
    training.push(member, push(0), update(4))
    training.change_settings(Command.SWAP_COMBINER, "", combiner=EASGD(0.5))
    in_flight = update(2)
    reply = training.push(member, push(1, base_version=1), in_flight)
    assert (center(training)["total"], value(in_flight)) == (6, 6)
    assert reply.settings is not None
    assert reply.settings.strategy["pushes"] == "weights"
    weights = update(10, rows=2)
    training.push(member, push(2, base_version=2, settings_version=1), weights)
    assert (center(training)["total"], value(weights)) == (8, 8)


class Announced(EASGD):
    """Tells when a swap to it has begun."""

    def __init__(self) -> None:
        super().__init__(0.5)
        self.begun = threading.Event()

    def begin(self, like: Any) -> Combiner:
        self.begun.set()
        return super().begin(like)


def test_every_worker_is_known_to_the_store_before_it_may_push_by_the_new_rule() -> None:
    """A swap that waits for a slow merge must not let pushes overtake it."""
    slow, new = Slow(), Announced()
    training, events = counting_training(partitions=2, combiner=slow)
    members = [enter(training, partition, task=partition) for partition in range(2)]
    merging = Aside(lambda: training.push(members[0], push(0), update(1)))
    assert slow.entered.wait(LIMIT)
    swap = Aside(lambda: training.change_settings(Command.SWAP_COMBINER, "", combiner=new))
    assert new.begun.wait(LIMIT)
    assert [event.command for event in of(CommandAccepted, events)] == ["swap combiner"]
    # The swap waits in the store. Meanwhile no worker hears of the new rule, and the state can be
    # asked and changed.
    assert training.poll(members[1], Poll(0)).settings_version == 0
    assert training.settings.strategy.combiner is slow
    training.command(Command.PAUSE, "")
    training.command(Command.UNPAUSE, "")
    with pytest.raises(RemoteProtocolError, match="settings_version"):
        training.push(members[1], push(0, settings_version=1), update(3))
    assert training.store.combiner is slow
    assert swap.goes_on
    slow.released.set()
    assert merging.result().status == "committed"
    swap.result()
    assert training.store.combiner is new
    # The first push is merged by the old rule, the next one by the new.
    assert center(training)["total"] == 1
    assert training.poll(members[1], Poll(0)).settings_version == 1
    weights = update(3)
    reply = training.push(members[1], push(0, settings_version=1), weights)
    assert reply.status == "committed"
    assert (center(training)["total"], value(weights)) == (2, 2)


def test_a_worker_that_joins_during_a_long_merge_waits_for_nobody_and_holds_nobody_up() -> None:
    """It begins with the parameters of before the merge, and a stop gets through."""
    slow = Slow()
    training, _ = counting_training(partitions=2, combiner=slow)
    training.store.load(update(4))
    member = enter(training)
    merging = Aside(lambda: training.push(member, push(0), update(1)))
    assert slow.entered.wait(LIMIT)
    joined, begun = enter(training, 1, task=1), LAYOUT.allocate()
    proceed = training.poll(joined, Poll(0), begun, owed=True)
    assert (proceed.directive, proceed.version, value(begun)) == (Directive.GO, 0, 4)
    training.command(Command.STOP, "")
    assert training.poll(joined, Poll(0)).directive is Directive.STOP
    slow.released.set()
    assert merging.result().directive is Directive.STOP
    assert center(training)["total"] == 5


def test_a_combiner_may_steer_the_run_from_within_a_merge() -> None:
    steer: list[Callable[[], None]] = []

    class Steering(Downpour):
        striped = False

        def merge(self, center: Any, update: Any, push: PushInfo) -> None:
            while steer:
                steer.pop()()
            super().merge(center, update, push)

    training, _ = counting_training(combiner=Steering())
    steer.append(lambda: training.command(Command.PAUSE, ""))
    reply = Aside(lambda: training.push(enter(training), push(0), update(1))).result()
    assert reply.directive is Directive.WAIT


def test_a_leg_can_be_ended_early_before_any_worker_joined() -> None:
    training, _ = counting_training(epochs=5)
    training.end_span_early(Command.REPARTITION, "")
    member = enter(training)
    assert training.state.span is not None
    assert training.state.span.last_epoch == 0
    assert training.finish(member, finish(0, 0, 0)).directive is Directive.LEAVE


# -- updates that cannot be merged ------------------------------------------------------


def test_a_non_finite_update_ends_the_run_and_changes_nothing() -> None:
    cancelled: list[str] = []
    training, events = counting_training(on_failure=lambda: cancelled.append("job"))
    member = enter(training)
    training.push(member, push(0), update(5))
    bad = update(float("inf"))
    reply = training.push(member, push(1, base_version=1, finite=False), bad)
    assert isinstance(training.error, NonFiniteUpdate)
    assert "'total'" in str(training.error)
    assert (reply.directive, value(bad), training.store.version) == (Directive.STOP, 5, 1)
    assert center(training) == {"total": 5, "rows": 1}
    assert (training.machine.state, cancelled) == ("failed", ["job"])
    assert len(of(MilestoneCommitted, events)) == 1


def test_a_skipped_update_counts_as_consumed() -> None:
    training, events = counting_training(non_finite="skip")
    member = enter(training)
    training.push(member, push(0), update(5))
    bad = update(float("nan"))
    reply = training.push(member, push(1, finite=False), bad)
    assert (reply.status, reply.directive, reply.version) == ("skipped", Directive.GO, 1)
    assert value(bad) == 5
    assert training.push(member, push(1), update(9)).status == "duplicate"
    assert training.push(member, push(2, base_version=1), update(1)).status == "committed"
    assert training.finish(member, finish(0, 3, 3)).directive is Directive.LEAVE
    assert center(training)["total"] == 6
    (skipped,) = of(UpdateSkipped, events)
    assert skipped.sequence == 1
    assert "'total'" in skipped.reason


def test_batches_that_are_left_out_are_announced_in_one_note_with_the_first_row() -> None:
    training, _ = counting_training(non_finite="skip")
    member = enter(training)
    assert training.notes == ()
    for sequence, row in enumerate((3, 1)):
        training.suspect(member, Suspect("row", row, "nan", 1))
        bad = push(sequence, steps=2, samples=8, finite=False)
        assert training.push(member, bad, update(float("nan"))).status == "skipped"
    (note,) = training.notes
    assert note.startswith("The server left out 4 batches. The first: Row 3 of the arrays")
    assert "got nan" in note


def test_a_robust_rule_leaves_out_what_a_worker_takes_for_finite_and_tells_of_it() -> None:
    """With either policy: such a rule is for workers that send nonsense."""
    training, events = counting_training(3, combiner=Median())
    members = [enter(training, partition, task=partition) for partition in range(3)]
    statuses = [
        training.push(member, push(0), update(total)).status
        for member, total in zip(members, (2.0, float("nan"), 4.0), strict=True)
    ]
    assert statuses == ["committed", "skipped", "committed"]
    assert training.machine.active
    assert center(training)["total"] == 3
    (skipped,) = of(UpdateSkipped, events)
    assert (skipped.partition, "'total'" in skipped.reason) == (1, True)
    assert training.notes[0].startswith("The server left out 1 batch.")


def test_parameters_that_are_not_finite_in_the_end_fail_the_run() -> None:
    """A rule that does not compare takes a worker at its word; the result is looked at."""
    training, _ = counting_training()
    training.push(enter(training), push(0), update(float("inf")))
    assert training.error is None
    training.settle()
    assert isinstance(training.error, NonFiniteUpdate)
    assert training.machine.state == "failed"
    with pytest.raises(CheckpointError, match="hold NaN or infinity"):
        training.snapshot()


class Broken(TensorCombiner):
    """A user's rule that raises, or returns another shape or a value that is not finite."""

    pushes = "delta"

    def __init__(self, result: Any) -> None:
        self.result = result

    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: int = -1, name: str | None = None
    ) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("policy", ["raise", "skip"])
@pytest.mark.parametrize(
    ("result", "error"),
    [
        (KeyError("layer"), CombinerError),
        (np.zeros(3), CombinerError),
        ("text", CombinerError),
    ],
    ids=["raises", "shape", "type"],
)
def test_a_broken_combiner_ends_the_run_and_changes_nothing(
    policy: Any, result: Any, error: type[TosError]
) -> None:
    training, _ = counting_training(combiner=Broken(result), non_finite=policy)
    member = enter(training)
    back = update(5)
    reply = training.push(member, push(0), back)
    assert type(training.error) is error
    assert "Broken" in str(training.error)
    assert center(training) == {"total": 0, "rows": 0}
    assert (reply.directive, value(back), training.store.version) == (Directive.STOP, 0, 0)


def test_a_combiner_s_result_that_is_not_finite_falls_under_the_policy() -> None:
    training, events = counting_training(combiner=Broken(np.nan), non_finite="skip")
    assert training.push(enter(training), push(0), update(5)).status == "skipped"
    assert len(of(UpdateSkipped, events)) == 1
    assert training.machine.active


# -- failures ---------------------------------------------------------------------------


def _fail(training: Coordinator, partition: int, task: int, message: str) -> None:
    training.failed(enter(training, partition, task), Failed(message, ["frame"], False, 0, []))


def test_only_a_failure_that_repeats_itself_ends_the_run() -> None:
    training, events = counting_training(partitions=2)
    _fail(training, 0, 0, "ValueError: a")
    _fail(training, 1, 1, "ValueError: a")
    _fail(training, 0, 100, "ValueError: b")
    assert training.machine.active
    _fail(training, 0, 200, "ValueError: a")
    assert isinstance(training.error, WorkerError)
    assert training.error.frames == ("frame",)
    assert len(of(WorkerFailed, events)) == len(training.failures) == 4
    assert not of(WorkerLost, events)


def test_a_failing_operation_of_the_program_ends_the_run_at_once() -> None:
    training, _ = counting_training()
    training.failed(
        enter(training, 0, 0), Failed("InvalidArgumentError: a", ["frame"], True, 0, [])
    )
    assert isinstance(training.error, WorkerError)


def test_the_first_error_counts_and_the_job_is_cancelled_once() -> None:
    cancelled: list[str] = []
    training, _ = counting_training(on_failure=lambda: cancelled.append("job"))
    training.fail(TosError("first"))
    training.fail(TosError("second"))
    assert str(training.error) == "first"
    assert cancelled == ["job"]


def test_an_error_after_the_end_is_kept_but_the_outcome_stands() -> None:
    training, _ = counting_training()
    training.report(RunEvent.ENDED)
    training.fail(TosError("the weights could not be written"))
    assert training.machine.state == "finished"
    assert str(training.error) == "the weights could not be written"


def test_a_job_that_cannot_be_cancelled_does_not_hide_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    training, _ = counting_training(on_failure=_raise(RuntimeError("Spark is gone")))
    training.fail(TosError("the cause"))
    assert str(training.error) == "the cause"
    assert "could not be canceled" in caplog.text


def test_the_job_is_cancelled_without_the_lock() -> None:
    """Cancelling talks to Spark, which may take its time."""
    training, _ = counting_training(
        on_failure=lambda: Aside(lambda: training.poll(member, Poll(0))).result()
    )
    member = enter(training)
    training.fail(TosError("x"))
    assert training.machine.state == "failed"


# -- the end ----------------------------------------------------------------------------


def test_settling_waits_for_the_push_under_way_and_lets_no_other_in() -> None:
    slow = Slow()
    training, events = counting_training(partitions=2, combiner=slow)
    members = [enter(training, partition, task=partition) for partition in range(2)]
    merging = Aside(lambda: training.push(members[0], push(0), update(5)))
    assert slow.entered.wait(LIMIT)
    done = threading.Event()

    def settle() -> None:
        training.settle()
        done.set()

    settling = Aside(settle)
    # The settled state shows in what workers are told, before the wait is over.
    until(lambda: training.poll(members[1], Poll(0)).directive is Directive.STOP)
    assert not done.is_set()
    slow.released.set()
    settling.result()
    assert merging.result().status == "committed"
    assert center(training)["total"] == 5
    assert training.push(members[1], push(0), update(7)).status == "skipped"
    assert center(training)["total"] == 5
    assert len(of(MilestoneCommitted, events)) == 1


def test_settling_ends_even_if_a_combiner_does_not(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    training, _ = counting_training(combiner=slow, timeouts=Timeouts(settle=0.01))
    member = enter(training)
    merging = Aside(lambda: training.push(member, push(0), update(5)))
    assert slow.entered.wait(LIMIT)
    training.settle()
    assert "still being merged" in caplog.text
    slow.released.set()
    merging.result()


class Written(Counting):
    """A user's model, and what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def write(self, buffer: Any) -> None:
        self.values.append(value(buffer))

    def finish(self) -> bool:
        return False


class StopsBetween(Downpour):
    """Waits between the first stripe and the second."""

    def __init__(self) -> None:
        self.entered, self.released = threading.Event(), threading.Event()

    def merge(self, center: Any, update: Any, push: PushInfo) -> None:
        if center.dtype == np.int64:
            self.entered.set()
            assert self.released.wait(LIMIT)
        super().merge(center, update, push)


@pytest.mark.parametrize("kind", [Slow, StopsBetween])
def test_the_model_never_gets_half_a_push(kind: Any) -> None:
    """A merge that outlasts the end of the run is not in it, or the end says so."""
    combiner, program = kind(), Written()
    training, _ = counting_training(combiner=combiner)
    model = HeldModel(program, training.store, patience=0.01)  # type: ignore[arg-type]
    member = enter(training)
    merging = Aside(lambda: training.push(member, push(0), update(5)))
    assert combiner.entered.wait(LIMIT)
    if kind is StopsBetween:
        with pytest.raises(WaitTimeout, match="The model does not hold the trained weights"):
            model.keep(LIMIT)
    else:
        model.keep(LIMIT)
        assert program.values == [0]
    combiner.released.set()
    merging.result()
    model.keep(LIMIT)
    assert program.values[-1] == 5


@pytest.mark.parametrize("how", ["unpause", "stop", "failure", "end"])
def test_a_long_poll_ends_with_what_it_waits_for(how: str) -> None:
    paused = threading.Event()

    def publish(event: Any) -> None:
        if isinstance(event, CommandApplied):
            paused.set()

    training, _ = counting_training(publish=publish, timeouts=Timeouts(long_poll=3 * LIMIT))
    member = enter(training)
    training.command(Command.PAUSE, "")
    polling = Aside(lambda: training.poll(member, Poll(0)))
    assert paused.wait(LIMIT)
    {
        "unpause": lambda: training.command(Command.UNPAUSE, ""),
        "stop": lambda: training.command(Command.STOP, ""),
        "failure": lambda: training.fail(TosError("x")),
        "end": training.settle,
    }[how]()
    expected = Directive.GO if how == "unpause" else Directive.STOP
    assert polling.result().directive is expected


def test_versions_of_replies_are_bases_of_pushes_from_many_threads() -> None:
    """Whatever the interleaving: no push is lost, none is counted twice, versions are unique."""
    count, pushes = 4, 50
    training, events = counting_training(partitions=count)

    def work(partition: int) -> None:
        member = enter(training, partition, partition)
        base = training.poll(member, Poll(0), LAYOUT.allocate(), owed=True).version or 0
        for sequence in range(pushes):
            reply = training.push(member, push(sequence, base_version=base), update(1))
            assert reply.version > base
            base = reply.version

    for worker in [Aside(lambda p=p: work(p)) for p in range(count)]:
        worker.result()
    assert center(training) == {"total": count * pushes, "rows": count * pushes}
    milestones = of(MilestoneCommitted, events)
    assert sorted(m.version for m in milestones) == list(range(1, count * pushes + 1))
    assert all(m.staleness >= 0 for m in milestones)


def test_metrics_that_were_not_announced_are_refused() -> None:
    training, _ = counting_training()
    member = enter(training)
    with pytest.raises(RemoteProtocolError, match=r"Push\.metrics: expected 0 to 0, got 1"):
        training.push(member, push(0, metrics=(0.5,)), update(1))
    assert center(training)["total"] == 0


def test_a_milestone_says_where_and_how_much() -> None:
    training, events = counting_training()
    named = replace(join(task=302), metrics=["accuracy"])
    member, _ = training.join(named, False)
    message = push(0, samples=6, steps=2, loss=0.25, metrics=(0.5,))
    training.push(member, message, update(1), (20, 30))
    (milestone,) = of(MilestoneCommitted, events)
    assert (milestone.attempt, milestone.executor, milestone.host) == (3, "executor-302", "here")
    assert (milestone.steps, milestone.samples, milestone.loss) == (2, 6, 0.25)
    assert (milestone.bytes_up, milestone.bytes_down) == (20, 30)
    assert (milestone.metrics, milestone.version) == ({"accuracy": 0.5}, 1)


def test_a_milestone_says_how_many_were_in_training() -> None:
    training, events = counting_training(partitions=2)
    member = enter(training, partition=0)
    enter(training, partition=1, task=2)
    training.push(member, push(0), update(1))
    assert [milestone.workers for milestone in of(MilestoneCommitted, events)] == [2]


def test_a_job_s_gain_is_that_of_the_slowest_partition_that_was_tried_and_is_not_done() -> None:
    training, _ = counting_training(partitions=3, rows=9)
    members = [begin(training, partition, task=partition) for partition in range(2)]
    for sequence in range(2):
        training.push(members[0], push(sequence, base_version=sequence), update(1))
    mark = training.mark()
    for sequence in range(3):
        training.push(members[1], push(sequence, base_version=2 + sequence), update(1))
    # Partitions 0 and 2 have not come since: there may be no slot for them.
    assert training.since(mark, slots=2) == (0, 0)
    training.lost(members[1], "")
    member = begin(training, 1, task=101)
    assert training.since(mark, slots=2) == (3, 0)
    assert training.since(mark, slots=3) == (0, 0)
    training.finish(member, finish(0, 3, 3))
    assert training.since(mark, slots=2) == (0, 1)


def test_a_swap_to_the_combiner_that_is_in_use_begins_with_empty_state() -> None:
    rule = SlowMo(k=2, momentum=0.5)
    training, _ = counting_training(combiner=rule)
    member = begin(training)
    training.push(member, push(0), update(4))
    before = training.store.snapshot()
    training.change_settings(Command.SWAP_COMBINER, "", combiner=rule)
    assert training.store.snapshot().state != before.state
