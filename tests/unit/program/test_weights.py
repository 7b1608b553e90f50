"""What rows count, and what becomes of them before the model: as `fit` would have it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.unit.program.support import Lone, assert_same
from tos_notebook.common.arrays import Array
from tos_notebook.errors import CaptureError
from tos_notebook.program.capture import capture
from tos_notebook.program.keras.class_weights import ClassWeights

BATCH = 4
X = np.random.default_rng(0).normal(size=(10, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 10)
WEIGHTS = np.linspace(0, 2, 10)
CLASSES = {0: 0.5, 2: 3.0}


def model(loss: str = "sparse_categorical_crossentropy") -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "softmax")])
    made.compile(keras.optimizers.SGD(0.1), loss)
    return made


def fitted(x: Array, y: Array, loss: str = "sparse_categorical_crossentropy", **how: Any) -> Any:
    made = model(loss)
    made.run_eagerly = True
    made.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, **how)
    return made.get_weights()


def trained(program: Any, *columns: Array) -> list[Array]:
    lone = Lone(program, *columns)
    lone.train(BATCH)
    return list(lone.tensors.values())


def test_a_row_counts_by_its_weight() -> None:
    program = capture(model(), weights=True)
    assert [feed.name for feed in program.feeds][1:] == ["y", "sample_weight"]
    assert_same(trained(program, X, Y, WEIGHTS), fitted(X, Y, sample_weight=WEIGHTS))


def test_a_row_counts_by_its_class() -> None:
    program = capture(model(), class_weight=CLASSES)
    assert_same(trained(program, X, Y), fitted(X, Y, class_weight=CLASSES))


def test_one_hot_labels_have_classes_too() -> None:
    one_hot = np.eye(3, dtype=np.float32)[Y]
    loss = "categorical_crossentropy"
    program = capture(model(loss), class_weight=CLASSES)
    assert_same(trained(program, X, one_hot), fitted(X, one_hot, loss, class_weight=CLASSES))


def test_weight_and_class_weight_are_multiplied() -> None:
    program = capture(model(), weights=True, class_weight=CLASSES)
    by_class = np.array([CLASSES.get(label, 1.0) for label in Y.tolist()])
    assert_same(trained(program, X, Y, WEIGHTS), fitted(X, Y, sample_weight=WEIGHTS * by_class))


def test_an_evaluation_weighs_rows_but_not_classes() -> None:
    made = model()
    program = capture(made, weights=True, class_weight=CLASSES)
    found = program.evaluate([X, Y, WEIGHTS], 10)
    assert found["loss"] == pytest.approx(made.evaluate(X, Y, sample_weight=WEIGHTS, verbose=0))


def test_what_is_fed_is_made_the_models_input_in_graph() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (10, 5, 2)).astype(np.uint8)

    def first(x: Any) -> Any:
        return tf.cast(x[:, :, 0], tf.float32) / 255.0

    x = pixels[:, :, 0].astype(np.float32) / 255
    program = capture(model(), preprocess=first)
    assert_same(trained(program, pixels, Y), fitted(x, Y))
    expected = model().evaluate(x, Y, verbose=0)
    assert program.evaluate([pixels, Y], 3)["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "weights",
    [
        *[{}, {-1: 1.0}, {0: -1.0}, {0: float("nan")}, {0.5: 1.0}],
        *["balanced", [1.0, 2.0], {0: "much"}, {"a": 1.0}],
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: Any) -> None:
    with pytest.raises(CaptureError, match="weights of at least 0 by class"):
        ClassWeights(weights, 1)


def test_classes_of_several_labels_have_no_weights() -> None:
    with pytest.raises(CaptureError, match="a model with one label, got 0"):
        capture(model(), labels=0, class_weight=CLASSES)


def test_a_class_that_the_output_does_not_tell_apart_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"^class_weight: .* from 0 to 2, .*; got 99\.$"):
        capture(model(), class_weight={0: 0.5, 99: 2.0})
    # Of one-hot labels and other losses it is not known.
    capture(model("mse"), class_weight={99: 2.0})
