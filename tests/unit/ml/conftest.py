"""Small models and DataFrames for pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="session")
def flowers(spark: Any) -> Any:
    """150 rows a, b, kind, w, known, label in one partition: two clouds that a line divides."""
    rng = np.random.default_rng(0)
    rows = []
    for n in range(150):
        label = n % 2
        a, b = (float(v) for v in rng.normal(3 * label, 1.0, 2))
        rows.append((a, b, "ab"[label], 1.0 + label, n >= 120, float(label)))
    schema = "a double, b double, kind string, w double, known boolean, label double"
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 1), schema)


def dense(outputs: int, activation: str | None, loss: Any, rate: float = 0.1) -> Any:
    """Return a compiled Keras model of two inputs whose weights begin as zeros."""
    import keras

    layer = keras.layers.Dense(outputs, activation, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), layer])
    model.compile(keras.optimizers.SGD(rate), loss, metrics=["accuracy"])
    return model


def two_classes() -> Any:
    """Return a classifier with a probability for each of two classes."""
    return dense(2, "softmax", "sparse_categorical_crossentropy")
