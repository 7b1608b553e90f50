"""A trained model, in every format, and read back from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import classifier, counter
from tos_notebook.errors import ConfigError, UnsupportedProgram

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def test_a_keras_model_is_the_same_in_every_format(
    train: Train, digits: Digits, tmp_path: Path
) -> None:
    import keras
    import tensorflow as tf

    x, y, x_test, y_test = digits
    model = classifier()
    run = train(model, batch_size=50).run((x, y), epochs=2, validation_data=(x_test, y_test))
    assert run.model is model
    expected = model.predict(x_test, verbose=0)

    path = run.save(tmp_path / "model.keras")
    assert path == str(tmp_path / "model.keras")
    found = keras.models.load_model(path).predict(x_test, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)

    uri = run.save(f"file://{tmp_path}/served", "savedmodel")
    # Once more, so that one of the same name is replaced.
    assert run.save(f"file://{tmp_path}/served", "savedmodel") == uri
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(x_test), expected, rtol=1e-5)

    run.save(tmp_path / "ckpt", "checkpoint")
    other = classifier()
    tf.train.Checkpoint(model=other).restore(str(tmp_path / "ckpt" / "checkpoint"))
    np.testing.assert_allclose(other.predict(x_test, verbose=0), expected, rtol=1e-5)

    with np.load(run.save(tmp_path / "weights.npz")) as arrays:
        for name, value in run.parameters().items():
            np.testing.assert_array_equal(arrays[name], value)

    card = Path(run.model_card(tmp_path / "card.md")).read_text(encoding="utf-8")
    names = list(run.parameters())
    for text in (run.run_id, "1,437 rows", f"| {names[0]} |", "DynSGD", "validation accuracy"):
        assert text in card
    assert f"| 2 | {_epoch_loss(run, 2):.4g} |" in card
    assert {p.name for p in tmp_path.iterdir() if not p.name.endswith(".crc")} == {
        "model.keras", "served", "ckpt", "weights.npz", "card.md",
    }  # fmt: skip


def _epoch_loss(run: tos.Run, epoch: int) -> float:
    rows = run.history[run.history["epoch"] == epoch]
    return float(np.average(rows["loss"], weights=rows["samples"]))


def test_a_graph_has_a_session_instead_of_a_model(train: Train, tmp_path: Path) -> None:
    import tensorflow as tf

    run = train(counter(), combiner="downpour", batch_size=5).run((np.arange(10.0),), epochs=1)
    with pytest.raises(UnsupportedProgram, match="a graph's are in its session"):
        _ = run.model
    with pytest.raises(ConfigError, match="can be written in, checkpoint, numpy"):
        run.save(tmp_path / "model.keras")
    run.save(tmp_path / "ckpt", "checkpoint")
    reader: Any = tf.train.load_checkpoint(str(tmp_path / "ckpt" / "checkpoint"))
    assert reader.get_tensor("total").tolist() == [45.0, 10.0]
