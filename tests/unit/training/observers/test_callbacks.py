"""Hooks are called in the order of Keras, hold nothing up, and what they ask for is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.settings import SETTINGS
from tests.support.threads import wait_for_end
from tests.unit.telemetry.samples import milestone
from tos_notebook.errors import CallbackError, ConfigError, InvalidTransition, TosError, WaitTimeout
from tos_notebook.events import CallbackFailed, EpochFinished, Event
from tos_notebook.training.observers.base import RunContext
from tos_notebook.training.observers.callbacks import Callbacks
from tos_notebook.training.observers.validation import Evaluation

LIMIT = 10.0


class Recorder:
    """A callback that keeps its calls; `on` maps a hook to what it does."""

    def __init__(self, **on: Callable[..., object]) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.on = on

    def take(self, hook: str, *values: Any) -> None:
        self.calls.append((hook, *values))
        self.on.get(hook, lambda *values: None)(*values)

    def names(self) -> list[str]:
        return [hook.removeprefix("on_") for hook, *_ in self.calls]


class FakeHooks:
    """What `Hooks` does, without Keras."""

    def __init__(self, *callbacks: Recorder) -> None:
        self.callbacks = list(callbacks)
        self.batchwise = True
        self.stopping = True
        self.learning_rate: float | None = 0.5
        self.params: dict[str, Any] = {}

    def begin(self, callback: Recorder, **params: Any) -> None:
        self.params = params

    def call(self, callback: Recorder, hook: str, *values: Any) -> None:
        callback.take(hook, *values)


class FakeModel:
    """Says how often the center was written, and whether anybody holds it."""

    def __init__(self) -> None:
        self.written = 0
        self.adopted = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        yield

    @contextmanager
    def present(self) -> Iterator[None]:
        self.written += 1
        yield

    @contextmanager
    def adopting(self) -> Iterator[None]:
        yield
        self.adopted += 1


class FakeRun:
    def __init__(self) -> None:
        self.settings = SETTINGS
        self.stops = 0
        self.over = False

    def set(self, learning_rate: float) -> None:
        if self.over:
            raise InvalidTransition("finished", "set", "it has ended.")
        if learning_rate <= 0:
            raise ConfigError(f"learning_rate: expected a number above 0, got {learning_rate}.")
        self.settings = replace(SETTINGS, learning_rate=learning_rate)

    def stop(self, reason: str) -> None:
        self.stops += 1


class Followed:
    """Callbacks of a run of two epochs, which a test tells what happens."""

    def __init__(
        self,
        *callbacks: Recorder,
        rows: Any = None,
        on_error: str = "skip",
        first: int = 0,
        **limits: Any,
    ) -> None:
        self.hooks, self.model, self.run = FakeHooks(*callbacks), FakeModel(), FakeRun()
        self.events: list[Event] = []
        self.failed: list[TosError] = []
        evaluation = None
        if rows is not None:
            evaluation = Evaluation(lambda: (np.arange(3),), rows, self.events.append)
        publish, fail = self.events.append, self.failed.append
        store = SimpleNamespace()
        context: Any = RunContext(  # type: ignore[arg-type]
            self.run, self.model, store, publish, fail, range(first, 2), 0
        )
        given: Any = context, self.hooks, evaluation, on_error
        self.callbacks = Callbacks(*given, **limits)

    def train(self, *epochs: int, milestones: int = 2) -> None:
        for epoch in epochs:
            for number in range(milestones):
                self.milestone(epoch, number)
            self.callbacks(EpochFinished(0.0, epoch, 20))

    def milestone(self, epoch: int, number: int = 0, **changes: Any) -> None:
        self.callbacks(milestone(epoch=epoch, loss=float(number), samples=10, **changes))

    def settle(self) -> None:
        assert self.callbacks._executor.settle(LIMIT)


@pytest.fixture
def follow() -> Iterator[Callable[..., Followed]]:
    made: list[Followed] = []

    def make(*callbacks: Recorder, **options: Any) -> Followed:
        made.append(Followed(*callbacks, **options))
        return made[-1]

    yield make
    for followed in made:
        followed.callbacks.finish(last=False)
    assert not [t for t in threading.enumerate() if t.name == "tos-callbacks"]


Follow = Callable[..., Followed]

EPOCH = ["epoch_begin", *["train_batch_begin", "train_batch_end"] * 2, "epoch_end"]


def test_hooks_come_in_the_order_of_keras_with_running_means(follow: Follow) -> None:
    callback = Recorder()
    followed = follow(callback)
    followed.callbacks.begin()
    followed.train(0, 1)
    followed.callbacks.finish(last=True)
    assert callback.names() == ["train_begin", *EPOCH, *EPOCH, "train_end"]
    assert [c[1:] for c in callback.calls if c[0] == "on_train_batch_end"] == [
        (0, {"loss": 0.0}),
        (1, {"loss": 0.5}),
    ] * 2
    assert [c[1:] for c in callback.calls if c[0] == "on_epoch_end"] == [
        (0, {"loss": 0.5}),
        (1, {"loss": 0.5}),
    ]
    assert callback.calls[-1] == ("on_train_end", {"loss": 0.5})
    assert followed.hooks.params["epochs"] == 2
    assert followed.hooks.params["run"] is followed.run
    assert followed.model.adopted == 1


def test_means_are_over_samples_and_over_the_milestones_that_have_a_metric(follow: Follow) -> None:
    callback = Recorder()
    followed = follow(callback)
    followed.callbacks.begin()
    followed.callbacks(milestone(loss=1.0, samples=30, metrics={"accuracy": 0.25}))
    followed.callbacks(milestone(loss=2.0, samples=10))
    followed.callbacks(EpochFinished(0.0, 0, 40))
    followed.settle()
    assert ("on_epoch_end", 0, {"loss": 1.25, "accuracy": 0.25}) in callback.calls


def test_milestones_of_the_next_epoch_wait_until_it_has_begun(follow: Follow) -> None:
    callback = Recorder()
    followed = follow(callback)
    followed.callbacks.begin()
    followed.milestone(1)
    followed.train(0)
    followed.milestone(1, 1)
    followed.settle()
    assert callback.names() == ["train_begin", *EPOCH, *EPOCH[:-1]]


def test_a_resumed_run_begins_with_its_present_epoch(follow: Follow) -> None:
    callback = Recorder()
    followed = follow(callback, first=1)
    followed.callbacks.begin()
    followed.train(1)
    followed.callbacks.finish(last=True)
    assert callback.calls[1] == ("on_epoch_begin", 1, {})
    assert callback.names() == ["train_begin", *EPOCH, "train_end"]


def test_validation_of_the_same_parameters_is_in_the_logs(follow: Follow) -> None:
    callback = Recorder()
    written: list[int] = []

    def evaluate(columns: Any) -> dict[str, float]:
        written.append(followed.model.written)
        return {"loss": float(columns[0].sum())}

    followed = follow(callback, rows=evaluate)
    followed.callbacks.begin()
    followed.train(0, 1, milestones=0)
    followed.settle()
    found = [call[2]["val_loss"] for call in callback.calls if call[0] == "on_epoch_end"]
    assert found == [3.0, 3.0]
    # Once before the run, then before each evaluation.
    assert written == [2, 3]


def test_a_callback_that_follows_a_validation_that_failed_is_named(follow: Follow) -> None:
    def evaluate(columns: Any) -> dict[str, float]:
        raise ValueError("no such shape")

    early, other = Recorder(), Recorder()
    early.monitor = "val_loss"  # type: ignore[attr-defined]
    followed = follow(early, other, rows=evaluate)
    followed.callbacks.begin()
    followed.train(0, 1, milestones=0)
    followed.settle()
    failed, note = followed.callbacks.notes
    assert failed.endswith("ValueError: no such shape")
    assert note.startswith("Recorder follows 'val_loss', which no longer comes")
    assert followed.failed == []


def test_stop_training_stops_the_run_and_only_its_end_is_told(follow: Follow) -> None:
    def stop(epoch: int, logs: Any) -> None:
        followed.hooks.stopping = True

    callback = Recorder(on_epoch_end=stop)
    followed = follow(callback)
    followed.callbacks.begin()
    assert not followed.run.stops
    followed.train(0, 1)
    followed.settle()
    followed.callbacks.finish(last=False)
    assert followed.run.stops == 1
    assert callback.names() == ["train_begin", *EPOCH, "train_end"]


def test_callbacks_say_whether_they_evaluate(follow: Follow) -> None:
    assert not follow(Recorder()).callbacks.validates
    assert follow(Recorder(), rows=lambda *given: {"loss": 1.0}).callbacks.validates


def test_callbacks_of_a_run_that_has_not_begun_are_not_told_of_its_end(follow: Follow) -> None:
    callback = Recorder()
    follow(callback).callbacks.finish(last=False)
    assert callback.names() == []


def test_a_learning_rate_goes_to_the_run_and_comes_from_it(follow: Follow) -> None:
    seen: list[float | None] = []

    def halve(epoch: int, logs: Any) -> None:
        seen.append(followed.hooks.learning_rate)
        followed.hooks.learning_rate = (followed.hooks.learning_rate or 0) / 2

    followed = follow(Recorder(on_epoch_end=halve))
    followed.callbacks.begin()
    assert followed.run.settings.learning_rate is None
    followed.train(0)
    followed.settle()
    assert followed.run.settings.learning_rate == 0.25
    followed.run.set(learning_rate=2.0)
    followed.train(1)
    followed.settle()
    assert seen == [0.5, 2.0]
    assert followed.run.settings.learning_rate == 1.0


def test_a_schedule_by_milestones_reaches_the_run_until_it_has_ended(follow: Follow) -> None:
    def schedule(batch: int, logs: Any) -> None:
        followed.hooks.learning_rate = 1.0 / (2 + batch)

    callback = Recorder(on_train_batch_end=schedule)
    followed = follow(callback)
    followed.callbacks.begin()
    followed.milestone(0)
    followed.milestone(0)
    followed.settle()
    assert followed.run.settings.learning_rate == pytest.approx(1 / 3)
    followed.run.over = True
    followed.milestone(0)
    followed.settle()
    assert callback.names().count("train_batch_end") == 3
    assert followed.callbacks.notes == ()


def test_a_learning_rate_that_cannot_be_is_noted(follow: Follow) -> None:
    def drop(epoch: int, logs: Any) -> None:
        followed.hooks.learning_rate = 0.0

    followed = follow(Recorder(on_epoch_end=drop))
    followed.callbacks.begin()
    followed.train(0)
    followed.settle()
    assert "expected a number above 0" in followed.callbacks.notes[0]


def raising(*values: Any) -> None:
    raise KeyError("val_loss")


def test_a_callback_that_raises_is_told_of_and_the_others_go_on(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Recorder(on_epoch_end=raising), Recorder()
    followed = follow(bad, good)
    followed.callbacks.begin()
    followed.train(0, 1)
    followed.callbacks.finish(last=True)
    assert bad.names() == ["train_begin", *EPOCH]
    assert good.names() == ["train_begin", *EPOCH, *EPOCH, "train_end"]
    (event,) = followed.events
    assert isinstance(event, CallbackFailed)
    assert (event.callback, event.hook) == ("Recorder", "on_epoch_end")
    assert event.message == "KeyError: 'val_loss'"
    assert "Recorder.on_epoch_end raised KeyError" in followed.callbacks.notes[0]
    assert "raised KeyError" in caplog.text
    assert not followed.failed


def test_a_callback_that_raises_may_end_the_run(follow: Follow) -> None:
    followed = follow(Recorder(on_train_begin=raising), on_error="raise")
    followed.callbacks.begin()
    (error,) = followed.failed
    assert isinstance(error, CallbackError)
    assert isinstance(error.__cause__, KeyError)
    assert str(error).startswith("Recorder.on_train_begin raised KeyError: 'val_loss'.")


def test_slow_callbacks_miss_milestones_but_no_loss(
    follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    callback = Recorder(on_train_begin=lambda logs: gate.wait(LIMIT))
    followed = follow(callback, bound=4, begin_timeout=0.01)
    followed.callbacks.begin()
    followed.train(0, milestones=11)
    gate.set()
    followed.callbacks.finish(last=True)
    batches = [call[1] for call in callback.calls if call[0] == "on_train_batch_end"]
    assert batches == [0, 1, 2, 3]
    assert ("on_epoch_end", 0, {"loss": 5.0}) in callback.calls
    assert "of 7 milestones were left out" in caplog.text
    assert "takes longer than 0.01 s; training begins" in caplog.text


def test_a_callback_that_does_not_return_is_a_named_error(follow: Follow) -> None:
    gate = threading.Event()
    followed = follow(Recorder(on_train_end=lambda logs: gate.wait(LIMIT)), timeout=0.01)
    followed.callbacks.begin()
    with pytest.raises(WaitTimeout, match="tos-callbacks is still busy"):
        followed.callbacks.finish(last=True)
    gate.set()
    wait_for_end("tos-callbacks")


def test_the_thread_knows_itself(follow: Follow) -> None:
    found: list[bool] = []
    followed = follow(
        Recorder(on_train_begin=lambda logs: found.append(followed.callbacks.is_current_thread))
    )
    followed.callbacks.begin()
    assert found == [True]
    assert not followed.callbacks.is_current_thread
