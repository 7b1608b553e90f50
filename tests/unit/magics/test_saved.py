"""Checkpoints, saved runs and their resume, from a cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.magics.conftest import Cells, Engine

LINE = "%tos_train --model program --data x,y"


def test_a_run_is_saved_only_where_that_is_asked_for(cells: Cells, engine: Engine) -> None:
    cells(LINE)
    assert "checkpoint_dir" not in engine.sessions[0].options
    assert "checkpoint_every" not in engine.sessions[0].started


@pytest.mark.parametrize(("text", "every"), [("", "30s"), ("5min", "5min"), ("200", 200)])
def test_where_and_how_often_a_run_is_saved(
    cells: Cells, engine: Engine, text: str, every: str | int
) -> None:
    option = f"--checkpoint-every {text} --max-checkpoints 5" if text else ""
    cells(f"{LINE} --checkpoint-dir hdfs:///runs {option}")
    assert engine.sessions[0].options["checkpoint_dir"] == "hdfs:///runs"
    started = engine.sessions[0].started
    assert (started["checkpoint_every"], started["max_checkpoints"]) == (every, 5 if text else 3)


@pytest.mark.parametrize("option", ["--max-checkpoints 3", "--checkpoint-every 5min"])
def test_how_a_run_is_saved_needs_a_place(cells: Cells, engine: Engine, option: str) -> None:
    """A cell that says how checkpoints are made, and not where, is refused, as `tos.fit` does."""
    text = cells.fails(f"{LINE} {option}")
    assert f"{option.split()[0]}: expected --checkpoint-dir with it" in text
    assert not engine.sessions


class Saved:
    """What the magics asked of saved runs."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = engine
        self.asked: list[Any] = []
        self.found: list[Any] = ["run-1"]
        monkeypatch.setattr("tos_notebook.training.resume.resume", self.resume)
        monkeypatch.setattr("tos_notebook.training.saved.runs", lambda uri, spark: self.found)

    def resume(self, uri: str, spark: Any, **options: Any) -> Any:
        self.asked.append((uri, options))
        return self.engine.begin(SimpleNamespace(), None, 1, {})


@pytest.fixture
def saved(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Saved:
    return Saved(engine, monkeypatch)


def test_a_saved_run_goes_on_in_view_and_under_a_name(cells: Cells, saved: Saved) -> None:
    text = cells("%tos_resume hdfs:///runs/run-7 --data x,y --model program --epochs 9 -o mine")
    assert "continues run-1, from its last checkpoint" in text
    ((uri, options),) = saved.asked
    assert uri == "hdfs:///runs/run-7"
    assert options["epochs"] == 9
    assert options["program"] is cells.space["program"]
    assert options["data"] == (cells.space["x"], cells.space["y"])
    assert saved.engine.shown == [cells.space["mine"]]


def test_a_saved_run_goes_on_with_limits_of_its_own(cells: Cells, saved: Saved) -> None:
    uri = "hdfs:///runs/run-7"
    cells(f"%tos_resume {uri} --stall-timeout 20 --worker-timeout 900")
    cells(f"%tos_resume {uri}")
    given, left_out = [options for _, options in saved.asked]
    assert (given["stall_timeout"], given["worker_timeout"]) == (20.0, 900.0)
    assert not {"stall_timeout", "worker_timeout"} & {*left_out}


def test_a_pause_ends_by_another_word(cells: Cells, saved: Saved) -> None:
    assert "%tos_unpause ends a pause" in cells.fails("%tos_resume --data x")
    assert "unknown option --run" in cells.fails("%tos_resume hdfs:///runs/run-7 --run 1")
    assert not saved.asked


def test_saved_runs_are_listed_and_none_is_said(cells: Cells, saved: Saved) -> None:
    cells("found = %tos_runs hdfs:///runs")
    assert cells.space["found"] == ["run-1"]
    saved.found = []
    assert "hdfs:///runs has no saved run" in cells("%tos_runs hdfs:///runs")
