"""Commands, as workers in mid-run meet them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting, SoftmaxRegression, digits
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import center, counting_training, numbers, of
from tos_notebook.codecs.pair import as_codecs
from tos_notebook.combiners import EASGD
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.events import CommandApplied, Event, MilestoneCommitted, WorkerLost
from tos_notebook.steering.machine import Command, RunEvent


class Gate:
    """Lets a program's batches through up to a number, and says when it has got there."""

    def __init__(self, *stops: int) -> None:
        self._stops = {number: (threading.Event(), threading.Event()) for number in stops}

    def __call__(self, number: int) -> None:
        if number in self._stops:
            reached, opened = self._stops[number]
            reached.set()
            assert opened.wait(LIMIT)

    def reached(self, number: int) -> None:
        assert self._stops[number][0].wait(LIMIT)

    def open(self, number: int) -> None:
        self._stops[number][1].set()


class Watch(list[Event]):
    """Events that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def append(self, event: Event) -> None:
        with self._changed:
            super().append(event)
            self._changed.notify_all()

    def wait_for(self, kind: type[Event], test: Callable[[Any], bool] = lambda e: True) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(test, of(kind, self))), LIMIT)
        return next(filter(test, of(kind, self)))


def _is_pause(event: CommandApplied) -> bool:
    return event.command == "pause"


def _applied(events: list[Event], command: str) -> int:
    return sum(event.command == command for event in of(CommandApplied, events))


WOKEN = Timeouts(long_poll=3 * LIMIT)
"""A poll lasts longer than a test may: only a wake-up ends it in time."""


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_a_pause_stands_still_and_a_resume_goes_on_at_once(serve: Any, kind: str) -> None:
    events = Watch()
    training, _ = counting_training(partitions=2, rows=40, publish=events.append, timeouts=WOKEN)
    served = serve(training, kind)
    gates = [Gate(5), Gate(7)]
    programs = [Counting(), Counting()]
    for program, gate in zip(programs, gates, strict=True):
        program.on_batch = gate
    workers = [Aside(lambda p=p: served.work(programs[p], p, task=p, columns=1)) for p in range(2)]
    gates[0].reached(5)
    gates[1].reached(7)
    training.command(Command.PAUSE, "")
    gates[0].open(5)
    assert _applied(events, "pause") == 0
    gates[1].open(7)

    events.wait_for(CommandApplied, _is_pause)
    pushed = len(of(MilestoneCommitted, events))
    # Each worker ended the batch it was at, and began no other.
    assert (pushed, [len(program.batches) for program in programs]) == (14, [6, 8])
    assert training.store.version == 14
    training.command(Command.UNPAUSE, "")
    for worker in workers:
        worker.result()
    assert center(training) == {"total": numbers(40).sum(), "rows": 40}
    assert _applied(events, "pause") == 1
    waits = [event.wait for event in of(MilestoneCommitted, events)]
    assert sum(wait > 0 for wait in waits[pushed : pushed + 2]) == 2


def test_a_worker_that_joins_while_paused_waits_before_it_trains(serve: Any) -> None:
    events = Watch()
    training, _ = counting_training(rows=3, publish=events.append, timeouts=WOKEN)
    training.command(Command.PAUSE, "")
    program = Counting()
    worker = Aside(lambda: serve(training).work(program, columns=1))
    events.wait_for(CommandApplied, _is_pause)
    assert not program.batches
    training.command(Command.UNPAUSE, "")
    worker.result()
    assert center(training)["rows"] == 3


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
@pytest.mark.parametrize("paused", [False, True])
def test_a_stop_ends_workers_at_their_next_milestone_and_keeps_the_center(
    serve: Any, kind: str, paused: bool
) -> None:
    events = Watch()
    training, _ = counting_training(rows=40, sync_interval=2, publish=events.append, timeouts=WOKEN)
    program, gate = Counting(), Gate(5)
    program.on_batch = gate
    worker = Aside(lambda: serve(training, kind).work(program, columns=1))
    gate.reached(5)
    if paused:
        training.command(Command.PAUSE, "")
        gate.open(5)
        events.wait_for(CommandApplied, _is_pause)
    training.command(Command.STOP, "")
    gate.open(5)
    worker.result()
    training.settle()
    training.report(RunEvent.ENDED)
    assert training.machine.state == "stopped"
    assert center(training) == {"total": numbers(6).sum(), "rows": 6}
    assert not of(WorkerLost, events)
    assert _applied(events, "pause") == paused


def test_a_new_interval_holds_from_each_worker_s_next_milestone_on(serve: Any) -> None:
    training, events = counting_training(partitions=2, rows=24, sync_interval=2)
    served = serve(training)
    programs, gates = [Counting(), Counting()], [Gate(3), Gate(1)]
    for program, gate in zip(programs, gates, strict=True):
        program.on_batch = gate
    workers = [Aside(lambda p=p: served.work(programs[p], p, task=p, columns=1)) for p in range(2)]
    gates[0].reached(3)
    gates[1].reached(1)
    training.change_settings(Command.SET, "sync_interval=5", sync_interval=5)
    gates[0].open(3)
    workers[0].result()
    assert programs[0].calls == [2, 2, 5, 3]
    # One worker has used it up to the end; it has taken effect when the other one has, too.
    assert _applied(events, "set") == 0
    gates[1].open(1)
    workers[1].result()
    assert programs[1].calls == [2, 5, 5]
    assert _applied(events, "set") == 1
    assert center(training)["rows"] == 24


def test_the_learning_rate_reaches_the_program_and_counts_from_then_on(serve: Any) -> None:
    x, y = digits(40)
    program = SoftmaxRegression()
    training, events = counting_training(program=program, columns=(x, y), epochs=2)
    gate = Gate(3)
    program.on_batch = gate
    worker = Aside(lambda: serve(training).work(program, columns=2, batch_size=10))
    gate.reached(3)
    assert program.learning_rates == []
    training.change_settings(Command.SET, "learning_rate=1e-300", learning_rate=1e-300)
    gate.open(3)
    worker.result()
    assert set(program.learning_rates) == {1e-300}
    assert _applied(events, "set") == 1
    # The first four batches trained; the next epoch could not move the center any more.
    losses = [event.loss for event in of(MilestoneCommitted, events)]
    local = SoftmaxRegression()
    vectors = local.spec.layout.vectors(local.spec.layout.allocate())
    trained = local.train(vectors, (x, y), 10).parameters
    final = local.spec.layout.tensors(training.store.read()[0]).values()
    for mine, theirs in zip(trained, final, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert losses[0] == pytest.approx(np.log(3))


def test_a_worker_that_joins_later_begins_with_the_settings_in_force(serve: Any) -> None:
    x, y = digits(12)
    training, _ = counting_training(program=SoftmaxRegression(), columns=(x, y))
    training.change_settings(Command.SET, "", learning_rate=0.25, sync_interval=3)
    program = SoftmaxRegression()
    serve(training).work(program, columns=2, batch_size=3)
    assert (program.learning_rates, program.calls) == ([0.25], [3, 1])


def test_a_swap_merges_what_is_in_flight_by_the_old_rule(serve: Any) -> None:
    """A change computed for Downpour must not be taken for EASGD's weights."""
    training, events = counting_training(rows=4)
    program, gate = Counting(), Gate(1)
    program.on_batch = gate
    worker = Aside(lambda: serve(training).work(program, columns=1))
    gate.reached(1)
    training.change_settings(Command.SWAP_COMBINER, "EASGD", combiner=EASGD(0.5))
    gate.open(1)
    worker.result()
    # Rows 1 and 2 are added as changes: c = w = 3. Row 3 makes w = 6, and both move halfway
    # to 4.5; row 4 makes w = 8.5, and both end at 6.5.
    assert center(training)["total"] == 6.5
    assert _applied(events, "swap combiner") == 1
    assert not training.failures
    assert training.error is None


def test_repartition_ends_the_job_with_the_latest_epoch_that_was_begun(serve: Any) -> None:
    """No worker skips a batch of it, and none begins the next one."""
    training, events = counting_training(partitions=2, rows=10, epochs=9)
    span = training.state.span
    served = serve(training)
    programs, gates = [Counting(), Counting()], [Gate(12), Gate(3)]
    for program, gate in zip(programs, gates, strict=True):
        program.on_batch = gate
    workers = [Aside(lambda p=p: served.work(programs[p], p, task=p, columns=1)) for p in range(2)]
    gates[0].reached(12)
    gates[1].reached(3)
    training.end_span_early(Command.REPARTITION, "4 partitions")
    assert span is not None
    assert span.last_epoch == 2
    for gate, number in zip(gates, (12, 3), strict=True):
        gate.open(number)
    for worker in workers:
        worker.result()
    assert center(training) == {"total": 3 * numbers(10).sum(), "rows": 30}
    assert [len(program.batches) for program in programs] == [15, 15]
    assert not of(WorkerLost, events)


@pytest.mark.parametrize("codec", ["fp32", "int8"])
def test_a_swap_while_paused_holds_from_the_first_push_after_it(serve: Any, codec: str) -> None:
    events = Watch()
    pair = as_codecs(codec)
    training, _ = counting_training(rows=4, publish=events.append, codec=pair, timeouts=WOKEN)
    program, gate = Counting(), Gate(1)
    program.on_batch = gate
    worker = Aside(lambda: serve(training).work(program, columns=1))
    gate.reached(1)
    training.command(Command.PAUSE, "")
    gate.open(1)
    events.wait_for(CommandApplied, _is_pause)
    training.change_settings(Command.SWAP_COMBINER, "EASGD", combiner=EASGD(0.5))
    assert training.machine.state == "paused"
    # A step of int8 is a 127th of the largest value.
    near = 0 if codec == "fp32" else 4 / 127
    assert center(training)["total"] == pytest.approx(3, abs=near)
    training.command(Command.UNPAUSE, "")
    worker.result()
    # As after a swap while it trains: row 3 makes 6, both move to 4.5; row 4 makes 8.5.
    assert center(training)["total"] == pytest.approx(6.5, abs=3 * near)
    assert len(program.batches) == 4
    assert training.error is None
