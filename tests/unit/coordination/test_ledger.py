"""Every batch of every epoch and partition counts exactly once, whatever dies when."""

from __future__ import annotations

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tos_notebook.coordination.ledger import Admission, Ledger, Position
from tos_notebook.errors import RemoteProtocolError

COMMIT, DUPLICATE, SUPERSEDED = Admission


def begun(partition: int = 0, task: int = 1, first_epoch: int = 0) -> Ledger:
    ledger = Ledger(partitions=2)
    assert ledger.begin(partition, task, first_epoch) == Position(first_epoch, 0, 0)
    return ledger


def test_a_new_partition_starts_at_the_jobs_first_epoch() -> None:
    assert Ledger().begin(partition=7, task=3, first_epoch=2) == Position(2, 0, 0)


def test_pushes_in_order_are_committed_and_counted() -> None:
    ledger = begun()
    assert [ledger.admit(0, 0, 1, s, steps=10) for s in range(3)] == [COMMIT] * 3
    assert ledger.committed(0, 0) == Position(0, steps=30, sequence=3)
    assert ledger.committed(0, 1) == Position(0, 0, 0)


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("steps", [[10], [10, 3, 7]])
def test_pushes_that_follow_each_other_are_admitted_as_one_by_one(
    before: int, steps: list[int]
) -> None:
    one, all_ = begun(), begun()
    for ledger in (one, all_):
        for sequence in range(before):
            ledger.admit(0, 0, 1, sequence, 5)
    for sequence, count in enumerate(steps, before):
        one.admit(0, 0, 1, sequence, count)
    all_.admit_all(0, 0, 1, before, steps)
    assert all_.to_json() == one.to_json()
    last = before + len(steps) - 1
    assert all_.admit(0, 0, 1, last, steps[-1]) is DUPLICATE
    assert all_.next_push(0, 1) == (0, last + 1)
    assert all_.revoke(0, 0, 1, last)


@pytest.mark.parametrize(
    ("epoch", "task", "sequence", "steps"),
    [(0, 1, 0, [10]), (0, 1, 2, [10]), (1, 1, 1, [10]), (0, 1, 1, [10, 0]), (0, 0, 1, [10])],
    ids=["again", "one is missing", "another epoch", "nothing", "an earlier task"],
)
def test_pushes_that_do_not_come_next_are_not_admitted_at_once(
    epoch: int, task: int, sequence: int, steps: list[int]
) -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    known = ledger.to_json()
    with pytest.raises(RemoteProtocolError):
        ledger.admit_all(epoch, 0, task, sequence, steps)
    assert ledger.to_json() == known


def test_the_next_push_is_that_of_the_task_that_has_the_partition() -> None:
    ledger = begun(task=4)
    assert (ledger.next_push(0, 4), ledger.next_push(0, 3)) == ((0, 0), None)
    assert ledger.next_push(1, 4) is None
    ledger.finish(0, 0, 4)
    assert ledger.next_push(0, 4) == (1, 0)


def test_a_push_whose_reply_got_lost_is_a_duplicate_and_counts_once() -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    assert ledger.admit(0, 0, 1, 0, 10) is DUPLICATE
    assert ledger.committed(0, 0).steps == 10


@pytest.mark.parametrize("steps", [10, 7])
def test_only_the_last_push_may_come_again(steps: int) -> None:
    """A worker that sent the next one had the reply: this is another push by its number."""
    ledger = begun()
    for sequence in range(3):
        ledger.admit(0, 0, 1, sequence, 10)
    with pytest.raises(RemoteProtocolError, match="push 1 came again; expected push 2 or 3"):
        ledger.admit(0, 0, 1, 1, steps)
    assert ledger.committed(0, 0) == Position(0, 30, 3)


@pytest.mark.parametrize("steps", [10, 7, 0])
def test_after_a_revoke_the_push_before_cannot_come_again(steps: int) -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    ledger.admit(0, 0, 1, 1, 5)
    ledger.revoke(0, 0, 1, 1)
    with pytest.raises(RemoteProtocolError, match="push 0 came again"):
        ledger.admit(0, 0, 1, 0, steps)
    assert ledger.admit(0, 0, 1, 1, 5) is COMMIT


def test_a_push_of_a_finished_epoch_that_comes_again_is_a_duplicate() -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    ledger.finish(0, 0, 1)
    assert ledger.admit(0, 0, 1, 0, 10) is DUPLICATE


def test_a_retry_goes_on_where_the_last_attempt_was_committed() -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    ledger.finish(0, 0, 1)
    ledger.admit(1, 0, 1, 0, 10)
    ledger.admit(1, 0, 1, 1, 5)
    assert ledger.begin(0, task=2, first_epoch=0) == Position(1, steps=15, sequence=2)
    assert ledger.admit(1, 0, 2, 2, 10) is COMMIT


def test_a_task_that_reconnects_keeps_its_partition() -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    assert ledger.begin(0, task=1, first_epoch=0) == Position(0, 10, 1)


def test_a_superseded_task_changes_nothing_any_more() -> None:
    ledger = begun(task=1)
    ledger.begin(0, task=2, first_epoch=0)
    assert ledger.begin(0, task=1, first_epoch=0) is SUPERSEDED
    assert ledger.admit(0, 0, 1, 0, 10) is SUPERSEDED
    assert ledger.finish(0, 0, 1) is SUPERSEDED
    assert ledger.revoke(0, 0, 1, 0) is False
    assert ledger.committed(0, 0) == Position(0, 0, 0)
    assert ledger.finished(0) == 0


def test_an_epoch_is_done_when_every_partition_has_finished_it_once() -> None:
    ledger = begun()
    ledger.begin(1, task=5, first_epoch=0)
    assert ledger.finish(0, 0, 1) is COMMIT
    assert ledger.finish(0, 0, 1) is DUPLICATE
    assert (ledger.finished(0), ledger.epoch_done(0, 2)) == (1, False)
    assert ledger.finish(0, 1, 5) is COMMIT
    assert (ledger.finished(0), ledger.epoch_done(0, 2)) == (2, True)
    assert not ledger.epoch_done(1, 2)


def test_a_later_job_starts_at_its_own_first_epoch() -> None:
    ledger = begun()
    assert ledger.begin(0, task=2, first_epoch=3) == Position(3, 0, 0)
    assert ledger.admit(3, 0, 2, 0, 1) is COMMIT


def test_a_revoked_push_may_come_again() -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    ledger.admit(0, 0, 1, 1, 5)
    assert ledger.revoke(0, 0, 1, 1) is True
    assert ledger.committed(0, 0) == Position(0, 10, 1)
    assert ledger.admit(0, 0, 1, 1, 7) is COMMIT
    assert ledger.committed(0, 0).steps == 17


@pytest.mark.parametrize("sequence", [0, 2, -1])
def test_only_the_last_push_can_be_revoked(sequence: int) -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    ledger.admit(0, 0, 1, 1, 10)
    with pytest.raises(RemoteProtocolError, match="not the last one"):
        ledger.revoke(0, 0, 1, sequence)
    ledger.revoke(0, 0, 1, 1)
    with pytest.raises(RemoteProtocolError, match="not the last one"):
        ledger.revoke(0, 0, 1, 0)
    assert ledger.committed(0, 0) == Position(0, 10, 1)


@pytest.mark.parametrize(
    ("epoch", "partition", "task", "sequence", "steps", "message"),
    [
        (0, 0, 1, 2, 10, "expected push 1"),
        (0, 0, 1, 1, 0, "at least 1 step"),
        (0, 0, 1, -1, 10, "came again"),
        (0, 0, 1, 0, 9, "came again with 9 steps; it had 10"),
        (1, 0, 1, 0, 10, "of epoch 1, which comes next"),
        (0, 0, 2, 1, 10, "without having begun"),
        (0, 1, 1, 0, 10, "without having begun"),
        (0, 2, 1, 0, 10, "from 0 to 1, got 2"),
    ],
)
def test_what_the_protocol_forbids_is_refused_and_changes_nothing(
    epoch: int, partition: int, task: int, sequence: int, steps: int, message: str
) -> None:
    ledger = begun()
    ledger.admit(0, 0, 1, 0, 10)
    before = ledger.to_json()
    with pytest.raises(RemoteProtocolError, match=message):
        ledger.admit(epoch, partition, task, sequence, steps)
    assert ledger.to_json() == before


def test_a_finished_epoch_takes_no_new_push_and_none_can_be_left_out() -> None:
    ledger = begun()
    with pytest.raises(RemoteProtocolError, match="epoch 1 comes next"):
        ledger.finish(1, 0, 1)
    ledger.finish(0, 0, 1)
    with pytest.raises(RemoteProtocolError, match="expected a push of epoch 2"):
        ledger.admit(0, 0, 1, 0, 10)


def test_more_partitions_are_welcome_after_a_repartition() -> None:
    ledger = begun()
    with pytest.raises(RemoteProtocolError, match="got 3"):
        ledger.begin(3, task=9, first_epoch=1)
    ledger.partitions = 4
    assert ledger.begin(3, task=9, first_epoch=1) == Position(1, 0, 0)


def test_a_restored_ledger_knows_the_commits_and_takes_any_task() -> None:
    """Task ids start again in another Spark context."""
    ledger = begun(task=100)
    ledger.admit(0, 0, 100, 0, 10)
    ledger.finish(0, 0, 100)
    ledger.admit(1, 0, 100, 0, 10)
    restored = Ledger.from_json(json.loads(json.dumps(ledger.to_json())))
    assert restored.to_json() == ledger.to_json()
    assert restored.finished(0) == 1
    with pytest.raises(RemoteProtocolError, match="without having begun"):
        restored.admit(1, 0, 100, 1, 10)
    assert restored.begin(0, task=1, first_epoch=0) == Position(1, 10, 1)


EPOCHS, PARTITIONS, BATCHES = 3, 2, 7


class Task:
    """A worker as it sees itself: its partition, and where it believes to be."""

    def __init__(self, task: int, partition: int, position: Position) -> None:
        self.task, self.partition, self.at = task, partition, position
        self.lost: tuple[int, int, int, int, int] | None = None
        """The last push, if its reply got lost: it is sent again before anything else."""


class Cluster(RuleBasedStateMachine):
    """Tasks start, push, lose replies, die and come back as zombies, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(PARTITIONS)
        self.tasks: list[Task] = []
        self.counted: dict[tuple[int, int], list[int]] = {}
        self.next_task = 0

    @initialize()
    def submit(self) -> None:
        for partition in range(PARTITIONS):
            self.attempt(partition)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def attempt(self, partition: int) -> None:
        """Spark starts a task, first, again or on the side; the others may live on."""
        position = self.ledger.begin(partition, self.next_task, first_epoch=0)
        assert isinstance(position, Position)
        assert position.steps == len(self.counted.get((position.epoch, partition), []))
        self.tasks.append(Task(self.next_task, partition, position))
        self.next_task += 1

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), steps=st.integers(1, 4), lose_reply=st.booleans())
    def work(self, data: st.DataObject, steps: int, lose_reply: bool) -> None:
        task = data.draw(st.sampled_from(self.tasks))
        if task.lost is not None:
            self.push(task, task.lost, lose_reply)
        elif task.at.epoch == EPOCHS:
            self.tasks.remove(task)
        elif task.at.steps == BATCHES:
            self.finish(task)
        else:
            steps = min(steps, BATCHES - task.at.steps)
            push = (task.at.epoch, task.partition, task.task, task.at.sequence, steps)
            self.push(task, push, lose_reply)

    def push(self, task: Task, push: tuple[int, int, int, int, int], lose_reply: bool) -> None:
        admission = self.ledger.admit(*push)
        epoch, steps = task.at.epoch, push[4]
        batches = range(task.at.steps, task.at.steps + steps)
        if admission is SUPERSEDED:
            self.tasks.remove(task)
            return
        assert admission is (DUPLICATE if task.lost else COMMIT)
        if admission is COMMIT:
            self.counted.setdefault((epoch, task.partition), []).extend(batches)
        task.lost = push if lose_reply else None
        if not lose_reply:
            task.at = self.ledger.committed(epoch, task.partition)
            assert task.at.steps == batches.stop

    def finish(self, task: Task) -> None:
        if self.ledger.finish(task.at.epoch, task.partition, task.task) is SUPERSEDED:
            self.tasks.remove(task)
        else:
            task.at = Position(task.at.epoch + 1, 0, 0)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.tasks.remove(data.draw(st.sampled_from(self.tasks)))

    @rule()
    def restart_the_driver(self) -> None:
        self.ledger = Ledger.from_json(json.loads(json.dumps(self.ledger.to_json())))
        self.tasks.clear()
        self.next_task = 0

    @invariant()
    def every_batch_is_counted_once_and_in_order(self) -> None:
        for (epoch, partition), batches in self.counted.items():
            assert batches == list(range(len(batches)))
            assert self.ledger.committed(epoch, partition).steps == len(batches)

    def teardown(self) -> None:
        """Run every partition to its end: nothing may be missing then."""
        self.tasks.clear()
        for partition in range(PARTITIONS):
            self.attempt(partition)
        while self.tasks:
            task = self.tasks[-1]
            if task.at.epoch == EPOCHS:
                self.tasks.pop()
            elif task.at.steps == BATCHES:
                self.finish(task)
            else:
                here = task.at
                push = (here.epoch, task.partition, task.task, here.sequence, 1)
                self.push(task, push, lose_reply=False)
        everything = {(e, p): list(range(BATCHES)) for e in range(EPOCHS) for p in (0, 1)}
        assert self.counted == everything
        assert all(self.ledger.epoch_done(epoch, PARTITIONS) for epoch in range(EPOCHS))


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCluster = Cluster.TestCase
