"""What MLflow hears of a run, and that a run goes on whatever MLflow does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.hostile import TEXTS
from tests.support.settings import SETTINGS, TOGETHER
from tests.support.threads import wait_for_end
from tests.support.tracked import curve, only_run, store
from tests.unit.steering.test_conditions import status
from tests.unit.telemetry.samples import milestone, started
from tos_notebook.errors import ConfigError, WaitTimeout
from tos_notebook.events import EpochFinished, Validated
from tos_notebook.readable import LONGEST_NAME, readable
from tos_notebook.telemetry.mlflow import MLflow, MLflowLog
from tos_notebook.training.observers import mlflow as module
from tos_notebook.training.observers.mlflow import MLflowLogger, tracking

PROGRAM: Any = SimpleNamespace(summary="a program", formats=("keras",))


class FakeRun:
    """A run of which everything is known."""

    def __init__(self) -> None:
        self.run_id, self.master, self.program = "run-1", "local[2]", PROGRAM
        self.name: str | None = None
        self.state, self.status = "running", status()
        self.settings = SETTINGS
        self.own_rate: float | None = None

    def model_card(self, path: Path) -> None:
        path.write_text("# Card")

    def save(self, path: Path, format: str) -> None:
        path.write_text(format)


class Tracked:
    """A tracker of a fake run."""

    def __init__(self, given: Any, samples: int = 0) -> None:
        self.run = FakeRun()
        context: Any = SimpleNamespace(run=self.run, samples=samples, epochs=range(2))
        self.tracker: Any = tracking(given, PROGRAM)(context)

    def train(self) -> None:
        self.tracker(started(100.0, epochs=2))
        for number in range(3):
            event = milestone(101.0 + number, loss=1.0 + number, samples=10, staleness=number)
            self.tracker(event)
        self.tracker(Validated(103.5, 0, 30, {"loss": 0.5}))
        self.tracker(EpochFinished(104.0, 0, 30))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield store(tmp_path, monkeypatch)
    assert not [t for t in threading.enumerate() if t.name == "tos-mlflow"]


def test_settings_curves_and_the_end_are_logged(client: Any) -> None:
    tracked = Tracked(MLflow("digits", "first", {"team": "a"}, "keras"))
    tracked.train()
    tracked.run.state = "stopping"
    tracked.run.status = status(reason="training loss 0.09 < 0.1")
    tracked.tracker.finish(last=False)
    found = only_run(client, "digits")
    assert found.info.run_id == tracked.tracker.run_id
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert found.data.params["sync"] == "asp"
    assert found.data.params["learning_rate"] == "the program's own"
    assert (found.data.params["epochs"], found.data.params["rows"]) == ("2", "1000")
    assert "version.tensorflow" in found.data.params
    tags = {name: found.data.tags.get(name) for name in ("tos.run_id", "team", "tos.reason")}
    assert tags == {"tos.run_id": "run-1", "team": "a", "tos.reason": "training loss 0.09 < 0.1"}
    assert found.data.tags["tos.outcome"] == "stopped"
    # After 2 s, and at the epoch's end.
    assert curve(client, found.info.run_id, "loss") == [(20, 1.5), (30, 3.0)]
    assert curve(client, found.info.run_id, "staleness") == [(20, 0.5), (30, 2.0)]
    assert curve(client, found.info.run_id, "samples_per_second") == [(20, 10.0), (30, 5.0)]
    assert curve(client, found.info.run_id, "epoch") == [(20, 0.0), (30, 1.0)]
    assert curve(client, found.info.run_id, "val_loss") == [(30, 0.5)]
    files = [f.path for f in client.list_artifacts(found.info.run_id)]
    assert files == ["model", "model_card.md"]
    (model,) = client.list_artifacts(found.info.run_id, "model")
    assert model.path == "model/model.keras"
    assert tracked.tracker.notes == ()


def test_a_run_that_failed_is_failed_there(client: Any) -> None:
    tracked = Tracked(True, samples=500)
    tracked.train()
    tracked.run.state = "failed"
    tracked.tracker.finish(last=False)
    found = only_run(client)
    assert (found.info.run_name, found.info.status) == ("run-1", "FAILED")
    # A resumed run goes on where it was.
    assert [step for step, _ in curve(client, found.info.run_id, "loss")] == [520, 530]


def test_a_rate_that_the_program_brings_is_logged_as_a_number(client: Any) -> None:
    tracked = Tracked(True)
    tracked.run.own_rate = 0.01
    tracked.train()
    tracked.tracker.finish(last=False)
    assert only_run(client).data.params["learning_rate"] == "0.01"


def test_the_notebooks_own_run_is_used_and_left_open(client: Any) -> None:
    import mlflow

    with mlflow.start_run(run_name="mine") as mine:
        for _ in range(2):
            tracked = Tracked(True)
            tracked.run.settings = replace(SETTINGS, learning_rate=None if _ else 0.1)
            tracked.train()
            tracked.tracker.finish(last=True)
        assert only_run(client).info.status == "RUNNING"
    found = only_run(client)
    assert (found.info.run_id, found.info.status) == (mine.info.run_id, "FINISHED")
    # Parameters of the second training are others, and cannot take the place of the first's.
    assert found.data.params["learning_rate"] == "0.1"
    assert len(curve(client, mine.info.run_id, "loss")) == 4
    (note,) = tracked.tracker.notes
    assert note.startswith("MLflow has not taken the run's parameters: ")


def test_a_server_that_is_down_is_told_of_once(
    client: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    # Only root may listen at the first ports.
    mlflow.set_tracking_uri("http://127.0.0.1:1")
    tracked = Tracked("digits")
    tracked.train()
    tracked.tracker.finish(last=True)
    (note,) = tracked.tracker.notes
    assert note.startswith("MLflow no longer hears of this run: API request to http://127.0.0.1:1/")
    (record,) = (r for r in caplog.records if r.name == module.__name__)
    # Users look for it at their server, not in their code: no traceback.
    assert record.exc_info is None


def test_no_name_of_a_metric_keeps_the_others_from_mlflow(client: Any) -> None:
    names = [*TEXTS.values(), ".", "..", "../up", "/root", "a//b", "mean/loss"]
    tracked = Tracked("digits")
    tracked.train()
    values = {readable(name, LONGEST_NAME): 0.25 for name in names}
    tracked.tracker(milestone(105.0, metrics=values))
    tracked.tracker.finish(last=True)
    assert tracked.tracker.notes == ()
    logged = only_run(client, "digits").data.metrics
    assert sum(value == 0.25 for value in logged.values()) == len(names)
    assert logged["mean/loss"] == 0.25


def test_metrics_whose_names_differ_by_what_mlflow_refuses_have_curves_of_their_own(
    client: Any,
) -> None:
    names = ["a*b", "a?b", "a_b", "m" * 240 + "x" * 20, "m" * 240 + "y" * 20]
    tracked = Tracked("digits")
    tracked.train()
    values = {name: float(number) for number, name in enumerate(names, 10)}
    tracked.tracker(milestone(105.0, metrics=values))
    tracked.tracker.finish(last=True)
    logged = only_run(client, "digits").data.metrics
    assert set(values.values()) <= set(logged.values())


def test_metrics_named_as_other_curves_take_no_curve_s_place(client: Any) -> None:
    tracked = Tracked("digits")
    tracked.train()
    values = {"staleness": 10.0, "epoch": 11.0, "samples_per_second": 12.0, "val_loss": 13.0}
    tracked.tracker(milestone(105.0, metrics=values, staleness=2))
    tracked.tracker.finish(last=True)
    logged = only_run(client, "digits").data.metrics
    assert {name: logged[f"{name}_metric"] for name in values} == values
    assert (logged["staleness"], logged["epoch"], logged["val_loss"]) == (2.0, 1.0, 0.5)


class SlowLog(MLflowLog):
    """Answers when it is allowed to."""

    def __init__(self) -> None:
        super().__init__(None)
        self.gate = threading.Event()
        self.points = 0

    def begin(self, experiment: str | None, run_name: str) -> None:
        self.gate.wait(10)

    def metrics(self, *values: Any) -> None:
        self.points += 1

    def _nothing(self, *values: Any) -> None: ...

    tags = params = artifacts = end = _nothing  # type: ignore[assignment]


@pytest.fixture
def slow() -> Iterator[Callable[..., tuple[MLflowLogger, SlowLog]]]:
    log = SlowLog()

    def make(timeout: float = 10.0) -> tuple[MLflowLogger, SlowLog]:
        context: Any = SimpleNamespace(run=FakeRun(), samples=0, epochs=range(2))
        tracker = MLflowLogger(context, MLflow(), log, timeout)
        tracker(started(0.0))
        return tracker, log

    yield make
    log.gate.set()


def test_a_slow_server_misses_points_and_holds_nobody_up(
    slow: Callable[[], tuple[MLflowLogger, SlowLog]], caplog: pytest.LogCaptureFixture
) -> None:
    tracker, log = slow()
    for number in range(2 * module.BOUND):
        tracker(milestone(10.0 * (1 + number)))
    assert log.points == 0
    log.gate.set()
    tracker.finish(last=True)
    assert 0 < log.points <= module.BOUND
    assert "points were left out" in caplog.text


def test_a_server_that_does_not_answer_is_a_named_error(
    slow: Callable[..., tuple[MLflowLogger, SlowLog]],
) -> None:
    tracker, log = slow(0.01)
    with pytest.raises(WaitTimeout, match="tos-mlflow is still busy"):
        tracker.finish(last=True)
    assert tracker.notes == ("MLflow has not answered within 0.01 s of the run's end.",)
    log.gate.set()
    wait_for_end("tos-mlflow")


def test_what_cannot_be_logged_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="expected True, the name of an experiment"):
        tracking(3, PROGRAM)
    with pytest.raises(ConfigError, match="expected one of keras, numpy; got 'onnx'"):
        tracking(MLflow(model="onnx"), PROGRAM)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install mlflow-skinny"):
        tracking(True, PROGRAM)


def test_of_steps_made_together_no_staleness_and_no_combiner_is_logged(client: Any) -> None:
    tracked = Tracked(True)
    tracked.run.settings = TOGETHER
    tracked.tracker(started(100.0, lockstep=True))
    tracked.tracker(milestone(101.0, staleness=0))
    tracked.tracker.finish(last=True)
    found = only_run(client)
    assert found.data.params["strategy"] == "allreduce"
    assert found.data.params["of"] == "gradients"
    assert not {"combiner", "lockstep"} & set(found.data.params)
    assert "loss" in found.data.metrics
    assert "staleness" not in found.data.metrics
