"""Models with classes of the user's own, unknown to Keras, are made again from where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from tos_notebook.errors import CaptureError
from tos_notebook.program.export.saving import keras_file
from tos_notebook.program.keras.own_objects import own_objects
from tos_notebook.program.keras.serving import read_compiled


class Scaled(layers.Layer):
    """Takes none of what Keras saves of every layer."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.inner = factor, layers.Dense(4, activation=squared)

    def call(self, x: Any) -> Any:
        return self.factor * self.inner(x)


class Weighted(keras.losses.Loss):
    """Does not say with which weight it is made."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def call(self, y: Any, predicted: Any) -> Any:
        return self.weight * ops.mean((y - predicted) ** 2, -1)


class Largest(keras.metrics.Metric):
    """Takes a name and no dtype."""

    def __init__(self, name: str = "largest") -> None:
        super().__init__(name=name)
        self.value = self.add_variable((), "zeros", name="value")

    def update_state(self, y: Any, predicted: Any, sample_weight: Any = None) -> None:
        self.value.assign(ops.maximum(self.value, ops.max(predicted)))

    def result(self) -> Any:
        return self.value + 0


def squared(x: Any) -> Any:
    return x**2


def half(y: Any, predicted: Any) -> Any:
    return 0.5 * ops.mean((y - predicted) ** 2, -1)


@pytest.mark.parametrize("loss", [Weighted(3.0), half])
def test_what_is_not_registered_is_made_again(loss: Any, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), Scaled(2.0), layers.Dense(1)])
    model.compile("sgd", loss, metrics=[Largest(), half])
    keras_file(model, tmp_path / "model.keras")
    other = read_compiled(tmp_path / "model.keras", own_objects(model))
    x = np.random.default_rng(0).normal(size=(6, 3))
    assert other.evaluate(x, x[:, :1], verbose=0) == pytest.approx(
        model.evaluate(x, x[:, :1], verbose=0)
    )
    assert not {id(v) for v in other.variables} & {id(v) for v in model.variables}


def test_without_the_model_the_remedy_comes_first(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), Scaled(2.0)])
    model.compile("sgd", "mse")
    keras_file(model, tmp_path / "model.keras")
    with pytest.raises(CaptureError, match="register_keras_serializable") as caught:
        read_compiled(tmp_path / "model.keras")
    assert "Could not locate class 'Scaled'" in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize("place", ["layer", "loss"])
def test_lambdas_are_refused_by_what_to_do(place: str) -> None:
    by_loss = place == "loss"
    between = layers.Dense(3) if by_loss else layers.Lambda(lambda x: 2 * x)
    model = keras.Sequential([keras.Input((3,)), between, layers.Dense(1)])
    model.compile("sgd", (lambda y, p: half(y, p)) if by_loss else "mse")
    with pytest.raises(CaptureError, match="Make it a function with def"):
        own_objects(model)
