"""Evaluating a Keras model: what Keras itself finds, here and with what executors are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from tests.unit.program.support import as_sparse
from tos_notebook.blocks.block import describe
from tos_notebook.blocks.sparse import dense
from tos_notebook.common.arrays import Array
from tos_notebook.errors import CaptureError
from tos_notebook.program.capture import capture
from tos_notebook.program.export.base import Program
from tos_notebook.runtime.served import Measure

BATCH = 4
random = np.random.default_rng(0)
X, Y = random.normal(size=(11, 5)), random.integers(0, 3, 11)


def mlp() -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((5,)), layers.Dense(4, "tanh"), layers.Dense(3)])


def compiled(model: Any, *metrics: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy", *metrics])
    return model


def elsewhere(program: Program, columns: Sequence[Array], folder: Path) -> Mapping[str, float]:
    """Evaluate as two executors do, one with a row more than the other."""
    program.pack_measure(describe(tuple(columns)), folder / "measure.zip")
    measure = Measure(folder / "measure.zip")
    parts = [measure([[c[part] for c in columns]], BATCH) for part in (slice(6), slice(6, None))]
    return program.measured([np.add(a, b) for a, b in zip(*parts, strict=True)])  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_finds_what_keras_finds(dtype: str, tmp_path: Path) -> None:
    model = compiled(mlp(), keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2"))
    program, x = capture(model), X.astype(dtype)
    expected = model.evaluate(x, Y, batch_size=BATCH, verbose=0, return_dict=True)
    found = program.evaluate((x, Y), BATCH)
    assert list(found) == ["loss", "accuracy", "top2"]
    assert found == pytest.approx(expected)
    assert elsewhere(program, (x, Y), tmp_path) == pytest.approx(expected)
    # Nothing is left of the rows before.
    assert program.evaluate((x, Y), BATCH) == pytest.approx(expected)
    assert program.evaluate((x[:1], Y[:1])) == pytest.approx(
        model.evaluate(x[:1], Y[:1], verbose=0, return_dict=True)
    )


def test_metrics_of_a_model_that_was_compiled_anew_are_those_it_has_now() -> None:
    model = compiled(mlp())
    program = capture(model)
    assert list(program.evaluate((X, Y), BATCH)) == ["loss", "accuracy"]
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    assert program.evaluate((X, Y), BATCH) == pytest.approx(
        model.evaluate(X, Y, verbose=0, return_dict=True)
    )


class Own(keras.Model):  # type: ignore[misc]
    """Its steps return what no metric averages."""

    def train_step(self, data: Any) -> dict[str, Any]:
        return dict(super().train_step(data))

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        return {
            "mse": keras.ops.mean(
                (self(x, training=False)[:, 0] - keras.ops.cast(y, "float32")) ** 2
            )
        }


def test_what_no_metric_averages_is_averaged_over_rows(tmp_path: Path) -> None:
    inner = mlp()
    model = Own(inner.inputs, inner.outputs)
    program = capture(compiled(model))
    expected = {"mse": ((model.predict(X, verbose=0)[:, 0] - Y) ** 2).mean()}
    assert program.evaluate((X, Y), BATCH) == pytest.approx(expected, rel=1e-5)
    assert elsewhere(program, (X, Y), tmp_path) == pytest.approx(expected, rel=1e-5)


class Mute(Own):
    """Its test_step returns nothing."""

    def test_step(self, data: Any) -> None:
        super().test_step(data)


def test_a_step_that_returns_nothing_is_named() -> None:
    inner = mlp()
    program = capture(compiled(Mute(inner.inputs, inner.outputs)))
    with pytest.raises(CaptureError, match=r"test_step of model .* must return a dict"):
        program.evaluate((X, Y), BATCH)


def test_sparse_rows_are_evaluated_as_their_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = capture(compiled(mlp())), np.where(X > 0, X, 0)
    expected = program.evaluate((x, Y), BATCH)
    fed: list[type] = []

    def spied(column: Any) -> Any:
        fed.append(type(made := dense(column)))
        return made

    monkeypatch.setattr("tos_notebook.blocks.sparse.dense", spied)
    found = program.evaluate((as_sparse(x), Y), BATCH)
    assert set(fed) == {np.ndarray}
    assert found == pytest.approx(expected)
