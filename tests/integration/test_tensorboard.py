"""Event files that TensorBoard's own reader takes, written while a run trains."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier
from tests.support.watching import Watch
from tos_notebook.errors import ConfigError
from tos_notebook.events import EpochFinished
from tos_notebook.training.observers.tensorboard import TensorBoardWriter

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def accumulated(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    found.Reload()
    return found


def test_event_files_hold_curves_histograms_settings_and_the_graph(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    import keras
    from tensorboard.util.tensor_util import make_ndarray

    x, y, x_test, y_test = digits
    session = train(captured_classifier(), batch_size=50, sync_interval=4)
    run = session.run(
        (x, y),
        epochs=3,
        validation_data=(x_test, y_test),
        tensorboard=str(tmp_path / "run"),
        callbacks=[keras.callbacks.TensorBoard(tmp_path / "keras", histogram_freq=1)],
    )
    assert run.status.notes == ()
    # Keras' own callback has the curves by epoch, too.
    tags = accumulated(tmp_path / "keras" / "train").Tags()["tensors"]
    assert {"epoch_loss", "epoch_accuracy", "epoch_learning_rate"} <= {*tags}
    curves = tos.read_events(tmp_path / "run")
    assert curves["step"].max() == 3 * len(x)
    last = curves.groupby("tag")["value"].last()
    assert last["validation/accuracy"] == pytest.approx(run.validation["accuracy"].iloc[-1])
    assert last["training/epoch"] == 3
    for tag in ("loss", "accuracy", "staleness", "samples_per_second"):
        assert np.isfinite(last[f"training/{tag}"])
    assert {"worker 0/loss", "worker 1/staleness", "worker 0/samples_per_second"} <= {*last.index}

    found = accumulated(tmp_path / "run")
    name = next(iter(run.parameters()))
    # Left and right edges, and counts: as TensorBoard draws it.
    final = make_ndarray(found.Tensors(f"weights/{name}")[-1].tensor_proto)
    values = run.parameters()[name]
    assert final.shape == (30, 3)
    assert final[:, 2].sum() == values.size
    assert (final[0, 0], final[-1, 1]) == pytest.approx((values.min(), values.max()))
    assert f"updates/{name}" in found.Tags()["tensors"]
    assert "keras" in found.Tags()["tensors"]
    assert found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    heat = run.weights_figure(name).data[0]
    assert heat.z.sum(axis=0) == pytest.approx(np.ones(len(heat.x)))


def test_curves_can_be_read_while_the_run_trains(
    train: Train, digits: Digits, tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = partial(TensorBoardWriter, period=0.0)
    monkeypatch.setattr("tos_notebook.training.observers.tensorboard.TensorBoardWriter", at_once)
    x, y, *_ = digits
    session = train(captured_classifier(), batch_size=50)
    run = session.start((x, y), epochs=10_000, tensorboard=str(tmp_path), sinks=[watch])
    watch.wait_for(EpochFinished, 3)
    run.pause()
    board = run.lifecycle.observers[-1]
    run.parts.bus.flush(10)
    assert board._executor.settle(10)  # type: ignore[attr-defined]
    curves = tos.read_events(tmp_path)
    assert (curves["tag"] == "training/loss").sum() >= 3
    run.stop()


def test_a_file_system_that_refuses_ends_the_event_files_and_not_the_run(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    x, y, *_ = digits
    run = train(captured_classifier(), batch_size=50).run(
        (x, y), epochs=1, tensorboard=str(tmp_path / "file"), histograms=False
    )
    assert run.state == "finished"
    assert "Event files are no longer written" in run.status.notes[0]
    with pytest.raises(ConfigError, match="histograms=True"):
        run.weights_figure()


def test_a_folder_without_event_files_is_a_readable_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no event files"):
        tos.read_events(tmp_path)
