"""Keras' own callbacks, over real training."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, classifier, counter
from tests.support.watching import Watch
from tos_notebook.errors import CallbackError, ConfigError
from tos_notebook.events import CallbackFailed, CommandApplied

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def test_keras_callbacks_see_each_epoch_its_validation_and_its_weights(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    import keras

    x, y, x_test, y_test = digits
    epochs, batches, seen = [], [], []

    def end(epoch: int, logs: dict[str, float]) -> None:
        epochs.append((epoch, dict(logs)))
        seen.append(model.evaluate(x_test, y_test, verbose=0, return_dict=True)["loss"])

    model = classifier()
    callbacks = keras.callbacks
    given = [
        callbacks.CSVLogger(tmp_path / "log.csv"),
        callbacks.ModelCheckpoint(tmp_path / "best-{epoch}.keras"),
        callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else 0.4),
        callbacks.LambdaCallback(
            on_epoch_end=end, on_train_batch_end=lambda batch, logs: batches.append(batch)
        ),
    ]
    session = train(model, batch_size=50, sync_interval=4)
    run = session.run((x, y), epochs=3, validation_data=(x_test, y_test), callbacks=given)
    assert [epoch for epoch, _ in epochs] == [0, 1, 2]
    for (_, logs), loss in zip(epochs, seen, strict=True):
        assert {"loss", "accuracy", "val_loss", "val_accuracy", "learning_rate"} <= logs.keys()
        # What was validated is what the callback finds in the model.
        assert logs["val_loss"] == pytest.approx(loss, rel=1e-5)
    first = run.history[run.history["epoch"] == 1]
    assert epochs[0][1]["loss"] == pytest.approx(
        np.average(first["loss"], weights=first["samples"])
    )
    assert len(batches) == len(run.history)
    assert run.validation["loss"].tolist() == [logs["val_loss"] for _, logs in epochs]
    # The run may be over before any worker trains at the last one.
    assert [logs["learning_rate"] for _, logs in epochs] == pytest.approx([0.4, 0.2, 0.1])
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [float(row["val_loss"]) for row in rows] == pytest.approx(run.validation["loss"])
    saved = keras.models.load_model(tmp_path / "best-3.keras")
    assert saved.evaluate(x_test, y_test, verbose=0)[0] == pytest.approx(seen[-1], rel=1e-5)
    assert run.status.notes == ()


def test_early_stopping_ends_the_run_with_the_best_weights(train: Train, digits: Digits) -> None:
    import keras

    x, y, x_test, y_test = digits
    losses: list[float] = []
    stop = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=0, min_delta=10.0, restore_best_weights=True
    )
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: losses.append(logs["val_loss"])
    )
    session = train(captured_classifier(), batch_size=32, sync_interval=5)
    # No epoch is better by 10: the first one counts.
    run = session.start(
        (x, y), epochs=10_000, validation_data=(x_test, y_test), callbacks=[note, stop]
    ).wait(120)
    assert run.state == "stopped"
    assert len(losses) == 2
    # Also what the run itself has.
    assert run.evaluate(x_test, y_test)["loss"] == pytest.approx(losses[0], rel=1e-5)


def test_a_learning_rate_that_a_callback_sets_reaches_the_workers(
    train: Train, digits: Digits, watch: Watch
) -> None:
    import keras

    x, y, *_ = digits
    reduce = keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=10.0)
    session = train(classifier(0.4), batch_size=50, sync_interval=2)
    run = session.start((x, y), epochs=10_000, callbacks=[reduce], sinks=[watch])
    watch.until(CommandApplied, where=lambda event: "learning_rate=0.2" in event.detail)
    run.stop()
    assert run.settings.learning_rate <= 0.2


def test_a_callback_that_raises_does_what_was_chosen(
    train: Train, digits: Digits, watch: Watch
) -> None:
    import keras

    def fail(epoch: int, logs: Any) -> None:
        raise ValueError("no such file")

    x, y, *_ = digits
    bad = keras.callbacks.LambdaCallback(on_epoch_end=fail)
    session = train(captured_classifier(), batch_size=50)
    run = session.run((x, y), epochs=2, callbacks=[bad], sinks=[watch])
    assert run.state == "finished"
    assert "LambdaCallback.on_epoch_end raised ValueError: no such file" in run.status.notes[0]
    assert len(watch.of(CallbackFailed)) == 1
    run = session.start((x, y), epochs=10_000, callbacks=[bad], on_callback_error="raise")
    with pytest.raises(CallbackError, match="ValueError: no such file"):
        run.wait(120)
    assert run.state == "failed"


def test_what_is_no_callback_for_a_run_is_refused_before_it_starts(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    import keras

    x, y, *_ = digits
    session = train(captured_classifier())
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(ConfigError, match=r"checkpoint_every=.*tos\.resume\(run\.uri\)"):
        session.start((x, y), callbacks=[backup])
    with pytest.raises(ConfigError, match="expected Keras callbacks"):
        session.start((x, y), callbacks=[print])
    stop = keras.callbacks.EarlyStopping()
    with pytest.raises(ConfigError, match="expected one of raise, skip; got 'ignore'"):
        session.start((x, y), callbacks=[stop], on_callback_error="ignore")
    with pytest.raises(ConfigError, match=r"Use sinks=\[...\]"):
        train(counter()).start((x[:, 0].astype(np.float64),), callbacks=[stop])


def test_a_callback_that_follows_what_never_comes_is_refused_before_the_run(
    train: Train, digits: Digits
) -> None:
    import keras

    x, y, x_test, y_test = digits
    session = train(captured_classifier())
    given = {"validation_data": (x_test, y_test)}
    stop = keras.callbacks.EarlyStopping("val_acc")
    message = (
        r"callbacks: EarlyStopping\(monitor='val_acc'\): expected one of loss, accuracy, "
        r"learning_rate, val_loss, val_accuracy; got 'val_acc'. Did you mean val_accuracy\?"
    )
    with pytest.raises(ConfigError, match=message):
        session.start((x, y), callbacks=[stop], **given)
    with pytest.raises(
        ConfigError, match=r"monitor='val_loss'\): expected validation data to follow"
    ):
        session.start((x, y), callbacks=[keras.callbacks.EarlyStopping()])


def test_a_callback_may_follow_what_another_one_adds(train: Train, digits: Digits) -> None:
    import keras

    class Adding(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            logs["own"] = 1.0

    x, y, *_ = digits
    stop = keras.callbacks.EarlyStopping("own", mode="max", patience=0, start_from_epoch=0)
    run = train(captured_classifier(), batch_size=100).run(
        (x, y), epochs=20, callbacks=[Adding(), stop]
    )
    assert run.state == "stopped"
