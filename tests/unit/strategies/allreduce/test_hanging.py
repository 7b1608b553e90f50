"""All-reduce among the workers, when one of them hangs while others wait for it in a round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import numpy as np
import pytest

from tos_notebook.common.arrays import Array
from tos_notebook.coordination.standstill import Standstill
from tos_notebook.coordination.watchdog import JOB, Facts, waits
from tos_notebook.events import MilestoneCommitted
from tos_notebook.reduction import mesh
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import SoftmaxRegression
from tos_notebook.wire.messages import Awaiting, Push

LIMIT = 20.0
SECONDS = 1000.0
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(31, 4)), RANDOM.integers(0, 3, 31)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let those that wait in a round say so after a moment."""
    monkeypatch.setattr(mesh, "REDUCING", 0.01)


class Hanging(SoftmaxRegression):
    """Hangs in one partition, once a test says so, and when it has not said that it waits."""

    def __init__(self, waited: set[int]) -> None:
        super().__init__()
        self._waited = waited
        self.hang, self.hangs, self.go = threading.Event(), threading.Event(), threading.Event()

    def before(self, batch: tuple[Array, ...]) -> None:
        named = threading.current_thread().name == "check-worker-1"
        if named and self.hang.is_set() and 1 not in self._waited:
            self.hangs.set()
            assert self.go.wait(LIMIT)


class Listening:
    """All-reduce that knows which workers wait for others."""

    def __init__(self, algorithm: str) -> None:
        self._strategy = AllReduce(algorithm=algorithm)
        self.said = threading.Condition()
        self.waiting: set[int] = set()
        self.waited: set[int] = set()
        """Those that have, since their last milestone."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def exchange(self, connection: Any, layout: Any, context: Any) -> Any:
        heard = Heard(connection, lambda message: self._hear(context.join.partition, message))
        return self._strategy.exchange(heard, layout, context)

    def _hear(self, partition: int, message: Any) -> None:
        with self.said:
            if isinstance(message, Awaiting):
                self.waiting.add(partition)
                self.waited.add(partition)
                self.said.notify_all()
            elif isinstance(message, Push):
                self.waited.discard(partition)

    def wait(self) -> set[int]:
        """Return who has said from now on that it waits, once two workers have."""
        with self.said:
            self.waiting.clear()
            assert self.said.wait_for(lambda: len(self.waiting) > 1, LIMIT)
            return set(self.waiting)


class Heard:
    """A connection that tells what the driver has answered."""

    def __init__(self, connection: Any, hear: Callable[[Any], object]) -> None:
        self._connection, self._hear = connection, hear

    def request(self, message: Any, *rest: Any) -> Any:
        answer = self._connection.request(message, *rest)
        self._hear(message)
        return answer


@contextmanager
def hanging(algorithm: str = "ring") -> Iterator[tuple[Bench, Listening]]:
    """Let the second of three workers hang while it computes, after its first milestone."""
    strategy = Listening(algorithm)
    program = Hanging(strategy.waited)
    with Trial(strategy, Deadline(LIMIT)).bench(program) as run:
        run.begin((X, Y), 3, range(100_000))
        ended = run.start()
        run.wait(MilestoneCommitted, partition=1)
        program.hang.set()
        assert program.hangs.wait(LIMIT)
        yield run, strategy
        program.go.set()
        ended()


def facts(run: Bench) -> Facts:
    return run.run.facts((JOB, monotonic()), 3)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving"])
def test_only_the_worker_that_hangs_stands_still_and_is_named(algorithm: str) -> None:
    superseded: list[int] = []
    standstill = Standstill(
        SECONDS,
        lambda member, reason: bool(superseded.append(member.partition)),
        lambda task, reason: None,
        lambda error: None,
    )
    with hanging(algorithm) as (run, strategy):
        now = monotonic()
        assert strategy.wait() == {0, 2}
        known = facts(run)
        standstill.check(known, now + SECONDS)
        assert superseded == [1]
        (named,) = waits(known, now + SECONDS, SECONDS)
        assert named.what.startswith("partition 1 on executor")
        assert "; 2 others wait for it" in named.what
        run.run.command(Command.STOP)


def test_a_stop_does_not_wait_for_the_round_of_one_that_hangs() -> None:
    with hanging() as (run, strategy):
        assert strategy.wait() == {0, 2}
        run.run.command(Command.STOP)
        present = run.run.state.membership.present
        with run.run.state.changed:
            assert run.run.state.changed.wait_for(
                lambda: present(0) is None and present(2) is None, LIMIT
            )
            assert present(1) is not None
