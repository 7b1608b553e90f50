"""Saved models predict what the model in memory predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tos_notebook.errors import CaptureError


def test_a_keras_file_predicts(tmp_path: Path, branching: Any, rows: Any) -> None:
    branching.save(tmp_path / "model.keras")
    model = tos.load_model(tmp_path / "model.keras")
    assert [feed.name for feed in model.inputs] == ["left", "right"]
    numbers = np.arange(len(rows))
    grid, _ = model.predict((rows, numbers))
    expected = branching.predict([rows, numbers], verbose=0)["grid"]
    np.testing.assert_allclose(grid, expected, rtol=1e-4, atol=1e-6)


def test_a_saved_model_predicts_by_the_signature_it_was_written_with(
    spark: Any, tmp_path: Path, classifier: Any, rows: Any
) -> None:
    classifier.export(str(tmp_path / "model"), verbose=False)
    model = tos.load_model(f"file://{tmp_path}/model/")
    (output,) = model.outputs
    assert (output.dtype, output.shape) == ("float32", (3,))
    frame = spark.createDataFrame([(row.tolist(),) for row in rows], "x array<float>")
    found = [row.prediction for row in model.predict(frame, "x").collect()]
    np.testing.assert_allclose(found, classifier.predict(rows, verbose=0), rtol=1e-5)


def test_one_of_several_signatures_can_be_chosen(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    spec = [tf.TensorSpec([None], tf.float32, "x")]
    module.twice = tf.function(lambda x: {"y": 2 * x}, input_signature=spec)
    module.half = tf.function(lambda x: {"y": x / 2}, input_signature=spec)
    signatures = {"twice": module.twice, "half": module.half}
    tf.saved_model.save(module, str(tmp_path), signatures=signatures)
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(tos.load_model(tmp_path, signature="half").predict(x), x / 2)
    with pytest.raises(CaptureError, match=r"no signature 'serving_default'. It has .*half"):
        tos.load_model(tmp_path)
    with pytest.raises(CaptureError, match=r"no signature 'serving_default'. It has .*half"):
        tos.load_model(tmp_path, signature="")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    import keras

    (tmp_path / "broken.keras").write_text("no model")
    with pytest.raises(CaptureError, match="signature: for a SavedModel only"):
        tos.load_model(tmp_path / "broken.keras", signature="half")
    with pytest.raises(CaptureError, match=r"broken\.keras cannot be read"):
        tos.load_model(tmp_path / "broken.keras")
    with pytest.raises(CaptureError, match="Expected a model at"):
        tos.load_model(tmp_path / "nothing")
    with pytest.raises(CaptureError, match=r"a folder with saved_model\.pb"):
        tos.load_model(tmp_path)
    with pytest.raises(CaptureError, match="Keras model with weights"):
        tos.load_model(keras.Sequential([keras.layers.Dense(1)]))
