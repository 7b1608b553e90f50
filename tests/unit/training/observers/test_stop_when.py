"""A run is stopped once, for a reason, and a condition that raises holds nothing up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.threads import wait_for_end
from tests.unit.steering.test_conditions import status
from tests.unit.worker.support import until
from tos_notebook.errors import ConfigError, DataError, InvalidTransition, WaitTimeout
from tos_notebook.events import CallbackFailed, Event, Validated, ValidationFailed
from tos_notebook.steering import conditions
from tos_notebook.steering.status import RunStatus
from tos_notebook.training.observers.stop_when import EarlyStop, stopping

LIMIT = 10.0


class FakeRun:
    """A run that stands where a test puts it, and remembers why it was stopped."""

    def __init__(self) -> None:
        self.status = status(validation={}, validations=0)
        self.reasons: list[str] = []
        self.over = False
        self.stopped = threading.Event()

    def stop(self, *, reason: str) -> None:
        self.stopped.set()
        if self.over:
            raise InvalidTransition("finished", "stop", "it has ended.")
        self.reasons.append(reason)


class Watched:
    """A early_stop of a fake run."""

    def __init__(self, *conditions: Callable[[RunStatus], Any], timeout: float = LIMIT) -> None:
        self.run, self.events, self.told = FakeRun(), [], threading.Semaphore(0)
        self.failed: list[Exception] = []
        context = SimpleNamespace(run=self.run, publish=self.publish, fail=self.failed.append)
        self.early_stop = EarlyStop(context, conditions, 0.001, timeout)  # type: ignore[arg-type]

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self.told.release()

    def validate(self, **values: float) -> None:
        number = self.run.status.validations + 1
        self.run.status = replace(self.run.status, validation=values, validations=number)
        self.early_stop(Validated(0.0, 0, 10, values))


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(*conditions: Callable[[RunStatus], Any], **options: float) -> Watched:
        made.append(Watched(*conditions, **options))
        made[-1].early_stop.begin()
        return made[-1]

    yield make
    for watched in made:
        watched.early_stop.finish(last=False)
    assert not [t for t in threading.enumerate() if t.name == "tos-stop-when"]


Watch = Callable[..., Watched]


def test_any_of_several_conditions_stops_the_run_once_with_its_reason(watch: Watch) -> None:
    watched = watch(conditions.loss_below(0.1), conditions.samples(10_000))
    assert watched.run.stopped.wait(LIMIT)
    watched.early_stop.finish(last=False)
    assert watched.run.reasons == ["samples 12,000 >= 10,000"]
    assert watched.early_stop.notes == ()


def test_a_function_gives_a_reason_or_its_name(watch: Watch) -> None:
    def enough(status: RunStatus) -> bool:
        return status.steps == 120

    for condition, reason in (
        (enough, "enough"),
        (lambda status: "I have seen it", "I have seen it"),
    ):
        watched = watch(condition)
        assert watched.run.stopped.wait(LIMIT)
        watched.early_stop.finish(last=False)
        assert watched.run.reasons == [reason]


def test_every_evaluation_is_looked_at_though_they_come_at_once(watch: Watch) -> None:
    gate = threading.Event()
    watched = watch(lambda status: not gate.wait(LIMIT), conditions.no_improvement(patience=2))
    for loss in (0.5, 0.6, 0.7, 0.1):
        watched.validate(loss=loss)
    gate.set()
    assert watched.run.stopped.wait(LIMIT)
    watched.early_stop.finish(last=False)
    assert watched.run.reasons == ["validation loss no better than 0.5 in 2 evaluations"]


def test_time_passes_though_the_run_tells_nothing(watch: Watch) -> None:
    watched = watch(conditions.after(seconds=90.01))
    assert watched.run.stopped.wait(LIMIT)
    assert watched.run.status.elapsed == 90.0


def test_a_condition_that_raises_is_told_of_once_and_the_others_go_on(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(status: RunStatus) -> bool:
        raise KeyError("accuracy")

    watched = watch(
        bad, conditions.validation("acc", above=0.5), conditions.validation("loss", below=0.1)
    )
    assert watched.told.acquire(timeout=LIMIT)
    watched.validate(loss=0.5)
    assert watched.told.acquire(timeout=LIMIT)
    watched.validate(loss=0.05)
    assert watched.run.stopped.wait(LIMIT)
    watched.early_stop.finish(last=False)
    assert watched.run.reasons == ["validation loss 0.05 < 0.1"]
    failed = [
        (e.callback, e.hook, e.message) for e in watched.events if isinstance(e, CallbackFailed)
    ]
    assert failed == [
        ("bad", "stop_when", "KeyError: 'accuracy'"),
        ("val_acc > 0.5", "stop_when", "there is no 'val_acc'; there are val_loss."),
    ]
    assert [note.split(" is no longer")[0] for note in watched.early_stop.notes] == [
        "stop_when: bad",
        "stop_when: val_acc > 0.5",
    ]
    assert "raised" not in caplog.text
    assert "KeyError" in caplog.text


FAILED = ValidationFailed(0.0, 2, "ValueError: no such shape\nmore")


def test_a_run_ends_with_an_error_when_no_condition_can_be_met_any_more(watch: Watch) -> None:
    """Else it would train all its epochs, which are many, for nothing."""
    watched = watch(*conditions.parse("val_loss < 0.1"))
    watched.early_stop(FAILED)
    wait_for_end("tos-stop-when")
    (error,) = watched.failed
    assert isinstance(error, DataError)
    assert str(error).startswith(
        "stop_when: val_loss < 0.1 can never be met, since the validation failed: ValueError: no "
        "such shape. The run ended after epoch 3, and keeps its weights."
    )
    assert str(error).startswith(watched.early_stop.notes[0])


def test_other_conditions_may_still_be_met_after_the_validation_has_failed(watch: Watch) -> None:
    watched = watch(*conditions.parse("val_loss < 0.1 or samples >= 20000"))
    watched.early_stop(FAILED)
    until(lambda: bool(watched.early_stop.notes))
    watched.run.status = replace(watched.run.status, samples=20_000)
    assert watched.run.stopped.wait(LIMIT)
    assert watched.failed == []
    assert watched.run.reasons == ["samples 20,000 >= 20,000"]


def test_a_validation_that_fails_after_the_last_epoch_is_only_noted(watch: Watch) -> None:
    watched = watch(*conditions.parse("val_loss < 0.1"))
    watched.early_stop(replace(FAILED, epoch=watched.run.status.epochs - 1))
    wait_for_end("tos-stop-when")
    assert watched.failed == []
    assert "can never be met" in watched.early_stop.notes[0]


def test_a_run_that_has_ended_by_itself_does_no_harm(watch: Watch) -> None:
    watched = watch(lambda status: True)
    watched.run.over = True
    assert watched.run.stopped.wait(LIMIT)
    watched.early_stop.finish(last=True)


def test_a_condition_that_does_not_return_is_a_named_error(watch: Watch) -> None:
    gate, asked = threading.Event(), threading.Event()

    def slow(status: RunStatus) -> None:
        asked.set()
        gate.wait(LIMIT)

    watched = watch(slow, timeout=0.01)
    assert asked.wait(LIMIT)
    with pytest.raises(WaitTimeout, match="still computes"):
        watched.early_stop.finish(last=False)
    gate.set()
    wait_for_end("tos-stop-when")


def test_the_thread_knows_itself(watch: Watch) -> None:
    found: list[bool] = []
    known = threading.Event()

    def condition(status: RunStatus) -> bool:
        assert known.wait(LIMIT)
        found.append(watched.early_stop.is_current_thread)
        return True

    watched = watch(condition)
    known.set()
    assert watched.run.stopped.wait(LIMIT)
    assert found == [True]
    assert not watched.early_stop.is_current_thread


def test_a_condition_on_a_validation_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected validation data for 'val_loss < 1'"):
        stopping("loss < 1 or val_loss < 1", validated=False)
    stopping("loss < 1 or val_loss < 1", validated=True)
