"""The validator evaluates after epochs, never twice at once, and ends when told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.hostile import TEXTS
from tests.support.threads import wait_for_end
from tests.unit.telemetry.samples import milestone
from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.source import as_rows
from tos_notebook.errors import DataError, ShapeMismatch, WaitTimeout
from tos_notebook.events import EpochFinished, Event, Validated, ValidationFailed
from tos_notebook.readable import LONGEST_NAME, readable
from tos_notebook.steering.trigger import as_trigger
from tos_notebook.training.observers import validation
from tos_notebook.training.observers.validation import Validator

LIMIT = 10.0


class Evaluation:
    """Evaluates when it is allowed to; counts how many do so at once."""

    def __init__(self, every: str | int | None = None, timeout: float = LIMIT) -> None:
        self.events: list[Event] = []
        self.loads = 0
        self.started = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.published = threading.Semaphore(0)
        self.fails: Exception | None = None
        self.more: dict[str, float] = {}
        rhythm = None if every is None else as_trigger("validation_every", every)
        evaluation = validation.Evaluation(self._rows, self._evaluate, self._publish)
        self.validator = Validator(evaluation, rhythm, timeout)

    def _rows(self) -> Any:
        self.loads += 1
        return (np.arange(3),)

    def _evaluate(self, columns: Any) -> dict[str, float]:
        self.started.release()
        assert self.allowed.acquire(timeout=LIMIT)
        if self.fails is not None:
            raise self.fails
        return {"loss": float(columns[0].sum()), **self.more}

    def _publish(self, event: Event) -> None:
        self.events.append(event)
        self.published.release()

    def milestone(self, epoch: int = 0, time: float = 0.0) -> None:
        self.validator(milestone(samples=10, epoch=epoch, time=time))

    def told(self) -> list[tuple[int, int]]:
        return [(e.epoch, e.samples) for e in self.events if isinstance(e, Validated)]

    def epoch(self, number: int) -> None:
        self.validator(milestone(samples=10, epoch=number))
        self.validator(EpochFinished(0.0, number, 10))


@pytest.fixture
def evaluation(request: pytest.FixtureRequest) -> Iterator[Evaluation]:
    made = Evaluation(getattr(request, "param", None))
    yield made
    made.allowed.release(100)
    made.validator.finish(last=False)


def test_each_epoch_is_evaluated_and_the_data_brought_once(evaluation: Evaluation) -> None:
    evaluation.allowed.release(2)
    for number in range(2):
        evaluation.epoch(number)
        assert evaluation.published.acquire(timeout=LIMIT)
    found = [(e.epoch, e.samples, e.values) for e in evaluation.events if isinstance(e, Validated)]
    assert found == [(0, 10, {"loss": 3.0}), (1, 20, {"loss": 3.0})]
    assert evaluation.loads == 1


def test_validation_and_training_have_the_same_names(evaluation: Evaluation) -> None:
    """A worker's message has cleaned those of the training."""
    evaluation.more = dict.fromkeys(TEXTS.values(), 0.5)
    evaluation.allowed.release()
    evaluation.epoch(0)
    assert evaluation.published.acquire(timeout=LIMIT)
    (told,) = [e for e in evaluation.events if isinstance(e, Validated)]
    assert list(told.values) == ["loss", *(readable(name, LONGEST_NAME) for name in TEXTS.values())]


def test_where_epochs_are_faster_the_latest_counts(evaluation: Evaluation) -> None:
    evaluation.epoch(0)
    assert evaluation.started.acquire(timeout=LIMIT)
    for number in (1, 2, 3):
        evaluation.epoch(number)
    evaluation.allowed.release(2)
    evaluation.validator.finish(last=True)
    assert [e.epoch for e in evaluation.events if isinstance(e, Validated)] == [0, 3]
    assert evaluation.validator.left_out == 2


def test_an_evaluation_has_the_epoch_whose_weights_it_read(evaluation: Evaluation) -> None:
    """The rows may come when more epochs are done than when they were asked for."""
    brought, bring = threading.Event(), threading.Event()
    rows = evaluation._rows

    def slow() -> Any:
        brought.set()
        assert bring.wait(LIMIT)
        return rows()

    evaluation.validator._evaluation._rows = slow
    evaluation.allowed.release(3)
    evaluation.epoch(0)
    assert brought.wait(LIMIT)
    evaluation.epoch(1)
    bring.set()
    evaluation.validator.finish(last=True)
    assert evaluation.told() == [(1, 20)]
    assert evaluation.validator.left_out == 1


def test_what_this_package_says_is_logged_in_a_sentence(
    evaluation: Evaluation, caplog: pytest.LogCaptureFixture
) -> None:
    evaluation.fails = DataError("There are no rows.")
    evaluation.allowed.release(1)
    evaluation.epoch(0)
    assert evaluation.published.acquire(timeout=LIMIT)
    (record,) = caplog.records
    assert record.getMessage() == (
        "The validation data could not be evaluated: DataError: There are no rows."
    )
    assert record.exc_info is None


def test_a_run_that_was_stopped_evaluates_no_further(evaluation: Evaluation) -> None:
    evaluation.epoch(0)
    assert evaluation.started.acquire(timeout=LIMIT)
    evaluation.epoch(1)
    evaluation.allowed.release(2)
    evaluation.validator.finish(last=False)
    assert [e.epoch for e in evaluation.events if isinstance(e, Validated)] in ([0], [0, 1])
    assert evaluation.started.acquire(blocking=False) == (len(evaluation.events) == 2)


def test_an_evaluation_that_fails_says_so_once(
    evaluation: Evaluation, caplog: pytest.LogCaptureFixture
) -> None:
    evaluation.fails = ValueError("no such shape")
    evaluation.allowed.release(1)
    evaluation.epoch(0)
    assert evaluation.published.acquire(timeout=LIMIT)
    evaluation.epoch(1)
    evaluation.validator.finish(last=True)
    (event,) = evaluation.events
    assert isinstance(event, ValidationFailed)
    assert event.message == "ValueError: no such shape"
    assert "could not be evaluated" in caplog.text
    (note,) = evaluation.validator.notes
    assert note.endswith("not evaluated again in this run: ValueError: no such shape")


def test_a_failure_is_told_by_the_line_that_says_what_is_wrong(evaluation: Evaluation) -> None:
    evaluation.fails = ValueError(
        "Graph execution error:\n\nDetected at node emb/GatherV2 defined at (most recent call "
        'last):\n  File "/home/ann/notebook.py", line 17, in build\n\n'
        "indices[0,0] = 50 is not in [0, 10)\n\t [[{{node emb/GatherV2}}]] [Op:__inference_3]"
    )
    evaluation.allowed.release(1)
    evaluation.epoch(0)
    assert evaluation.published.acquire(timeout=LIMIT)
    (event,) = evaluation.events
    assert isinstance(event, ValidationFailed)
    assert event.message == "ValueError: indices[0,0] = 50 is not in [0, 10)"
    (note,) = evaluation.validator.notes
    assert note.endswith(event.message)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_that_are_not_finite_are_named_and_end_the_validation(
    value: float, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []
    rows = np.arange(6.0).reshape(3, 2)
    rows[1, 0] = value
    feeds = [FeedSpec("x", "float32", (2,))]
    found = validation.Evaluation(
        lambda: (rows,), lambda columns: {"loss": float(columns[0].sum())}, events.append, 0, feeds
    )
    assert found(0) is None
    (event,) = events
    assert isinstance(event, ValidationFailed)
    assert event.message.startswith(
        f"DataError: Row 1 of the validation data, feed 'x': expected finite numbers, got {value}."
    )
    assert found.failed


def test_a_loss_that_is_not_finite_is_noted_as_long_as_it_is() -> None:
    events: list[Event] = []
    losses = iter([float("nan"), float("nan"), 1.0])
    found = validation.Evaluation(
        lambda: (np.ones(3),), lambda columns: {"loss": next(losses)}, events.append
    )
    found(0)
    found(1)
    (note,) = found.notes
    assert note.startswith("At epoch 1 the validation data gave loss nan. Look at its rows for NaN")
    assert "lower the learning rate" in note
    found(2)
    assert found.notes == ()
    assert [type(event) for event in events] == [Validated] * 3


def test_an_evaluation_that_does_not_end_is_a_named_error() -> None:
    evaluation = Evaluation(timeout=0.01)
    evaluation.epoch(0)
    assert evaluation.started.acquire(timeout=LIMIT)
    with pytest.raises(WaitTimeout, match="did not end within"):
        evaluation.validator.finish(last=True)
    evaluation.allowed.release()
    wait_for_end("tos-validation")


@pytest.mark.parametrize("evaluation", ["3 milestones"], indirect=True)
def test_milestones_may_set_the_rhythm_in_mid_epoch(evaluation: Evaluation) -> None:
    evaluation.allowed.release(9)
    for number in range(1, 8):
        evaluation.milestone(epoch=number // 5)
        if number % 3 == 0:
            assert evaluation.published.acquire(timeout=LIMIT)
    evaluation.validator(EpochFinished(0.0, 1, 70))
    # What is trained after the last one is evaluated at the end.
    evaluation.validator.finish(last=True)
    assert evaluation.told() == [(0, 30), (1, 60), (1, 70)]


@pytest.mark.parametrize("evaluation", ["2 epochs"], indirect=True)
def test_epochs_may_set_the_rhythm(evaluation: Evaluation) -> None:
    evaluation.allowed.release(9)
    for number in range(5):
        evaluation.epoch(number)
        if number % 2:
            assert evaluation.published.acquire(timeout=LIMIT)
    evaluation.validator.finish(last=True)
    assert evaluation.told() == [(1, 20), (3, 40), (4, 50)]


@pytest.mark.parametrize("evaluation", ["30s"], indirect=True)
def test_time_may_set_the_rhythm(evaluation: Evaluation) -> None:
    evaluation.allowed.release(9)
    for time in (100.0, 129.0, 130.0, 131.0, 160.5):
        evaluation.milestone(time=time)
        if time in (130.0, 160.5):
            assert evaluation.published.acquire(timeout=LIMIT)
    evaluation.validator.finish(last=True)
    assert evaluation.told() == [(0, 30), (0, 50)]


@pytest.mark.parametrize("evaluation", [100], indirect=True)
def test_what_callbacks_have_evaluated_is_not_evaluated_again_at_the_end(
    evaluation: Evaluation,
) -> None:
    evaluation.allowed.release(9)
    evaluation.milestone()
    evaluation.validator(Validated(0.0, 0, 10, {"loss": 1.0}))
    evaluation.validator.finish(last=True)
    assert evaluation.told() == []


@pytest.mark.parametrize("evaluation", [2], indirect=True)
def test_where_milestones_are_faster_the_latest_counts(evaluation: Evaluation) -> None:
    for _ in range(2):
        evaluation.milestone()
    assert evaluation.started.acquire(timeout=LIMIT)
    for _ in range(6):
        evaluation.milestone()
    evaluation.allowed.release(9)
    evaluation.validator.finish(last=True)
    assert evaluation.told() == [(0, 20), (0, 80)]


@pytest.mark.parametrize("evaluation", [2], indirect=True)
def test_a_run_that_was_stopped_evaluates_nothing_at_its_end(evaluation: Evaluation) -> None:
    evaluation.allowed.release(9)
    evaluation.milestone()
    evaluation.validator.finish(last=False)
    assert evaluation.told() == []


@pytest.mark.parametrize("data", [lambda: 1, lambda context: 1])
def test_a_function_is_no_validation_data_whatever_it_returns(data: Any) -> None:
    with pytest.raises(DataError, match=r"^validation_data: expected rows, got a function"):
        as_rows(None, data, 1, use="validation_data")


def test_arrays_without_rows_are_not_called_rows_to_train_on() -> None:
    empty = np.zeros((0, 4)), np.zeros(0)
    with pytest.raises(
        DataError, match=r"^validation_data: expected at least one array with .* row, got"
    ):
        as_rows(None, empty, 1, use="validation_data")


def test_an_array_without_its_labels_is_called_validation_data() -> None:
    feeds = [FeedSpec("x", "float32", (4,)), FeedSpec("y", "int64", ())]
    program = SimpleNamespace(feeds=feeds, require_measuring=lambda *columns: None)
    with pytest.raises(ShapeMismatch, match=r"^validation_data: expected records of 2 fields"):
        validation.validation_rows(None, np.zeros((3, 4)), program)
