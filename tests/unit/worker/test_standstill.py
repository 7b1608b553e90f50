"""What the server does when a worker stands still and loses its place."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import LIMIT, Aside
from tests.unit.worker.support import center, counting_training, join, numbers, of, until
from tos_notebook.coordination.membership import Doing, Member
from tos_notebook.coordination.watchdog import JOB
from tos_notebook.errors import LocalProtocolError, SessionClosed
from tos_notebook.events import WorkerLost
from tos_notebook.steering.sync import BSP
from tos_notebook.wire.messages import Poll


def test_nobody_waits_for_a_worker_that_lost_its_place_and_no_batch_counts_twice(
    serve: Any,
) -> None:
    training, events = counting_training(2, 2, rows=12, sync=BSP)
    served = serve(training)
    stuck, freed = Counting(), threading.Event()
    arrived = threading.Event()

    def stand_still(number: int) -> None:
        if number == 2:
            arrived.set()
            assert freed.wait(LIMIT)

    stuck.on_batch = stand_still
    work = {"columns": 1}
    first = Aside(lambda: served.work(stuck, 0, 0, **work))
    other = Aside(lambda: served.work(Counting(), 1, 1, **work))
    assert arrived.wait(LIMIT)
    until(lambda: _doing(training, 1) is Doing.WAIT)
    assert training.supersede(_member(training, 0), "it stood still")
    # Alone now, until Spark's next attempt comes.
    other.result()
    second = Aside(lambda: served.work(Counting(), 0, 2, **work))
    second.result()
    freed.set()
    with pytest.raises(LocalProtocolError, match="Another attempt"):
        first.result()
    assert center(training) == {"total": 2 * numbers(12).sum(), "rows": 24}
    (lost,) = of(WorkerLost, events)
    assert (lost.partition, lost.reason) == (0, "it stood still")


def test_a_worker_that_has_spoken_since_keeps_its_place() -> None:
    training, _ = counting_training()
    member, _ = training.join(join(task=0), False)
    before = _member(training, 0)
    training.poll(member, Poll(0))
    assert not training.supersede(before, "it stood still")
    training.poll(member, Poll(0))
    assert training.supersede(_member(training, 0), "it stood still")
    with pytest.raises(SessionClosed):
        training.poll(member, Poll(0))
    with pytest.raises(SessionClosed):
        training.join(join(task=0), False)
    training.join(join(task=1), False)


def _member(training: Any, partition: int) -> Member:
    (found,) = [m for m in training.facts((JOB, 0.0), 2).members if m.partition == partition]
    assert isinstance(found, Member)
    return found


def _doing(training: Any, partition: int) -> Doing | None:
    """Return what a partition's worker does; None before it has joined."""
    members = training.facts((JOB, 0.0), 2).members
    return next((m.doing for m in members if m.partition == partition), None)
