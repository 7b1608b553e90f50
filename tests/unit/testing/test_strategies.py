"""`check_strategy` passes the strategies that are there, and names what one does wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tos_notebook as tos
from tos_notebook.combiners import Downpour
from tos_notebook.errors import ConfigError, StrategyCheckFailed, WaitTimeout
from tos_notebook.strategies.allreduce.strategy import AllReduce
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.strategies.ps.push import Copied
from tos_notebook.strategies.ps.settings import settings_in
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.strategies.ps.trainer import ServerTrainer
from tos_notebook.testing.bench import Deadline


@pytest.mark.parametrize(
    "strategy",
    [
        *(ParameterServer(), ParameterServer(shards=2), ParameterServer(locking=False)),
        *(AllReduce(), AllReduce(of="parameters")),
    ],
    ids=repr,
)
def test_every_strategy_keeps_every_law(strategy: Any) -> None:
    report = tos.testing.check_strategy(strategy)
    assert {finding.outcome for finding in report.findings} == {"ok"}
    assert "all checks hold" in repr(report)


def test_a_strategy_that_takes_the_optimizers_place_is_not_for_these_checks() -> None:
    with pytest.raises(ConfigError, match="got 'treeaggregate', which takes its place"):
        tos.testing.check_strategy("treeaggregate")


def test_a_strategy_that_needs_a_graph_is_not_for_these_checks() -> None:
    with pytest.raises(ConfigError, match="got 'tensorflow', whose sessions run a graph"):
        tos.testing.check_strategy("tensorflow")


class Half(Downpour):
    """Merges half of each change."""

    def merge(self, center: Any, update: Any, push: Any) -> None:
        super().merge(center, update / 2 if update.dtype.kind == "f" else update, push)


class Forgets(ServerTrainer):
    """Continues from a checkpoint with the parameters that it began with."""

    def restore(self, copied: Copied) -> None:
        pass


class Merges(ParameterServer):
    def trainer(self, setup: TrainerSetup) -> ServerTrainer:
        return ServerTrainer(Center(setup.layout, setup.initial, Half()))


class Begins(ParameterServer):
    def trainer(self, setup: TrainerSetup) -> ServerTrainer:
        combiner = settings_in(setup.settings).combiner
        return Forgets(Center(setup.layout, setup.initial, combiner))


@pytest.mark.parametrize(
    ("strategy", "law"),
    [
        (Merges, "one worker trains as one process does"),
        (Merges, "every batch counts once"),
        (Begins, "a run continues from its checkpoint"),
    ],
)
def test_a_law_that_is_broken_is_named(strategy: Callable[[], Any], law: str) -> None:
    with pytest.raises(StrategyCheckFailed) as caught:
        tos.testing.check_strategy(strategy())
    assert f"FAILED   {law}: expected" in str(caught.value)


def fail(*given: Any, **named: Any) -> Any:
    raise KeyError("momentum")


class Raises(ParameterServer):
    """Raises an error of its own at one place."""

    def __init__(self, side: str, method: str, act: Callable[..., Any] = fail) -> None:
        super().__init__()
        for name, value in (("side", side), ("method", method), ("act", act)):
            object.__setattr__(self, name, value)
        if side == "strategy":
            object.__setattr__(self, method, act)

    def _changed(self, side: str, made: Any) -> Any:
        if self.side == side:  # type: ignore[attr-defined]
            setattr(made, self.method, self.act)  # type: ignore[attr-defined]
        return made

    @property
    def exchange(self) -> Any:
        return lambda *given: self._changed("worker", exchange(*given))

    def trainer(self, setup: TrainerSetup) -> Any:
        trainer = super().trainer(setup)
        serve = trainer.exchange
        trainer.exchange = lambda segment: self._changed("server", serve(segment))  # type: ignore[method-assign]
        return self._changed("driver", trainer)


def failed(strategy: Any, timeout: float = 20.0) -> tuple[str, BaseException]:
    """Return the report of a strategy that fails, and what made the first check fail."""
    with pytest.raises(StrategyCheckFailed) as caught:
        tos.testing.check_strategy(strategy, timeout)
    assert caught.value.__cause__ is not None
    return str(caught.value), caught.value.__cause__


@pytest.mark.parametrize(
    ("side", "method", "who"),
    [
        ("worker", "write", "the worker of partition 0 raised "),
        ("worker", "poll", "the worker of partition 0 raised "),
        ("server", "push", "the server raised "),
        ("server", "poll", "the server raised "),
        ("driver", "snapshot", ""),
    ],
)
def test_what_a_strategy_raises_in_any_thread_is_named_and_chained(
    side: str, method: str, who: str
) -> None:
    report, cause = failed(Raises(side, method))
    assert f": {who}KeyError: 'momentum' (at test_strategies.py:" in report
    assert "skipped" not in report
    chain = [cause, cause.__cause__]
    assert any(isinstance(error, KeyError) for error in chain)


@pytest.fixture
def forever(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Wait until the test is over; no time is left once a thread does so, and none passes before.

    How fast the machine is makes no difference.
    """
    stands, over = threading.Event(), threading.Event()

    def stands_still(*given: Any, **named: Any) -> Any:
        stands.set()
        over.wait(20)
        fail()

    def left(deadline: Deadline) -> float:
        stands.wait(20)
        return 0.0

    monkeypatch.setattr(Deadline, "left", property(left))
    yield stands_still
    over.set()


@pytest.mark.parametrize(
    ("side", "method", "thread"),
    [
        ("worker", "write", "check-worker-0"),
        ("server", "push", "tos-server-inproc-1"),
        ("strategy", "exact_settings", "check-driver"),
    ],
)
def test_a_strategy_that_stands_still_is_found_at_its_line(
    side: str, method: str, thread: str, forever: Callable[..., Any]
) -> None:
    report, cause = failed(Raises(side, method, forever))
    assert isinstance(cause, WaitTimeout)
    assert f"{thread} stands at test_strategies.py:" in report
    assert report.count("within 20 s") == 1


def test_what_follows_a_check_that_stands_still_is_skipped(forever: Callable[..., Any]) -> None:
    report, _ = failed(Raises("worker", "write", forever))
    assert report.count("skipped ") == 7
    assert "the check before stands still" in report


def test_the_timeout_is_a_number_of_seconds() -> None:
    with pytest.raises(ConfigError, match="timeout: expected a finite number above 0, got 0"):
        tos.testing.check_strategy(ParameterServer(), timeout=0)
