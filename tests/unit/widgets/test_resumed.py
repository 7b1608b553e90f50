"""What a live view shows of a run that was resumed, and of one that cannot be saved."""

from __future__ import annotations

import numpy as np

from tests.unit.telemetry.samples import milestone, started
from tests.unit.widgets.support import FACTS
from tos_notebook.events import (
    CheckpointFailed,
    CommandAccepted,
    CommandApplied,
    RunResumed,
    StateChanged,
    Validated,
)
from tos_notebook.widgets.marks import Band, bands
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.saved import points_of


def test_a_resumed_run_is_shown_with_its_past_and_said_to_be_resumed() -> None:
    model = RunModel()
    for event in (
        started(time=100.0, epochs=2),
        milestone(time=101.0, samples=100),
        RunResumed(200.0, 7, 4, 3, 1000),
        StateChanged(201.0, "running"),
        milestone(time=202.0, samples=100),
    ):
        model(event)
    state = model.snapshot(202.0, FACTS).state
    assert [entry["text"] for entry in state["log"]] == ["resumed from checkpoint 7"]
    assert (state["run"]["epochs"], state["run"]["partitions"]) == (4, 3)
    assert state["totals"]["samples"] == 200
    # Of the 0.4 s since the first milestone began, not of the start, nor of the time before.
    assert state["totals"]["samples_per_second"] == 250
    # Without the time in which there was no process.
    assert state["run"]["elapsed"] == 3.0


def test_the_time_without_a_process_is_on_no_axis() -> None:
    """Curves, lanes, commands and log count seconds as the run's elapsed time does."""
    model = RunModel()
    for event in (
        started(time=100.0, epochs=2),
        milestone(time=101.0),
        Validated(101.5, 0, 100, {"loss": 0.5}),
        RunResumed(3600.0, 7, 4, 3, 1000),
        milestone(time=3601.0),
        Validated(3602.0, 0, 200, {"loss": 0.4}),
        CommandAccepted(3603.0, "pause", ""),
        CommandApplied(3603.0, "pause", ""),
    ):
        model(event)
    news = model.snapshot(3604.0, FACTS)
    times = {(name, split): points[0].tolist() for name, split, points in points_of(news)}
    assert times["loss", "training"] == [1.0, 2.5]
    assert times["loss", "validation"] == [1.5, 3.5]
    assert np.frombuffer(news.buffers[-1], "<f4").reshape(6, -1)[1].tolist() == [1.0, 2.5]
    assert [entry["time"] for entry in news.state["log"]] == [1.5]
    assert news.state["run"]["elapsed"] == 5.5
    assert list(bands(news.state, news.state["run"]["elapsed"])) == [Band(4.5, 5.5, "pause")]


def test_a_checkpoint_that_could_not_be_written_is_a_warning_in_the_log() -> None:
    model = RunModel()
    model(started(time=0.0))
    model(CheckpointFailed(1.0, "the disk is full"))
    (entry,) = model.snapshot(2.0, FACTS).state["log"]
    assert entry["level"] == "warning"
    assert entry["text"] == "The run has no new checkpoint: the disk is full"
