"""All-reduce among the workers, when one is lost at the worst moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import numpy as np
import pytest

from tests.unit.worker.support import Frail
from tos_notebook.common.arrays import Array
from tos_notebook.coordination.timeouts import Timeouts
from tos_notebook.data.arrays import ArraySource
from tos_notebook.data.stream import Stream
from tos_notebook.events import CommandApplied, MilestoneCommitted, WorkerLost
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import SoftmaxRegression
from tos_notebook.wire.messages import Poll, Proceed, Push, Ready
from tos_notebook.worker.batches import StreamedBatches
from tos_notebook.worker.loop import Worker

LIMIT = 10.0
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(31, 4)), RANDOM.integers(0, 3, 31)


class Losing:
    """All-reduce that loses the first worker of partition 0 before one of its reports.

    Parameters
    ----------
    number : int
        Of the report; none if negative.
    before : callable
        Called before its next attempt joins.
    seen : callable
        Takes what workers ask.
    """

    def __init__(
        self,
        number: int,
        before: Callable[[], object] = lambda: None,
        seen: Callable[[Any], object] = lambda message: None,
    ) -> None:
        self._strategy = AllReduce(algorithm="ring")
        self._number, self._before, self._seen = number, before, seen
        self._lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def exchange(self, connection: Any, layout: Any, context: Any) -> Any:
        connection = Watched(connection, self._seen)
        if context.join.partition == 0 and self._lost:
            self._before()
        elif context.join.partition == 0:
            self._lost = True
            connection = Frail(connection, self._number, delivered=False)
        return self._strategy.exchange(connection, layout, context)


class Watched:
    """A connection that says what is asked."""

    def __init__(self, connection: Any, seen: Callable[[Any], object]) -> None:
        self._connection, self._seen = connection, seen

    def request(self, message: Any, *rest: Any) -> Any:
        self._seen(message)
        return self._connection.request(message, *rest)

    def abort(self) -> None:
        self._connection.abort()


@contextmanager
def bench(strategy: Any, program: Any = None) -> Iterator[Bench]:
    with Trial(strategy, Deadline(LIMIT)).bench(program or SoftmaxRegression()) as made:
        yield made


def trained_by(strategy: Losing, rows: int, partitions: int, lose: bool) -> bytes:
    with bench(strategy) as run:
        run.begin((X[:rows], Y[:rows]), partitions, range(3))
        run.work(lose=10**6 if lose else None)
        assert run.rows_told() == 3 * rows
        return run.run.parameters.read()[0].tobytes()


def test_workers_that_have_waited_for_long_train_a_lost_milestone_again() -> None:
    lost, polled = threading.Event(), threading.Event()

    def seen(message: Any) -> None:
        if lost.is_set() and isinstance(message, Poll):
            polled.set()

    def before() -> None:
        lost.set()
        assert polled.wait(LIMIT)

    undisturbed = trained_by(Losing(-1), 31, 3, False)
    assert trained_by(Losing(1, before, seen), 31, 3, True) == undisturbed


def test_who_has_no_rows_left_attends_once_more_where_the_last_milestone_is_lost() -> None:
    # The partitions have 1, 1 and 2 rows: the second milestone is the last one.
    undisturbed = trained_by(Losing(-1), 4, 3, False)
    assert trained_by(Losing(1), 4, 3, True) == undisturbed


class Dealt(Stream):
    """A partition of the rows, made batch by batch."""

    def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[tuple[Array, ...]]:
        columns = ArraySource((X, Y), self.partitions).rows(self.partition)
        for start in range(0, len(columns[0]), batch_size):
            yield tuple(column[start : start + batch_size] for column in columns)


def test_streamed_rows_of_a_lost_milestone_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = trained_by(Losing(-1), 31, 3, False)

    def streamed(connection: Any, plan: Any, partition: int, *rest: Any) -> StreamedBatches:
        stream = Dealt(lambda context: None, partition, 3, (), ())
        return StreamedBatches(stream, plan.seed, plan.batch_size)

    monkeypatch.setattr(Worker, "__init__", partialmethod(Worker.__init__, load=streamed))
    assert trained_by(Losing(-1), 31, 3, False) == undisturbed
    assert trained_by(Losing(2), 31, 3, True) == undisturbed


class Apart(SoftmaxRegression):
    """Has a learning rate for each worker, as if they were processes; says that one trains."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.trains = threading.local(), threading.Event()

    def set_learning_rate(self, value: float) -> None:
        self.own.rate = value

    def apply(self, parameters: dict[str, Array], gradients: dict[str, Array]) -> None:
        for name, value in parameters.items():
            value -= getattr(self.own, "rate", self.rate) * gradients[name]

    def before(self, batch: tuple[Array, ...]) -> None:
        if threading.current_thread().name == "check-worker-0":
            self.trains.set()


def test_another_learning_rate_while_workers_come_back_from_a_pause_is_the_same_for_all() -> None:
    program, held, go = Apart(), threading.Event(), threading.Event()
    pausing, paused = threading.Event(), threading.Event()

    def seen(message: Any) -> None:
        first = threading.current_thread().name == "check-worker-0"
        if first and isinstance(message, Push) and not paused.is_set():
            # It has rows left then, and trains them while the other one is held.
            run.run.command(Command.PAUSE)
            paused.set()
        elif not first and isinstance(message, Poll) and pausing.is_set():
            held.set()
            assert go.wait(LIMIT)

    with bench(Losing(-1, seen=seen), program) as run:
        run.begin((X, Y), 2, range(100_000))
        ended = run.start()
        run.wait(CommandApplied, command=Command.PAUSE)
        pausing.set()
        assert held.wait(LIMIT)
        program.trains.clear()
        run.run.command(Command.UNPAUSE)
        assert program.trains.wait(LIMIT)
        run.run.change_settings(Command.SET, "", learning_rate=0.25)
        pausing.clear()
        go.set()
        # It tells that all workers have trained by the new one.
        run.wait(CommandApplied, command=Command.SET)
        run.run.command(Command.STOP)
        ended()


def test_a_step_that_is_made_while_a_worker_asks_counts_once() -> None:
    pushed, asked = threading.Event(), threading.Event()

    def seen(message: Any) -> None:
        first = threading.current_thread().name == "check-worker-0"
        if isinstance(message, Push) and not first:
            assert asked.wait(LIMIT)
        elif isinstance(message, Push):
            pushed.set()
        elif isinstance(message, Poll) and first and pushed.is_set() and not asked.is_set():
            asked.set()
            run.wait(MilestoneCommitted, partition=1)

    with bench(Losing(-1, seen=seen)) as run:
        run.begin((X[:4], Y[:4]), 2, range(1))
        run.start()()
        assert run.rows_told() == 4


class Cuts:
    """All-reduce in which partition 1 cuts its links in each milestone, and never says so first."""

    def __init__(self, algorithm: str) -> None:
        self._strategy = AllReduce(algorithm=algorithm)
        self._answered = threading.Semaphore(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def exchange(self, connection: Any, layout: Any, context: Any) -> Any:
        cuts = bool(context.join.partition)
        made = self._strategy.exchange(_InTurn(connection, self._answered, cuts), layout, context)
        if not cuts:
            return made
        train = made.train

        def cut(*arguments: Any) -> Any:
            made._peers.cut()
            return train(*arguments)

        made.train = cut  # type: ignore[method-assign]
        return made


class _InTurn:
    """A connection of a worker that is ready again before the other one, or after it."""

    def __init__(self, connection: Any, answered: threading.Semaphore, last: bool) -> None:
        self._connection, self._answered, self._last = connection, answered, last

    def request(self, message: Any, *rest: Any) -> Any:
        ready = isinstance(message, Ready)
        if ready and self._last:
            assert self._answered.acquire(timeout=LIMIT)
        answer = self._connection.request(message, *rest)
        if ready and not self._last and isinstance(answer[0], Proceed):
            self._answered.release()
        return answer

    def abort(self) -> None:
        self._connection.abort()


def test_who_is_cut_off_by_another_one_is_not_the_one_to_blame() -> None:
    with bench(Cuts("ring")) as run:
        run.run.state.timeouts = Timeouts(long_poll=0.02)
        run.begin((X, Y), 2, range(1))
        with pytest.raises(AssertionError, match="the run failed with ConnectError"):
            run.work()
        assert "partition 0 on here" in str(run.run.error)
        assert "partition 1 on here" in str(run.run.error)
        assert not [e for e in run.events if isinstance(e, WorkerLost) and "ended" in e.reason]
