"""A schedule sets the rate by the global step, seldom, and yields to people."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.settings import SETTINGS
from tests.unit.telemetry.samples import milestone
from tos_notebook.errors import ConfigError, InvalidTransition
from tos_notebook.events import CallbackFailed, Event
from tos_notebook.training.observers import schedule as module
from tos_notebook.training.observers.schedule import Scheduler, checked_rate

LIMIT = 10.0
PROGRAM: Any = SimpleNamespace(has_learning_rate=True)


class FakeRun:
    """Keeps the rates that were set."""

    def __init__(self, rate: float | None) -> None:
        self.settings = replace(SETTINGS, learning_rate=rate)
        self.rates: list[float] = []
        self.over = False

    def set(self, learning_rate: float) -> None:
        if self.over:
            raise InvalidTransition("finished", "set", "it has ended.")
        self.settings = replace(SETTINGS, learning_rate=learning_rate)
        self.rates.append(learning_rate)


class Scheduled:
    """A scheduler of a fake run, at the step where the run begins."""

    def __init__(self, given: Callable[[int], Any], steps: int = 0, period: float = 0.0) -> None:
        first, schedule = checked_rate(given, PROGRAM)
        assert schedule is not None
        self.run, self.events = FakeRun(first), list[Event]()
        context: Any = SimpleNamespace(run=self.run, publish=self.events.append, steps=steps)
        self.scheduler = Scheduler(context, schedule, period)
        self.scheduler.begin()

    def train(self, steps: int) -> None:
        self.tell(milestone(steps=steps))

    def tell(self, event: Event) -> None:
        self.scheduler(event)
        assert self.scheduler._executor.settle(LIMIT)


@pytest.fixture
def scheduled() -> Iterator[Callable[..., Scheduled]]:
    made: list[Scheduled] = []

    def make(given: Callable[[int], Any], **options: Any) -> Scheduled:
        made.append(Scheduled(given, **options))
        return made[-1]

    yield make
    for one in made:
        one.scheduler.finish(last=True)
    assert not [t for t in threading.enumerate() if t.name == "tos-learning-rate"]


Make = Callable[..., Scheduled]


def test_the_rate_follows_the_steps_of_all_workers_together(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 / (10 + step))
    assert one.run.rates == []
    for _ in range(3):
        one.train(10)
    assert one.run.rates == [0.05, 0.03333333, 0.025]


def test_a_step_that_all_workers_make_together_counts_once(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 / (10 + step))
    for partition in range(2):
        one.tell(milestone(partition=partition, steps=30, optimizer_steps=10 * (partition == 0)))
    assert one.run.rates == [0.05]


def test_a_resumed_run_goes_on_at_its_step(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 / (10 + step), steps=90)
    assert one.run.rates == [0.01]


def test_commands_are_few(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 - step / 10_000)
    for _ in range(200):
        one.train(1)
    # By a hundredth of itself at a time.
    assert one.run.rates == [0.99, 0.9801]
    seldom = scheduled(lambda step: 1 - step / 10_000, period=1e9)
    seldom.train(1000)
    seldom.train(1000)
    assert len(seldom.run.rates) == 1


def test_a_schedule_of_keras_may_end_at_nothing(scheduled: Make) -> None:
    import keras

    one = scheduled(keras.optimizers.schedules.CosineDecay(0.1, 100))
    one.train(50)
    one.train(50)
    assert one.run.rates == [0.05, module.SMALLEST]
    assert one.run.settings.learning_rate > 0


def test_whoever_sets_the_rate_takes_over(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 / (1 + step))
    one.train(1)
    one.run.set(learning_rate=0.3)
    one.train(1)
    one.train(1)
    assert one.run.rates == [0.5, 0.3]
    (note,) = one.scheduler.notes
    assert note == (
        "The schedule of the learning rate has ended: you set it to 0.3, which counts from then on."
    )


def test_a_schedule_that_raises_is_told_of_once(
    scheduled: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = scheduled(lambda step: [0.5, 0.25][step])
    for _ in range(3):
        one.train(1)
    (event,) = one.events
    assert isinstance(event, CallbackFailed)
    assert (event.hook, event.message) == ("schedule", "IndexError: list index out of range")
    assert "The rate stays 0.25." in one.scheduler.notes[0]
    assert "IndexError" in caplog.text
    assert one.run.rates == [0.25]


def test_a_run_that_has_ended_is_left_alone(scheduled: Make) -> None:
    one = scheduled(lambda step: 1 / (1 + step))
    one.run.over = True
    one.train(1)
    assert one.scheduler.notes == ()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("fast", "expected a number, a schedule"),
        (int, "expected a number, a schedule"),
        (True, "above 0"),
        (-0.1, "above 0"),
        (lambda step: "fast", "for the global step 0, but .* ValueError"),
        (lambda step: -1.0, "of at least 0 at step 0, got -1.0"),
        (lambda: 1.0, "TypeError"),
    ],
)
def test_what_is_no_learning_rate_is_refused(given: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        checked_rate(given, PROGRAM)


def test_a_number_is_no_schedule() -> None:
    assert checked_rate(0.1, PROGRAM) == (0.1, None)


def test_a_program_without_a_learning_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a program with a learning rate that can be"):
        checked_rate(0.1, SimpleNamespace(has_learning_rate=False))  # type: ignore[arg-type]
