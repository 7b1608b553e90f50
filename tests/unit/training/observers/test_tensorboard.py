"""Event files hold what the events said, and a slow or failing file system holds nothing up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.settings import SETTINGS
from tests.unit.telemetry.samples import milestone, started
from tos_notebook.events import EpochFinished, Validated
from tos_notebook.telemetry.tensorboard import read_scalars
from tos_notebook.training.observers.base import RunContext
from tos_notebook.training.observers.tensorboard import TensorBoardWriter

LIMIT = 10.0


class Memory:
    """A file of which a test sees what readers would."""

    rolls = False

    def __init__(self) -> None:
        self.pending = b""
        self.shown = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.pending += data

    def flush(self) -> None:
        self.shown, self.pending = self.shown + self.pending, b""

    def close(self) -> None:
        self.flush()
        self.closed = True


class Boarded:
    def __init__(
        self,
        open_stream: Callable[[], Any] | None = None,
        samples: int = 0,
        drawing: tuple[str, bytes] | None = ("graph", b""),
        **options: Any,
    ) -> None:
        self.file = Memory()
        self.run = SimpleNamespace(settings=SETTINGS, program=SimpleNamespace(drawing=drawing))
        unused: Any = None
        context: Any = RunContext(self.run, unused, unused, unused, unused, range(2), samples)  # type: ignore[arg-type]
        stream: Any = open_stream or (lambda: self.file)
        self.board = TensorBoardWriter(context, "/logs", stream, **options)

    def settle(self) -> None:
        assert self.board._executor.settle(LIMIT)

    def curve(self, tag: str) -> list[tuple[int, float]]:
        table = read_scalars([("a.tfevents", self.file.shown)])
        chosen = table[table["tag"] == tag]
        return list(zip(chosen["step"].tolist(), chosen["value"].tolist(), strict=True))


@pytest.fixture
def boarded() -> Iterator[Callable[..., Boarded]]:
    made: list[Boarded] = []

    def make(*arguments: Any, **options: Any) -> Boarded:
        made.append(Boarded(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.board.finish(last=False)
    assert not [t for t in threading.enumerate() if t.name == "tos-tensorboard"]


def test_points_are_means_and_rates_since_the_one_before(
    boarded: Callable[..., Boarded],
) -> None:
    found = boarded(samples=1000)
    board = found.board
    board(started(0.0))
    board(milestone(10.0, loss=1.0, samples=300, metrics={"accuracy": 0.5}))
    board(milestone(10.5, loss=2.0, samples=100, partition=1, executor="2", staleness=5))
    board(milestone(12.0, loss=3.0, samples=400))
    found.run.settings = replace(SETTINGS, learning_rate=0.25)
    board(milestone(12.5, loss=7.0, samples=10))
    board(EpochFinished(13.0, 0, 810))
    board(Validated(13.5, 0, 1810, {"accuracy": 0.75}))
    board.finish(last=True)
    assert found.file.closed
    assert found.curve("training/loss") == [(1800, 2.125), (1810, 7.0)]
    assert found.curve("training/staleness") == [(1800, 1.5), (1810, 1.0)]
    assert found.curve("training/samples_per_second")[0] == (1800, 400.0)
    assert found.curve("training/accuracy")[0] == (1800, 0.5)
    assert found.curve("training/learning_rate")[0] == (1810, 0.25)
    assert found.curve("training/epoch") == [(1810, 1.0)]
    assert found.curve("validation/accuracy") == [(1810, 0.75)]
    assert found.curve("worker 1/loss") == [(1800, 2.0)]
    assert found.curve("executor 2/samples_per_second") == [(1800, 50.0)]


def test_of_steps_made_together_no_staleness_is_written(boarded: Callable[..., Boarded]) -> None:
    found = boarded()
    found.board(started(0.0, lockstep=True))
    found.board(milestone(10.0, loss=1.0, samples=300, staleness=0))
    found.board.finish(last=True)
    tags = set(read_scalars([("a.tfevents", found.file.shown)])["tag"])
    assert {"training/loss", "worker 0/loss"} <= tags
    assert not [tag for tag in tags if "staleness" in tag]


def test_metrics_named_as_other_curves_take_no_curve_s_place(
    boarded: Callable[..., Boarded],
) -> None:
    names = ["staleness", "samples_per_second", "epoch", "learning_rate", "staleness_metric"]
    found = boarded()
    found.board(started(0.0))
    found.run.settings = replace(SETTINGS, learning_rate=0.25)
    metrics = {name: 10.0 + number for number, name in enumerate(names)}
    found.board(milestone(10.0, samples=100, staleness=3, metrics=metrics))
    found.board.finish(last=True)
    assert found.curve("training/staleness") == [(100, 3.0)]
    assert found.curve("training/learning_rate") == [(100, 0.25)]
    assert found.curve("training/staleness_metric") == [(100, 14.0)]
    assert found.curve("training/staleness_metric_metric") == [(100, 10.0)]
    assert found.curve("training/epoch_metric") == [(100, 12.0)]


def test_a_loss_that_is_not_a_number_makes_no_point(boarded: Callable[..., Boarded]) -> None:
    found = boarded()
    found.board(started(0.0))
    found.board(milestone(1.0, loss=float("nan")))
    found.board(EpochFinished(2.0, 0, 100))
    found.board.finish(last=True)
    assert found.curve("training/loss") == []
    assert found.curve("training/epoch") == [(100, 1.0)]


def test_a_slow_file_system_holds_nobody_up(
    boarded: Callable[..., Boarded],
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = threading.Event()
    file = Memory()

    def slow() -> Memory:
        assert gate.wait(LIMIT)
        return file

    found = boarded(slow, bound=3)
    found.board(started(0.0))
    for number in range(50):
        found.board(EpochFinished(float(number), number, 1))
    gate.set()
    found.board.finish(last=True)
    assert "were left out of the event files" in caplog.text
    assert file.closed


def test_a_failing_file_system_is_noted_once(
    boarded: Callable[..., Boarded], caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> Memory:
        raise OSError("disk full")

    found = boarded(refuse)
    found.board(started(0.0))
    found.board(EpochFinished(1.0, 0, 1))
    found.settle()
    assert found.board.notes == ("Event files are no longer written: disk full",)
    assert [record.getMessage() for record in caplog.records] == [*found.board.notes]


@pytest.mark.parametrize(
    ("drawing", "text"),
    [(("keras", b'{"class_name": "Sequential"}'), b"Sequential"), (None, b"batch_size")],
)
def test_the_file_begins_with_settings_and_a_graph_where_there_is_one(
    boarded: Callable[..., Boarded], drawing: Any, text: bytes
) -> None:
    found = boarded(drawing=drawing)
    found.board(started(0.0))
    found.board.finish(last=True)
    assert found.board.notes == ()
    assert text in found.file.shown
