"""What workers of a step are told while it waits for others, is made, or comes to nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.threads import LIMIT, Aside
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.exchange import WorkerExchange
from tos_notebook.coordination.membership import Member
from tos_notebook.coordination.settings import Settings
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import CheckpointError
from tos_notebook.events import CommandApplied, Event, MilestoneCommitted
from tos_notebook.steering.machine import Command
from tos_notebook.steering.sync import BSP
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.testing.programs import Counting
from tos_notebook.wire.messages import Directive, Join, Poll, Proceed, Push, Reply

ROWS = np.arange(1.0, 9.0)


class Gated(Counting):
    """Makes a step when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        self.begun.set()
        assert self.go.wait(LIMIT)
        return super().update(vectors, means)


class Scene:
    """A run of two partitions, of which the test plays the workers."""

    def __init__(self) -> None:
        self.program = Gated()
        layout = self.program.spec.layout
        strategy = AllReduce(algorithm="star")
        settings = Settings(strategy.exact_settings(), 1, BSP)
        trainer = strategy.trainer(
            TrainerSetup(layout, layout.allocate(), settings, updater=lambda: self.program)
        )
        self.events: list[Event] = []
        self.run = Coordinator(
            "run",
            trainer,
            settings,
            publish=self.events.append,
            locate=lambda task: (str(task), "here"),
            on_failure=lambda: None,
            timeouts=Timeouts(long_poll=0.0),
        )
        self.run.begin_span(ArraySource((ROWS,), 2), 0, 0)
        self._tasks = 0

    def join(self, partition: int) -> Worker:
        self._tasks += 1
        message = Join("run", partition, 0, self._tasks, "here", 1, segment="", metrics=[])
        member, joined = self.run.requests.join(message, shared=False)
        exchange = self.run.exchange("")
        exchange.open()
        worker = Worker(self, member, exchange, joined.sequence)
        worker.poll()
        return worker

    @property
    def counted(self) -> dict[str, float]:
        layout = self.program.spec.layout
        tensors = layout.tensors(self.run.parameters.read()[0])
        return {name: float(value) for name, value in tensors.items()}

    def seen(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Worker:
    """A worker that the test plays."""

    def __init__(
        self, scene: Scene, member: Member, exchange: WorkerExchange, sequence: int
    ) -> None:
        self._scene, self.member, self._exchange = scene, member, exchange
        self._sequence, self._version = sequence, 0

    def push(self, row: float) -> Reply:
        layout = self._scene.program.spec.layout
        message = Push(
            epoch=0, sequence=self._sequence, steps=1, samples=1, base_version=self._version,
            settings_version=0, finite=True, loss=0.0, compute=0.0, wait=0.0, exchange=0.0,
            cpu=0.0, memory=0, metrics=(),
        )  # fmt: skip
        memory = self._exchange.receive_into(message, layout.nbytes)
        assert memory is not None
        memory[:] = layout.pack([np.float64(row), np.int64(1)]).data
        reply, _ = self._exchange.push(self.member, message)
        assert isinstance(reply, Reply)
        self._sequence += 1
        return reply

    def poll(self) -> Proceed:
        self._exchange.receive_into(Poll(0), 0)
        proceed, _ = self._exchange.poll(self.member, Poll(0))
        assert isinstance(proceed, Proceed)
        self._version = self._version if proceed.version is None else proceed.version
        return proceed


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_worker_does_not_continue_while_its_step_is_being_made(scene: Scene) -> None:
    first, second = scene.join(0), scene.join(1)
    assert first.push(3.0).directive is Directive.WAIT
    scene.program.go.clear()
    pushing = Aside(lambda: second.push(5.0))
    assert scene.program.begun.wait(LIMIT)
    # With the parameters of before it would bring the gradient of another step.
    assert first.poll().directive is Directive.WAIT
    scene.program.go.set()
    assert pushing.result().directive is Directive.GO
    proceed = first.poll()
    assert (proceed.directive, proceed.version) == (Directive.GO, 1)
    assert scene.counted == {"total": 4.0, "rows": 1.0}


def test_the_next_attempt_of_a_lost_worker_waits_for_the_step_that_is_being_made(
    scene: Scene,
) -> None:
    first, second = scene.join(0), scene.join(1)
    first.push(3.0)
    scene.program.go.clear()
    pushing = Aside(lambda: second.push(5.0))
    assert scene.program.begun.wait(LIMIT)
    scene.run.state.lost(first.member, "it died")
    again = scene.join(0)
    # Its push counts, so that it must not train on from the parameters of before.
    assert again.poll().directive is Directive.WAIT
    scene.program.go.set()
    pushing.result()
    proceed = again.poll()
    assert (proceed.directive, proceed.version) == (Directive.GO, 1)


def test_a_pause_is_not_reported_while_a_step_is_being_made(scene: Scene) -> None:
    first, second = scene.join(0), scene.join(1)
    first.push(3.0)
    scene.program.go.clear()
    pushing = Aside(lambda: second.push(5.0))
    assert scene.program.begun.wait(LIMIT)
    scene.run.command(Command.PAUSE)
    first.poll()
    assert not scene.seen(CommandApplied)
    scene.program.go.set()
    assert pushing.result().directive is Directive.WAIT
    first.poll()
    assert [event.command for event in scene.seen(CommandApplied)] == ["pause"]


def test_a_stop_while_a_step_is_being_made_lets_it_count_for_all(scene: Scene) -> None:
    first, second = scene.join(0), scene.join(1)
    first.push(3.0)
    scene.program.go.clear()
    pushing = Aside(lambda: second.push(5.0))
    assert scene.program.begun.wait(LIMIT)
    scene.run.command(Command.STOP)
    first.poll()
    scene.program.go.set()
    assert pushing.result().directive is Directive.STOP
    assert first.poll().directive is Directive.STOP
    scene.run.settle()
    assert len(scene.seen(MilestoneCommitted)) == 2
    assert scene.counted["rows"] == 1.0


def test_what_a_lost_worker_has_left_does_not_come_into_another_layout(scene: Scene) -> None:
    first, second = scene.join(0), scene.join(1)
    second.push(5.0)
    scene.run.state.lost(second.member, "it died")
    scene.run.state.lost(first.member, "it died")
    scene.run.begin_span(ArraySource((ROWS,), 1), 0, 0)
    alone = scene.join(0)
    assert alone.push(3.0).directive is Directive.GO
    assert scene.counted == {"total": 3.0, "rows": 1.0}
    assert len(scene.seen(MilestoneCommitted)) == 1


def test_an_update_that_raises_ends_the_run_and_counts_for_no_worker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise KeyError("momentum")

    first, second = scene.join(0), scene.join(1)
    monkeypatch.setattr(scene.program, "update", broken)
    first.push(3.0)
    assert second.push(5.0).directive is Directive.STOP
    assert "It counts for no worker" in str(scene.run.error)
    # The optimizer may have changed what it keeps.
    with pytest.raises(CheckpointError, match="The optimizer has begun a step"):
        scene.run.snapshot()
    assert isinstance(scene.run.error.__cause__, KeyError)
    assert not scene.seen(MilestoneCommitted)
    assert scene.run.state.ledger.committed(0, 0).steps == 0
    # No merge is under way any more, for which the end would wait.
    with scene.run.state.lock:
        assert scene.run.state.gate.wait_idle(0.0)
