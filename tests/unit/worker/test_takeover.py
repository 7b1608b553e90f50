"""Exactly once: attempts that die, attempts that come back from the dead."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import Frail, center, counting_training, join, numbers, of, until
from tos_notebook.errors import LocalProtocolError, SessionClosed, TransportError
from tos_notebook.events import (
    CommandApplied,
    EpochFinished,
    MilestoneCommitted,
    WorkerJoined,
    WorkerLost,
)
from tos_notebook.steering.machine import Command

ROWS, EPOCHS, BATCH, INTERVAL = 11, 2, 2, 2
PUSHES = EPOCHS * 3
EXACT = {"total": EPOCHS * numbers(ROWS).sum(), "rows": EPOCHS * ROWS}
WORK: dict[str, Any] = {"columns": 1, "batch_size": BATCH, "shuffle": True, "seed": 3}


def _training() -> Any:
    return counting_training(rows=ROWS, epochs=EPOCHS, sync_interval=INTERVAL)


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
@pytest.mark.parametrize("delivered", [False, True], ids=["before the server", "before the reply"])
@pytest.mark.parametrize("number", range(PUSHES))
def test_a_lost_push_is_applied_once(serve: Any, kind: str, delivered: bool, number: int) -> None:
    """The next attempt continues behind the last push of the ledger, answered or not."""
    training, events = _training()
    served = serve(training, kind)
    with pytest.raises(TransportError):
        served.work(Counting(), connection=Frail(served.connect(), number, delivered), **WORK)
    second = Counting()
    served.work(second, task=1, **WORK)

    assert center(training) == EXACT
    assert len(of(MilestoneCommitted, events)) == PUSHES
    committed = number + delivered
    joined = of(WorkerJoined, events)[1]
    assert (joined.epoch, joined.resumed_at) == (number // 3, (number % 3 + delivered) * INTERVAL)
    assert len(second.calls) == PUSHES - committed


@pytest.mark.parametrize("batch", range(EPOCHS * 6))
def test_a_program_that_fails_at_any_batch_is_taken_up_where_it_was(serve: Any, batch: int) -> None:
    training, events = _training()
    served = serve(training)
    program = Counting()

    def fail(number: int) -> None:
        if number == batch:
            raise ValueError("once")

    program.on_batch = fail
    with pytest.raises(ValueError, match="once"):
        served.work(program, **WORK)
    served.work(Counting(), task=1, **WORK)
    assert center(training) == EXACT
    assert [e.samples for e in of(EpochFinished, events)] == [ROWS] * EPOCHS


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(deaths=st.lists(st.tuples(st.integers(0, PUSHES - 1), st.booleans()), max_size=6))
def test_any_number_of_deaths_changes_nothing(serve: Any, deaths: list[tuple[int, bool]]) -> None:
    training, events = _training()
    served = serve(training)
    for task, (number, delivered) in enumerate(deaths):
        try:
            served.work(
                Counting(), task=task, connection=Frail(served.connect(), number, delivered), **WORK
            )
        except TransportError:
            continue
    served.work(Counting(), task=len(deaths), **WORK)
    assert center(training) == EXACT
    assert [e.samples for e in of(EpochFinished, events)] == [ROWS] * EPOCHS


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_a_zombie_s_push_is_refused_and_changes_nothing(serve: Any, kind: str) -> None:
    """An attempt that hung while another one took over ends without being counted."""
    training, events = _training()
    served = serve(training, kind)
    zombie, hangs, wakes = Counting(), threading.Event(), threading.Event()

    def hang(number: int) -> None:
        if number == 3:
            hangs.set()
            assert wakes.wait(LIMIT)

    zombie.on_batch = hang
    first = Aside(lambda: served.work(zombie, **WORK))
    assert hangs.wait(LIMIT)
    served.work(Counting(), task=1, **WORK)
    assert center(training) == EXACT
    version = training.store.version
    wakes.set()
    with pytest.raises(LocalProtocolError, match="taken over partition 0"):
        first.result()
    assert center(training) == EXACT
    assert training.store.version == version
    (lost,) = of(WorkerLost, events)
    assert (lost.executor, lost.reason) == ("executor-0", "a later attempt has taken its place")
    assert not training.failures


@pytest.mark.parametrize("kind", ["inproc", "tcp"])
def test_a_zombie_that_waits_fails_and_does_not_pass_for_done(serve: Any, kind: str) -> None:
    """A task that returns makes Spark kill the attempt that has taken over, e.g. a speculative one.

    What was left of the partition would never be trained.
    """
    training, events = _training()
    served = serve(training, kind)
    training.command(Command.PAUSE, "")
    first = Aside(lambda: served.work(Counting(), **WORK))
    until(lambda: bool(of(CommandApplied, events)))
    training.join(join(task=1), False)
    with pytest.raises(SessionClosed, match="later attempt"):
        first.result()
    training.command(Command.UNPAUSE, "")
    served.work(Counting(), task=2, **WORK)
    assert center(training) == EXACT


def test_an_attempt_at_a_partition_that_is_done_has_nothing_to_do(serve: Any) -> None:
    """Spark may repeat a finished task, whose result got lost with an executor."""
    training, events = _training()
    served = serve(training)
    served.work(Counting(), **WORK)
    again = Counting()
    served.work(again, task=1, **WORK)
    assert not again.batches
    assert center(training) == EXACT
    assert not of(WorkerLost, events)
