"""Steps of the user's own, as Keras' guides write them, with labels and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.support.guided import Guided
from tests.unit.program.support import Lone, Trainers, assert_same
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.program.capture import capture
from tos_notebook.program.export.base import Program

BATCH, ROWS = 4, 16
random = np.random.default_rng(0)
X = random.normal(size=(ROWS, 5)).astype(np.float32)
Y = random.normal(size=(ROWS, 1)).astype(np.float32)


@pytest.fixture(autouse=True)
def _seed() -> None:
    keras.utils.set_random_seed(0)


def test_the_steps_of_keras_guide_report_each_compiled_metric() -> None:
    inputs = keras.Input((5,))
    model = Guided(inputs, layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"])
    program = capture(model)
    lone = Lone(program, X, Y)
    found = lone.train(BATCH).values
    expected = model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True)
    assert program.evaluate((X, Y), BATCH) == pytest.approx(expected, rel=1e-5)
    history = model.fit(X, Y, batch_size=BATCH, shuffle=False, verbose=0).history
    assert found == pytest.approx({name: value for name, (value,) in history.items()}, rel=1e-4)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


class Reconstructs(keras.Model):
    """An autoencoder whose own step takes inputs alone, bare as ``fit(x)`` gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
        self.decoder = keras.Sequential([keras.Input((2,)), layers.Dense(5)])
        self.error = keras.metrics.Mean(name="error")

    @property
    def metrics(self) -> list[Any]:
        return [self.error]

    def train_step(self, x: Any) -> dict[str, Any]:
        assert isinstance(x, tf.Tensor)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.decoder(self.encoder(x)) - x) ** 2)
        weights = self.trainable_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        self.error.update_state(loss)
        return {"loss": self.error.result()}


class AddsLoss(keras.Model):
    """An autoencoder that adds its loss where it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.out = layers.Dense(2), layers.Dense(5)

    def call(self, x: Any) -> Any:
        made = self.out(self.code(x))
        self.add_loss(keras.ops.mean((made - x) ** 2))
        return made


def compiled(model: Any, *args: Any) -> Any:
    model.compile(keras.optimizers.SGD(0.1), *args)
    return model


def unlabelled(model: Any) -> Program:
    program = capture(model)
    program.with_labels(False)
    return program


@pytest.mark.parametrize("kind", [Reconstructs, AddsLoss])
def test_inputs_alone_train_as_in_fit(kind: Any) -> None:
    model = kind()
    if kind is AddsLoss:
        model(X[:1])
    program = unlabelled(compiled(model))
    assert [feed.name for feed in program.feeds] == ["x"]
    assert set(program.record) == {"inputs"}
    lone = Lone(program, X)
    loss = lone.train(BATCH).values["loss"]
    history = model.fit(X, batch_size=BATCH, shuffle=False, verbose=0).history
    assert loss == pytest.approx(history["loss"][0], rel=1e-4)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


def test_whether_there_are_labels_holds_for_gradients_too() -> None:
    program = capture(compiled(Reconstructs()))
    twin = program.for_gradients()
    program.with_labels(False)
    assert [feed.name for feed in twin.feeds] == ["x"]
    assert Trainers(twin, X).step([(X[:8],), (X[8:],)])["loss"] > 0
    program.with_labels(True)
    assert [feed.name for feed in twin.feeds] == ["x", "y"]


@pytest.mark.parametrize("labels", [None, 1])
def test_a_loss_that_compares_keeps_its_labels(labels: int | None) -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(5)])
    program = capture(compiled(model, "mse"), labels=labels)
    program.with_labels(False)
    assert [feed.name for feed in program.feeds] == ["x", "y"]


def test_a_model_that_is_never_called_says_so_before_it_predicts_or_measures(
    tmp_path: Path,
) -> None:
    program = unlabelled(compiled(Reconstructs()))
    with pytest.raises(UnsupportedProgram, match="has no call and no test_step"):
        program.require_measuring()
    with pytest.raises(UnsupportedProgram, match="has no call and no test_step"):
        program.evaluate(X, BATCH)
    with pytest.raises(UnsupportedProgram, match=r"has no call .* tos.load_model\(part\)"):
        program.serve([], tmp_path / "model.zip")


class NeedsSizes(Reconstructs):
    """Keras cannot write down what its ``__init__`` takes."""

    def __init__(self, parts: Any) -> None:
        super().__init__()
        self.parts = parts


def test_a_model_that_does_not_say_how_it_is_made_is_not_written(tmp_path: Path) -> None:
    program = capture(compiled(NeedsSizes(object())))
    with pytest.raises(UnsupportedProgram, match="get_config if its __init__ takes"):
        program.save("keras", tmp_path / "model.keras")


def test_an_output_without_a_loss_needs_no_label() -> None:
    inputs = keras.Input((5,), name="x")
    outputs = {name: layers.Dense(1, name=name)(inputs) for name in ("b", "a")}
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), {"a": "mse"})
    program = capture(model)
    assert [feed.name for feed in program.feeds] == ["x", "a"]
    lone = Lone(program, X, Y)
    lone.train(BATCH)
    model.fit(X, {"a": Y}, batch_size=BATCH, shuffle=False, verbose=0)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)
