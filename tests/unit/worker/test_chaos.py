"""What chaos does to a worker, by a clock of the test's own: no thread sleeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import center, counting_training, join, numbers, of
from tos_notebook.chaos import Kill, Pause, Rule, Slow
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.errors import ConfigError
from tos_notebook.events import CommandApplied, MilestoneCommitted, WorkerFailed, WorkerLost
from tos_notebook.steering.machine import Command, RunEvent
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.transport.auth import new_secret
from tos_notebook.worker.chaos_effects import ChaosEffects, refuse
from tos_notebook.worker.exchange import WorkerContext
from tos_notebook.worker.loop import Worker
from tos_notebook.worker.plan import Plan


class Died(BaseException):
    """The end of a worker's process."""


class Machine:
    """Time that passes only in batches and in sleep: a batch takes one second."""

    def __init__(self, serve: Any, training: Coordinator) -> None:
        self._served = serve(training)
        self.now = 0.0
        self.slept: list[float] = []
        self.program = Counting()
        self.program.on_batch = self._compute

    def _compute(self, number: int) -> None:
        self.now += 1.0

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)

    def _die(self) -> None:
        raise Died

    def work(self, partition: int = 0, task: int = 0, **options: Any) -> None:
        connection = self._served.connect()
        plan = Plan("run", 0, False, 1, 1)
        given: dict[str, Any] = {"sleep": self._sleep, "kill": self._die} | options
        try:
            who = join(partition, task)
            moves = exchange(connection, self.program.spec.layout, WorkerContext(who, new_secret()))
            effects = ChaosEffects(**given)
            Worker(connection, moves, self.program, plan, who, lambda: self.now, effects).run([])
        finally:
            connection.close()


def disturb(training: Coordinator, *rules: Rule) -> None:
    training.change_settings(Command.CHAOS, "", chaos=rules)


def compute(events: list[Any], partition: int = 0) -> list[float]:
    """Return the seconds of each milestone of a partition."""
    return [e.compute for e in of(MilestoneCommitted, events) if e.partition == partition]


def test_a_slowed_worker_s_milestones_take_as_many_times_longer(serve: Any) -> None:
    training, events = counting_training(rows=10, sync_interval=2)
    disturb(training, Slow(5, worker=0))
    machine = Machine(serve, training)
    machine.work()
    assert compute(events) == [10.0] * 5  # two batches of one second each, five times
    assert machine.slept == [8.0] * 5
    assert center(training) == {"total": numbers(10).sum(), "rows": 10}


def test_only_who_is_meant_is_slowed_and_others_are_told_nothing(serve: Any) -> None:
    training, events = counting_training(partitions=2, rows=6)
    disturb(training, Slow(5, worker=1))
    for partition in range(2):
        Machine(serve, training).work(partition, task=partition)
    assert (compute(events, 0), compute(events, 1)) == ([1.0] * 3, [5.0] * 3)


def test_an_executor_s_workers_are_slowed_by_its_id(serve: Any) -> None:
    training, events = counting_training(partitions=2, rows=6)
    disturb(training, Slow(5, executor="executor-7"))
    for partition in range(2):
        Machine(serve, training).work(partition, task=6 + partition)
    assert (compute(events, 0), compute(events, 1)) == ([1.0] * 3, [5.0] * 3)


def test_chaos_comes_and_goes_while_it_trains_from_the_next_milestone_on(serve: Any) -> None:
    training, events = counting_training(rows=8)
    machine = Machine(serve, training)

    def steer(number: int) -> None:
        machine.now += 1.0
        if number == 2:
            disturb(training, Slow(3))
        if number == 5:
            disturb(training)

    machine.program.on_batch = steer
    machine.work()
    assert compute(events) == [1, 1, 1, 3, 3, 3, 1, 1]
    assert [e.command for e in of(CommandApplied, events)] == ["chaos", "chaos"]


def test_milestones_are_counted_from_the_worker_s_next_one_on(serve: Any) -> None:
    """Across epochs, too: between two of them a worker is told twice, and milestones count once."""
    training, events = counting_training(rows=3, epochs=3)
    disturb(training, Pause(7, at=4), Pause(7, at=8))
    machine = Machine(serve, training)
    machine.work()
    assert compute(events) == [1, 1, 1, 8, 1, 1, 1, 8, 1]


def test_an_only_milestone_is_the_only_one(serve: Any) -> None:
    training, events = counting_training(rows=4, epochs=2)
    disturb(training, Pause(30, at=2))
    Machine(serve, training).work()
    assert compute(events) == [1, 31, 1, 1, 1, 1, 1, 1]
    # What has run its course is over, and said so once.
    assert training.chaos == ()
    assert [e.detail for e in of(CommandApplied, events)] == ["", "off: it has run its course"]


def test_no_single_sleep_is_longer_than_a_minute(serve: Any) -> None:
    training, _ = counting_training(rows=2)
    disturb(training, Slow(1000), Pause(60))
    machine = Machine(serve, training)
    machine.work()
    assert machine.slept == [60.0, 60.0]


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_killed_worker_has_not_sent_its_milestone_and_its_heir_is_spared(
    serve: Any, tmp_path: Path, at: int
) -> None:
    """Also in an epoch's first milestone, which is the fourth of all."""
    training, events = counting_training(rows=3, epochs=2)
    disturb(training, Kill(at=at))
    machine = Machine(serve, training)
    with pytest.raises(Died):
        machine.work(task=0)
    assert len(of(MilestoneCommitted, events)) == at - 1
    machine.work(task=100)
    assert center(training) == {"total": 2 * numbers(3).sum(), "rows": 6}
    assert len(of(WorkerLost, events)) == 1
    assert training.chaos == ()


@pytest.mark.parametrize("rules", [1, 2, 3])
def test_each_rule_kills_once(serve: Any, rules: int) -> None:
    training, _ = counting_training(rows=5)
    disturb(training, *(Kill(at=milestone) for milestone in range(1, rules + 1)))
    machine, deaths = Machine(serve, training), 0
    for attempt in range(rules + 1):
        try:
            machine.work(task=100 * attempt)
        except Died:
            deaths += 1
    assert deaths == rules
    assert center(training) == {"total": numbers(5).sum(), "rows": 5}


def test_a_process_that_others_need_is_not_killed(serve: Any) -> None:
    training, events = counting_training(rows=5)
    disturb(training, Kill())
    with pytest.raises(ConfigError, match="separate process"):
        Machine(serve, training).work(kill=refuse)
    assert len(of(WorkerFailed, events)) == 1


def test_a_stopped_run_has_no_chaos(serve: Any) -> None:
    training, _ = counting_training()
    disturb(training, Slow(5))
    assert training.chaos == (Slow(5),)
    training.report(RunEvent.ENDED)
    assert training.chaos == ()


def test_a_setting_changed_meanwhile_does_not_begin_it_anew(serve: Any) -> None:
    training, events = counting_training(rows=6)
    disturb(training, Pause(9, at=5))
    machine = Machine(serve, training)

    def steer(number: int) -> None:
        machine.now += 1.0
        if number == 2:
            training.change_settings(Command.SET, "", learning_rate=0.5)

    machine.program.on_batch = steer
    machine.work()
    assert compute(events) == [1, 1, 1, 1, 10, 1]
    # Being told of chaos does not set what was set before once more.
    assert machine.program.learning_rates == [0.5]


def test_who_waits_is_struck_in_the_milestone_after_it(serve: Any) -> None:
    training, events = counting_training(rows=4)
    training.command(Command.PAUSE, "")
    disturb(training, Slow(2))
    machine = Machine(serve, training)
    polls = []
    before = training.requests.poll

    def poll(member: Any, message: Any) -> Any:
        polls.append(message)
        if len(polls) == 1:
            training.command(Command.UNPAUSE, "")
        return before(member, message)

    training.requests.poll = poll  # type: ignore[method-assign]
    machine.work()
    assert len(polls) == 1
    assert compute(events) == [2.0] * 4
