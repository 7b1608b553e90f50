"""All-reduce among the workers, when one is lost before it has connected to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tos_notebook.errors import ConnectError, TransportError
from tos_notebook.reduction.mesh import Mesh
from tos_notebook.steering.machine import Command
from tos_notebook.strategies import AllReduce
from tos_notebook.strategies.allreduce import peers
from tos_notebook.testing.bench import Bench, Deadline, Trial
from tos_notebook.testing.programs import SoftmaxRegression
from tos_notebook.wire.messages import Awaiting, Formed

LIMIT = 20.0
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(31, 4)), RANDOM.integers(0, 3, 31)


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers try to connect for longer than a test may take."""
    monkeypatch.setattr(peers, "FORMING", 10 * LIMIT)


class Dialing:
    """All-reduce that calls something when a partition's first worker knows where others are.

    Parameters
    ----------
    partition : int
    call : callable
        Called before that worker connects.
    seen : callable
        Takes what workers ask.
    """

    def __init__(
        self,
        partition: int,
        call: Callable[[], object],
        seen: Callable[[Any], object] = lambda message: None,
    ) -> None:
        self._strategy = AllReduce(algorithm="ring")
        self._partition, self._call, self._seen = partition, call, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def exchange(self, connection: Any, layout: Any, context: Any) -> Any:
        call: Callable[[], object] = lambda: None  # noqa: E731
        if context.join.partition == self._partition:
            call, self._call = self._call, lambda: None
        return self._strategy.exchange(Called(connection, call, self._seen), layout, context)


class Called:
    """A connection that calls something at an answer of `Formed`."""

    def __init__(self, connection: Any, call: Callable[[], object], seen: Any) -> None:
        self._connection, self._call, self._seen = connection, call, seen

    def request(self, message: Any, *rest: Any) -> Any:
        self._seen(message)
        answer = self._connection.request(message, *rest)
        if isinstance(answer[0], Formed):
            self._call()
        return answer


def die() -> None:
    raise TransportError("The test has ended this worker.")


@contextmanager
def bench(strategy: Any) -> Iterator[Bench]:
    with Trial(strategy, Deadline(LIMIT)).bench(SoftmaxRegression()) as made:
        yield made


def trained_by(strategy: Any) -> bytes:
    with bench(strategy) as run:
        run.begin((X, Y), 3, range(2))
        run.work()
        assert run.rows_told() == 2 * len(X)
        return run.run.parameters.read()[0].tobytes()


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_who_dies_before_it_connects_keeps_no_other_waiting_and_changes_no_bit(
    partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Bench._work
    # The bench lets only the worker of the first partition come again.
    monkeypatch.setattr(Bench, "_work", lambda run, p, lose: work(run, p, 10**6))
    undisturbed = trained_by(AllReduce(algorithm="ring"))
    assert trained_by(Dialing(partition, die)) == undisturbed


def test_who_gets_a_large_copy_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    form, seconds = Mesh.form, []

    def timed(mesh: Mesh, timeout: float) -> None:
        seconds.append(timeout)
        form(mesh, timeout)

    monkeypatch.setattr(Mesh, "form", timed)
    monkeypatch.setattr(peers, "FORMING", LIMIT)
    monkeypatch.setattr(peers, "SLOWEST", 1.0)
    with bench(AllReduce(algorithm="ring")) as run:
        run.begin((X, Y), 3, range(1))
        run.work()
        copied = run.program.spec.layout.nbytes
    assert seconds == [LIMIT + copied] * 3


def test_a_stop_ends_workers_that_wait_for_one_to_connect() -> None:
    awaited, go = threading.Event(), threading.Event()

    def seen(message: Any) -> None:
        if isinstance(message, Awaiting):
            awaited.set()

    with bench(Dialing(0, lambda: go.wait(LIMIT), seen)) as run:
        run.begin((X, Y), 3, range(100_000))
        ended = run.start()
        assert awaited.wait(LIMIT)
        run.run.command(Command.STOP)
        hanging = run.run.state.membership.present(0)
        assert hanging is not None
        run.run.state.lost(hanging, "it hangs")
        assert run.run.wait_left(LIMIT)
        go.set()
        ended()


def test_live_workers_that_cannot_reach_each_other_end_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = peers.Address

    def elsewhere(host: str, port: int) -> Any:
        return reached(host, 1)

    monkeypatch.setattr(peers, "Address", elsewhere)
    with bench(AllReduce(algorithm="ring")) as run:
        run.begin((X, Y), 3, range(2))
        with pytest.raises(AssertionError, match="Let executors reach each other"):
            run.work()
        assert isinstance(run.run.error, ConnectError)
