"""Python and NumPy on tensors are refused in the driver, with the place and what to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.errors import CaptureError, UnsupportedProgram
from tos_notebook.program.capture import capture

COLUMNS = [("float32", (2,)), ("float32", (1,))]
SPECS = [ColumnSpec("float32", (2,)), ColumnSpec("float32", (1,))]


def model(kind: Any = keras.Sequential, loss: Any = "mse", **options: Any) -> Any:
    made = kind([keras.Input((2,)), layers.Dense(1)], name="small")
    made.compile("sgd", loss, **options)
    return made


def as_float(y: Any, found: Any) -> Any:
    return float(tf.reduce_mean(y - found))


def as_numpy(y: Any, found: Any) -> Any:
    return tf.reduce_mean(y - found).numpy()


def as_bool(y: Any, found: Any) -> Any:
    return y if tf.reduce_mean(y - found) > 0 else found


def by_numpy(y: Any, found: Any) -> Any:
    return np.log(y - found)


def by_math(y: Any, found: Any) -> Any:
    return math.log(tf.reduce_mean(y - found))


def in_text(y: Any, found: Any) -> Any:
    return f"{tf.reduce_mean(y):.2f}"


def by_loop(y: Any, found: Any) -> Any:
    return list(y - found)


FUNCTIONS = [
    (as_float, "float() argument must be a string or a real number, not 'SymbolicTensor'"),
    (as_numpy, "'SymbolicTensor' object has no attribute 'numpy'"),
    (as_bool, "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed"),
    (by_numpy, "Cannot convert a symbolic tf.Tensor"),
    (by_math, "must be real number, not SymbolicTensor"),
    (in_text, "unsupported format string passed to SymbolicTensor.__format__"),
    (by_loop, "Iterating over a symbolic `tf.Tensor` is not allowed"),
]


def line_of(function: Any) -> str:
    code = function.__code__
    return f"line {code.co_firstlineno + 1} of {Path(code.co_filename)}"


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(UnsupportedProgram) as caught:
        call()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    text = str(caught.value)
    assert len(text) < 700
    for word in ("tf.cond", "tf.where", "tf.math.log", "keras.ops", "tf.print"):
        assert word in text
    return text


@pytest.mark.parametrize(("function", "said"), FUNCTIONS)
@pytest.mark.parametrize("place", ["loss", "metric"])
def test_a_function_of_the_users_is_named_with_its_line(
    function: Any, said: str, place: str
) -> None:
    made = model(loss=function) if place == "loss" else model(metrics=[function])
    text = refused(lambda: capture(made).export(COLUMNS))
    assert f"in the training step of model 'small' ({place} {function.__name__!r})" in text
    assert line_of(function) in text
    assert f"TensorFlow says: {said}" in text
    assert "You can attempt" not in text


class OwnSteps(keras.Sequential):
    """A training step that makes numbers of what Keras' returns."""

    def train_step(self, data: Any) -> Any:
        return {name: float(value) for name, value in super().train_step(data).items()}


class OwnTest(keras.Sequential):
    """A test step that makes numbers of what Keras' returns."""

    def test_step(self, data: Any) -> Any:
        return {name: value.numpy() for name, value in super().test_step(data).items()}


class Scaled(layers.Layer):
    """A layer that looks at its input."""

    def call(self, x: Any) -> Any:
        return x * float(x[0, 0])

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


class Area(keras.metrics.Metric):
    """A metric that keeps what it sees in NumPy."""

    def update_state(self, y: Any, found: Any, sample_weight: Any = None) -> None:
        self.seen = np.asarray(found)

    def result(self) -> Any:
        return tf.constant(1.0)


def test_a_training_step_of_the_users() -> None:
    text = refused(lambda: capture(model(OwnSteps)).export(COLUMNS))
    assert "in the training step of model 'small', got" in text


def test_a_test_step_of_the_users(tmp_path: Path) -> None:
    program = capture(model(OwnTest))
    program.export(COLUMNS)
    rows = (np.ones((3, 2), np.float32), np.ones((3, 1), np.float32))
    for call in (
        lambda: program.require_measuring(SPECS),
        lambda: program.evaluate(rows, 2),
        lambda: program.pack_measure(SPECS, tmp_path / "measure.zip"),
    ):
        text = refused(call)
        assert "in the test step of model 'small', got" in text
        assert line_of(OwnTest.test_step) in text


def test_a_metric_and_a_layer_of_the_users() -> None:
    text = refused(lambda: capture(model(metrics=[Area(name="area")])).export(COLUMNS))
    assert "model 'small' (metric 'area'), got" in text
    inputs = keras.Input((2,))
    scaled = keras.Model(inputs, layers.Dense(1)(Scaled(name="scaled")(inputs)), name="small")
    scaled.compile("sgd", "mse")
    text = refused(lambda: capture(scaled).export(COLUMNS))
    assert "model 'small' (layer 'scaled'), got" in text
    assert line_of(Scaled.call) in text


def test_a_preprocess(tmp_path: Path) -> None:
    program = capture(model(), preprocess=lambda x: np.log(x))
    for call in (
        lambda: program.export(COLUMNS),
        lambda: program.serve(SPECS[:1], tmp_path / "served.zip"),
    ):
        assert "in preprocess= of model 'small', got" in refused(call)


def of_variables(**options: Any) -> Any:
    weights = tf.Variable(tf.ones([2, 1]), name="weights")

    def loss(x: Any, y: Any) -> Any:
        return tf.reduce_mean((x @ weights - y) ** 2)

    feeds = [tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])]
    return capture([weights], **{"loss": loss, "optimizer": "sgd", "feeds": feeds} | options)


@pytest.mark.parametrize("function", [as_numpy, by_numpy, by_math, in_text])
@pytest.mark.parametrize("place", ["loss", "metrics"])
def test_a_function_of_a_module(function: Any, place: str) -> None:
    given = function if place == "loss" else {"mine": function}
    text = refused(lambda: of_variables(**{place: given}))
    assert "in the training step of the module, got" in text
    assert line_of(function) in text
    assert "in user code" not in text


def test_how_a_module_predicts(tmp_path: Path) -> None:
    program = of_variables(predict=lambda x: x.numpy())
    text = refused(lambda: program.serve(SPECS[:1], tmp_path / "served.zip"))
    assert "in predict= of the module, got" in text


@pytest.mark.parametrize("wrong", ["operand", "attribute"])
def test_what_no_tensor_could_do_is_left_as_it_is(wrong: str) -> None:
    def loss(y: Any, found: Any) -> Any:
        return (y - found) + None if wrong == "operand" else y.nowhere

    with pytest.raises((TypeError, AttributeError, ValueError)) as caught:
        capture(model(loss=loss)).export(COLUMNS)
    assert not isinstance(caught.value, CaptureError)
