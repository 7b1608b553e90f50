from __future__ import annotations

import json

import numpy as np

from tests.unit.telemetry.samples import milestone, started
from tests.unit.widgets.support import FACTS, FakeRun, mimebundle
from tos_notebook import events
from tos_notebook.widgets import Result, RunModel
from tos_notebook.widgets.saved import POINTS, RUN, saved
from tos_notebook.widgets.series import thinned


def trained(milestones: int = 2000) -> RunModel:
    model = RunModel()
    model(started(0.0))
    for n in range(milestones):
        model(
            milestone(n / 10 + 0.1, partition=n % 2, loss=float("nan") if n == 7 else 2 / (n + 1))
        )
    model(events.Validated(milestones / 10, 0, 2000, {"loss": 0.25}))
    model(events.RunFinished(milestones / 10 + 0.1, "finished"))
    return model


def test_a_notebook_holds_the_curves_of_a_run_in_few_points() -> None:
    """A page draws its charts of these when the notebook is opened without a kernel."""
    news = trained().snapshot(300.0, FACTS)
    text = json.dumps(saved(news), allow_nan=False)
    held = json.loads(text)
    assert (held["run"], held["number"]) == (news.state["run"]["id"], 1)
    curves = {
        (s["name"], s["split"]): np.array(
            [[float(value or "nan") for value in row.split(",")] for row in s["points"]]
        )
        for s in held["saved"]["series"]
    }
    loss = curves["loss", "training"]
    assert loss.shape[0] == 4
    assert 200 < loss.shape[1] <= POINTS
    assert loss[0, -1] == 200.0
    assert curves["loss", "validation"].tolist() == [[200.0], [2000.0], [2.0], [0.25]]
    assert len(text) < 20_000
    assert "actions" not in held["saved"]["run"]


def test_only_runs_that_front_ends_know_by_name_are_named() -> None:
    model = trained(3)
    assert RUN not in mimebundle(Result(FakeRun(model)))  # type: ignore[arg-type]
    model.announced = True
    assert mimebundle(Result(FakeRun(model)))[RUN]["run"]  # type: ignore[arg-type]


def test_fewer_points_are_means_of_neighbors_and_the_last_one() -> None:
    rows = np.vstack([np.arange(10.0)] * 4)
    rows[3, 1] = np.nan
    few = thinned(rows, 4)
    assert few[0].tolist() == [1.5, 5.5, 9.0]
    # What is not finite does not count.
    assert few[3].tolist() == [5 / 3, 5.5, 9.0]
    assert thinned(rows, 10) is rows
