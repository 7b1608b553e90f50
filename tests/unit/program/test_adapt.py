"""Preprocessing layers learn on executors what Keras would have learned of the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import layers

import tos_notebook as tos
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch

pytestmark = pytest.mark.usefixtures("fresh_keras")

WORDS = ["Good", "bad,", "fine", "awful!", "movie", "é"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = 300
    return pd.DataFrame(
        {
            "color": random.choice(["red", "green", "blue", ""], rows),
            "number": random.integers(-2, 9, rows),
            "age": random.normal(50, 10, rows),
            "height": random.normal(1.7, 0.1, rows),
            "text": [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(rows)],
        }
    )


@pytest.fixture(scope="module")
def frame(spark_context: Any, table: pd.DataFrame) -> Any:
    spark = tos.connect(spark_context, warm_up=False)
    # In partitions of unequal size.
    return spark.createDataFrame(table).repartition(3, "number")


@pytest.mark.parametrize(
    ("make", "column"),
    [
        (layers.StringLookup, "color"),
        (lambda: layers.StringLookup(max_tokens=3, mask_token=""), "color"),
        (layers.IntegerLookup, "number"),
        (lambda: layers.TextVectorization(max_tokens=5), "text"),
        (lambda: layers.TextVectorization(split="character"), "text"),
        (lambda: layers.TextVectorization(ngrams=2, standardize="lower"), "text"),
    ],
)
def test_vocabularies_are_those_of_keras(
    frame: Any, table: pd.DataFrame, make: Callable[[], Any], column: str
) -> None:
    expected = make()
    expected.adapt(table[column].to_numpy())
    found = tos.adapt(make(), frame, column)
    assert found.get_vocabulary() == expected.get_vocabulary()


def test_weights_of_words_are_those_of_keras(frame: Any, table: pd.DataFrame) -> None:
    expected = layers.TextVectorization(output_mode="tf_idf")
    expected.adapt(table["text"].to_numpy())
    found = tos.adapt(layers.TextVectorization(output_mode="tf_idf"), frame, "text")
    texts = table["text"].tolist()[:20]
    np.testing.assert_allclose(found(texts), expected(texts), rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, None])
@pytest.mark.parametrize("names", [["age"], ["age", "height"]])
def test_means_and_variances_are_those_of_keras(
    frame: Any, table: pd.DataFrame, names: list[str], axis: int | None
) -> None:
    expected = layers.Normalization(axis=axis)
    expected.adapt(table[names].to_numpy())
    found = tos.adapt(layers.Normalization(axis=axis), frame, names if names[1:] else names[0])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-4)


def test_boundaries_are_quantiles_as_close_as_asked_for(frame: Any, table: pd.DataFrame) -> None:
    found = tos.adapt(layers.Discretization(num_bins=4, epsilon=0.01), frame, "age")
    below = [np.mean(table["age"] <= boundary) for boundary in found.bin_boundaries]
    np.testing.assert_allclose(below, [0.25, 0.5, 0.75], atol=0.02)


def test_a_feature_space_learns_from_columns_of_its_names(frame: Any, table: pd.DataFrame) -> None:
    kinds = keras.utils.FeatureSpace
    space = kinds(
        {
            "color": kinds.string_categorical(),
            "number": kinds.integer_categorical(),
            "height": kinds.float_normalized(),
            "age": kinds.float_rescaled(0.1),
        },
        output_mode="concat",
    )
    assert tos.adapt(space, frame) is space
    vocabulary = space.preprocessors["color"].get_vocabulary()
    assert {*vocabulary} == {*table["color"], "[UNK]"}
    numbers = space.preprocessors["number"].get_vocabulary()
    assert {*numbers} == {-1, *table["number"]}
    assert space.get_encoded_features().shape[-1] == len(vocabulary) + len(numbers) + 2


def test_bad_rows_are_named_or_left_out(frame: Any) -> None:
    from pyspark.sql import functions

    some = frame.withColumn("color", functions.expr("nullif(color, 'red')"))
    with pytest.raises(DataError, match=r"'color', partition .* got null"):
        tos.adapt(layers.StringLookup(), some, "color")
    kept = tos.adapt(layers.StringLookup(), tos.columns(some, "color", on_bad="skip"))
    assert "red" not in kept.get_vocabulary()


@pytest.mark.parametrize(
    ("make", "column", "error", "text"),
    [
        (lambda: layers.Dense(1), "age", ConfigError, "expected one of StringLookup.*got Dense"),
        (layers.StringLookup, None, ConfigError, "column: expected the column"),
        (layers.StringLookup, "colour", DataError, "no column 'colour'. Did you mean color"),
        (layers.StringLookup, "age", DataError, "'age': expected text"),
        (layers.IntegerLookup, "color", DataError, "'color': expected integers"),
        (layers.IntegerLookup, "age", ShapeMismatch, "expected rows of int64"),
        (layers.Normalization, "color", ShapeMismatch, "expected rows of float64"),
        (lambda: layers.Normalization(mean=0, variance=1), "age", ConfigError, "without mean="),
        (lambda: layers.Discretization([1.0]), "age", ConfigError, "with num_bins="),
        (lambda: layers.Discretization(num_bins=2), "color", DataError, "expected numbers"),
    ],
)
def test_what_does_not_fit_is_named(
    frame: Any, make: Callable[[], Any], column: str | None, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        tos.adapt(make(), frame, column)


def test_rows_of_the_driver_are_for_keras_own_way(table: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"got ndarray\. For data in the driver call layer\.adapt"):
        tos.adapt(layers.StringLookup(), table["color"].to_numpy(), "color")
