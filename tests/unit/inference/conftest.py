"""Models with known weights, and rows for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

ROWS = 50


@pytest.fixture(scope="session")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture
def rows() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)


@pytest.fixture
def classes() -> npt.NDArray[np.int64]:
    return np.random.default_rng(1).integers(0, 3, ROWS)


@pytest.fixture
def classifier() -> Any:
    """A compiled model of three classes, with metrics that count rows and that weigh them."""
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,), name="x"), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential(layers)
    top = keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")
    model.compile(
        "sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=[top]
    )
    return model


@pytest.fixture
def branching() -> Any:
    """A model that is not compiled, of two inputs and two outputs."""
    import keras

    keras.utils.set_random_seed(0)
    left, right = keras.Input((4,), name="left"), keras.Input((), name="right")
    wide = keras.layers.Dense(6)(left)
    grid = keras.layers.Reshape((2, 3))(wide)
    one = keras.layers.Dense(1)(keras.layers.Concatenate()([left, keras.ops.expand_dims(right, 1)]))
    return keras.Model([left, right], {"grid": grid, "one": one})
