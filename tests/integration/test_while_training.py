"""Validation, schedules, conditions and MLflow, over real training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier, counter
from tests.support.tracked import curve, only_run, store
from tests.support.watching import Watch
from tests.unit.widgets.support import shown
from tos_notebook.cluster.asking import Asking
from tos_notebook.errors import ConfigError, WaitTimeout, WorkerEnvironment
from tos_notebook.events import CommandAccepted, MilestoneCommitted, RunFinished, Stalled
from tos_notebook.training import factory, launching
from tos_notebook.training.observers import build
from tos_notebook.training.observers.schedule import SMALLEST, Scheduler
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.picture import Result

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def test_a_run_of_a_model_that_another_one_trains_says_so(
    train: Train, digits: Digits, watch: Watch
) -> None:
    x, y, *_ = digits
    model = classifier()
    first = train(model).start((x, y), 10_000, partitions=1, name="wide", sinks=[watch])
    watch.until(MilestoneCommitted)
    assert first.status.notes == ()
    second = train(model).run((x, y), partitions=1)
    first.stop()
    (note,) = second.status.notes
    assert note.startswith(f"Run {first.number} (wide) trains the same model at this moment: this")
    assert "make a new model for each" in note
    assert train(model).run((x, y)).status.notes == ()


def test_validation_comes_in_its_rhythm_and_at_the_end(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    import keras

    x, y, x_test, y_test = digits
    ends: list[float] = []
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: ends.append(logs["val_loss"])
    )
    session = train(captured_classifier(), batch_size=20, sync_interval=2)
    options = {"validation_data": (x_test, y_test), "validation_every": "2 milestones"}
    for callbacks in ([], [note]):
        model = RunModel()
        run = session.run((x, y), epochs=2, callbacks=callbacks, sinks=[model], **options)
        found = run.validation
        # How many there are in between is a matter of speed; all that was trained ends it.
        assert found["samples"].iloc[-1] == 2 * len(x) == run.status.samples
        assert found["samples"].is_monotonic_increasing
        assert set(found["epoch"]) <= {1, 2}
        loss = run.evaluate(x_test, y_test)["loss"]
        assert found["loss"].iloc[-1] == pytest.approx(loss, rel=1e-5)
        assert run.status.validation == {n: found[n].iloc[-1] for n in ("loss", "accuracy")}
        assert run.status.validations == len(found)
        (series,) = [s for s in run.figure().data if s.name == "validation"]
        assert len(series.x) == len(found)
        drawn = shown(model).series["loss", "validation"]
        assert (np.diff(drawn[2]) >= 0).all()
        assert drawn[2][-1] == pytest.approx(2.0)
        assert run.model_card(tmp_path / "card.md")
    # What callbacks are told at the ends of epochs is among them.
    assert len(ends) == 2
    assert set(ends) <= set(found["loss"])


def test_executors_with_a_free_slot_validate_rows_where_they_lie(
    train: Train, digits: Digits, spark_context: Any
) -> None:
    x, y, x_test, y_test = digits
    rows = spark_context.parallelize(list(zip(x_test, y_test, strict=True)), 3)
    session = train(captured_classifier(), batch_size=20, sync_interval=2)
    options = {"validation_data": rows, "validation_on": "executors"}
    run = session.run((x, y), epochs=2, partitions=1, validation_every="30s", **options)
    assert not run.status.notes
    here = run.evaluate(x_test, y_test)
    assert run.validation["samples"].iloc[-1] == 2 * len(x)
    for name, value in here.items():
        assert run.validation[name].iloc[-1] == pytest.approx(value, rel=1e-5)
    # With no slot left it is said, and what is due at the end is evaluated when training is over.
    run = session.run((x, y), epochs=1, partitions=2, **options)
    assert any("Training takes all 2 slots" in note for note in run.status.notes)
    assert len(run.validation) == 1


def test_rows_that_executors_validate_are_computed_once_and_dropped_at_the_end(
    train: Train, digits: Digits, spark_context: Any
) -> None:
    import keras

    x, y, x_test, y_test = digits
    computed = spark_context.accumulator(0)

    def seen(row: Any) -> Any:
        computed.add(1)
        return row

    rows = spark_context.parallelize(list(zip(x_test, y_test, strict=True)), 2).map(seen)
    session = train(captured_classifier(), batch_size=100)
    stored = set(spark_context._jsc.getPersistentRDDs())
    # Callbacks wait for the evaluation of each epoch.
    options = {"validation_on": "executors", "callbacks": [keras.callbacks.Callback()]}
    run = session.run((x, y), epochs=2, partitions=1, validation_data=rows, **options)
    assert len(run.validation) == 2
    looks = 1
    assert computed.value == len(x_test) + looks
    assert set(spark_context._jsc.getPersistentRDDs()) == stored


def test_where_to_validate_is_checked_before_anything_is_trained(
    train: Train, digits: Digits
) -> None:
    x, y, x_test, y_test = digits
    session = train(captured_classifier())
    for options, message in (
        ({"validation_data": (x_test, y_test), "validation_on": "executors"}, "got arrays"),
        (
            {"validation_data": (x_test, y_test), "validation_on": "moon"},
            "one of driver, executors",
        ),
        ({"validation_on": "executors"}, "give validation_data=..., too"),
    ):
        with pytest.raises(ConfigError, match=message):
            session.start((x, y), **options)


def test_a_schedule_is_in_force_from_the_first_batch_on(train: Train, digits: Digits) -> None:
    x, y, *_ = digits
    session = train(captured_classifier(), batch_size=50)
    before = session.program.read().copy()
    run = session.run((x, y), learning_rate=lambda step: 0.0)
    assert np.array_equal(before, session.program.read())
    assert run.settings.learning_rate == SMALLEST
    run = session.run((x, y), learning_rate=0.25)
    assert not np.array_equal(before, session.program.read())
    assert run.settings.learning_rate == 0.25
    assert run.status.notes == ()


def test_a_schedule_counts_the_steps_of_all_workers_across_a_resume(
    train: Train,
    digits: Digits,
    watch: Watch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_context: Any,
) -> None:
    import keras

    monkeypatch.setattr(build, "Scheduler", partial(Scheduler, period=0.0))
    x, y, *_ = digits
    decay = keras.optimizers.schedules.PiecewiseConstantDecay([50, 10_000], [0.4, 0.2, 0.1])
    session = train(
        captured_classifier(), batch_size=50, sync_interval=2, checkpoint_dir=str(tmp_path)
    )
    # It trains until the second rate is set, however fast that is.
    run = session.start(
        (x, y), epochs=10_000, learning_rate=decay, checkpoint_every="1h", sinks=[watch]
    )
    watch.wait_for(CommandAccepted)
    run.stop()
    run.wait(120)
    assert run.status.steps == run.history["steps"].sum() > 50
    assert run.settings.learning_rate == 0.2
    changes = [e.changes for e in watch.of(CommandAccepted) if e.changes]
    assert changes == [{"learning_rate": "0.2"}]
    again = tos.resume(
        run.uri, spark=spark_context, program=classifier(), epochs=run.status.epoch + 1,
        learning_rate=lambda step: 0.5 if step >= run.status.steps else 1.0,
    ).wait(120)  # fmt: skip
    assert again.settings.learning_rate == 0.5


def test_a_condition_ends_the_run_and_says_why(train: Train, digits: Digits, watch: Watch) -> None:
    x, y, x_test, y_test = digits
    session = train(captured_classifier(), batch_size=32, sync_interval=4)
    run = session.start(
        (x, y),
        epochs=10_000,
        validation_data=(x_test, y_test),
        validation_every=4,
        stop_when=["val_accuracy > 0.8", tos.conditions.after(hours=1)],
        sinks=[watch, RunModel()],
    ).wait(120)
    assert run.state == "stopped"
    reason = run.status.reason
    assert reason is not None
    assert reason.startswith("validation accuracy 0.")
    assert reason.endswith(" > 0.8")
    assert [e.reason for e in watch.of(RunFinished)] == [reason]
    assert f"Stopped: {reason}" in repr(Result(run))
    # The weights are kept.
    assert run.evaluate(x_test, y_test)["accuracy"] > 0.5


def test_a_run_is_in_mlflow_from_its_settings_to_its_model(
    train: Train, digits: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras
    import mlflow

    client = store(tmp_path, monkeypatch)
    x, y, x_test, y_test = digits
    session = train(captured_classifier(), batch_size=50)
    wanted = tos.MLflow("digits", model="keras")
    run = session.run((x, y), epochs=2, validation_data=(x_test, y_test), mlflow=wanted)
    found = only_run(client, "digits")
    assert found.info.run_id == run.mlflow_run_id
    assert found.info.status == "FINISHED"
    assert found.data.params["batch_size"] == "50"
    assert found.data.metrics["loss"] > 0
    assert curve(client, run.mlflow_run_id, "val_loss") == [
        (row.samples, row.loss) for row in run.validation.itertuples()
    ]
    assert mlflow.active_run() is None
    client.download_artifacts(run.mlflow_run_id, "model", str(tmp_path))
    model = keras.models.load_model(tmp_path / "model" / "model.keras")
    for mine, own in zip(model.get_weights(), run.model.get_weights(), strict=True):
        assert np.array_equal(mine, own)
    assert run.status.notes == ()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"learning_rate": 0.1}, "expected a program with a learning rate"),
        ({"validation_every": 10}, "expected validation data to evaluate every 10"),
        ({"stop_when": "val_loss < 1"}, "expected validation data for 'val_loss < 1'"),
        ({"stop_when": "loss under 1"}, "expected a name, one of"),
        ({"mlflow": 1}, "expected True, the name of an experiment"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    train: Train, options: dict[str, Any], match: str
) -> None:
    session = train(counter())
    with pytest.raises(ConfigError, match=match):
        session.start((np.arange(8.0),), **options)
    rows = np.arange(8.0)
    with pytest.raises(ConfigError, match="or \"2 epochs\"; got 'often'"):
        session.start((rows,), validation_data=(rows,), validation_every="often")


def test_a_start_waits_for_no_executor_that_still_imports_tensorflow(
    train: Train, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found wrong with them ends the run, and the next one looks again."""
    x, y, *_ = digits
    looked, found = threading.Event(), [WorkerEnvironment("Host a: cannot import tensorflow.")]

    def warm_up(sc: Any, server: object) -> None:
        assert looked.wait(60)
        if found:
            raise found.pop()

    monkeypatch.setattr(launching, "is_probed", lambda sc, server: False)
    monkeypatch.setattr(launching, "warm_up", warm_up)
    session = train(captured_classifier())
    run = session.start((x, y), epochs=1)
    assert run.state == "starting"
    looked.set()
    with pytest.raises(WorkerEnvironment, match="cannot import tensorflow"):
        run.wait(60)
    assert run.state == "failed"
    assert session.start((x, y), epochs=1).wait(60).state == "finished"


def test_a_run_whose_slots_another_run_holds_starts_when_that_ends(
    train: Train, digits: Digits, watch: Watch
) -> None:
    """It says so at once, and neither its session nor its start waits for a slot."""
    x, y, *_ = digits
    first = train(captured_classifier()).start((x, y), epochs=100_000)
    first.wait_for(workers=2)
    second = train(captured_classifier(1)).start((x, y), epochs=1, sinks=[watch])
    watch.until(Stalled)
    (stalled,) = watch.of(Stalled)
    assert stalled.message == f"Waiting: run {first.number} holds both slots of {second.master}."
    assert "For room now, stop another run" in stalled.look
    assert second.status.waits_for == (f"{stalled.message} {stalled.look}",)
    assert (first.status.state, second.status.state) == ("running", "queued")
    given_up = train(captured_classifier(2)).start((x, y), epochs=1)
    given_up.stop()
    assert (given_up.state, second.state) == ("stopped", "queued")
    first.stop()
    second.wait(60)
    assert (second.state, second.status.waits_for) == ("finished", ())


def test_data_that_need_no_look_start_while_another_run_holds_the_slots(
    train: Train, digits: Digits, spark_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that do need one are refused, with the run that is in the way."""
    from pyspark.sql import SparkSession

    monkeypatch.setattr(factory, "Asking", partial(Asking, held=0.5))
    x, y, *_ = digits
    rows = [(row, int(label)) for row, label in zip(x[:200].tolist(), y[:200], strict=True)]
    rdd = spark_context.parallelize(rows, 2)
    frame = SparkSession(spark_context).createDataFrame(rdd, "pixels array<float>, digit long")
    columns = tos.columns(frame, "pixels", "digit")
    seen = spark_context.parallelize(rows, 2)
    train(captured_classifier()).run(seen, epochs=1)
    first = train(captured_classifier()).start((x, y), epochs=100_000)
    session = train(captured_classifier(1))
    first.wait_for(workers=2)
    who = rf"a slot of Spark, but run {first.number} holds both slots of local\[2"
    with pytest.raises(WaitTimeout, match=rf"first rows of the data, which needs {who}"):
        session.start(rdd, epochs=1)
    # Another run has looked at these.
    third = train(captured_classifier(2)).start(seen, epochs=1)
    second = session.start(columns, epochs=1, validation_data=columns)
    assert (first.state, second.state) == ("running", "queued")
    first.stop()
    second.wait(60)
    assert (second.status.samples, len(second.validation)) == (200, 1)
    third.wait(60)
    assert third.status.samples == 200
