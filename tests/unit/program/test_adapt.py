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
from tests.support.long import few, long
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
    return spark.createDataFrame(table).repartition(3, "number").cache()


@pytest.mark.parametrize(
    ("make", "column"),
    [
        pytest.param(layers.StringLookup, "color", marks=long),
        (lambda: layers.StringLookup(max_tokens=3, mask_token=""), "color"),
        (layers.IntegerLookup, "number"),
        pytest.param(lambda: layers.TextVectorization(max_tokens=5), "text", marks=long),
        pytest.param(lambda: layers.TextVectorization(split="character"), "text", marks=long),
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
@pytest.mark.parametrize("names", few([["age"], ["age", "height"]], ["age", "height"]))
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
        (lambda: layers.Discretization(num_bins=1), "age", ConfigError, "at least 2, got 1"),
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


def with_bad(frame: Any, rows: int) -> Any:
    """Return the rows with the age of as many as NaN; they lie in several partitions."""
    from pyspark.sql import Window, functions

    place = functions.row_number().over(Window.orderBy("text", "age"))
    bad = functions.when(place <= rows, functions.lit(float("nan"))).otherwise(functions.col("age"))
    return frame.withColumn("age", bad).repartition(3, "number")


LEARNERS = [layers.Normalization, lambda: layers.Discretization(num_bins=4)]


@pytest.mark.parametrize("make", few(LEARNERS, LEARNERS[1]))
def test_rows_that_are_left_out_are_counted_over_all_partitions(
    frame: Any, make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    some = with_bad(frame, 6)
    with pytest.raises(DataError, match=r"at most 5 bad rows, got at least 6: .*'age'.*nan"):
        tos.adapt(make(), tos.columns(some, "age", on_bad="skip:5"))
    caplog.clear()
    tos.adapt(make(), tos.columns(some, "age", on_bad="skip:6"))
    assert "adapt: 6 bad rows of column 'age' were left out." in caplog.messages


def test_a_vocabulary_has_as_many_bad_rows_as_allowed(
    frame: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from pyspark.sql import functions

    some = frame.withColumn("color", functions.expr("nullif(color, 'red')"))
    bad = some.where("color is null").count()
    with pytest.raises(DataError, match=f"at most {bad - 1} bad rows, got at least {bad}"):
        tos.adapt(layers.StringLookup(), tos.columns(some, "color", on_bad=f"skip:{bad - 1}"))
    tos.adapt(layers.StringLookup(), tos.columns(some, "color", on_bad="skip"))
    assert f"adapt: {bad} bad rows of column 'color' were left out." in caplog.messages


@pytest.mark.parametrize("make", few(LEARNERS, LEARNERS[0]))
def test_at_least_one_row_is_good(frame: Any, make: Callable[[], Any]) -> None:
    from pyspark.sql import functions

    none = frame.withColumn("age", functions.lit(float("nan")))
    with pytest.raises(DataError, match="'age': expected at least one value, got none"):
        tos.adapt(make(), tos.columns(none, "age", on_bad="skip"))


@pytest.fixture(scope="module")
def vectors(frame: Any) -> Any:
    """Return 40 rows: wide vectors, narrow ones, and nested arrays, all of the same numbers."""
    from pyspark.ml.linalg import Vectors

    rows = []
    for row in range(40):
        wide = {row: 1.0, 1500: float(row)}
        narrow = [float(row), 10.0 * row]
        rows.append((Vectors.sparse(2000, wide), Vectors.dense(narrow), [narrow, narrow], narrow))
    names = ["wide", "narrow", "nested", "flat"]
    return frame.sparkSession.createDataFrame(rows, names).repartition(3)


@pytest.mark.parametrize("axis", [-1, None])
def test_wide_vectors_are_normalized_as_dense_ones(vectors: Any, axis: int | None) -> None:
    dense = np.zeros((40, 2000))
    dense[np.arange(40), np.arange(40)] = 1.0
    dense[:, 1500] = np.arange(40)
    expected = layers.Normalization(axis=axis)
    expected.adapt(dense)
    found = tos.adapt(layers.Normalization(axis=axis), vectors, "wide")
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("column", few(["narrow", "nested", "flat"], "nested"))
def test_boundaries_are_of_all_numbers_of_a_row(vectors: Any, column: str) -> None:
    layer = layers.Discretization(num_bins=2, epsilon=0.001)
    [middle] = tos.adapt(layer, vectors, column).bin_boundaries
    numbers = np.concatenate([np.arange(40), 10 * np.arange(40)])
    assert np.mean(numbers <= middle) == pytest.approx(0.5, abs=0.02)


def test_boundaries_of_wide_vectors_count_their_zeros(vectors: Any) -> None:
    layer = layers.Discretization(num_bins=3, epsilon=0.001)
    assert tos.adapt(layer, vectors, "wide").bin_boundaries == [0.0, 0.0]


@pytest.mark.parametrize("bad", few(["null", "double('nan')"], "null"))
def test_boundaries_are_of_good_rows_alone(frame: Any, bad: str) -> None:
    some = frame.selectExpr(f"if(number = 3, {bad}, age) as age")
    with pytest.raises(DataError, match=r"'age', partition .* got (null|nan)\. Clean the data"):
        tos.adapt(layers.Discretization(num_bins=4), some, "age")
    kept = tos.adapt(
        layers.Discretization(num_bins=4), tos.columns(some, "age", on_bad="skip")
    ).bin_boundaries
    good = tos.adapt(layers.Discretization(num_bins=4), frame.where("number != 3"), "age")
    np.testing.assert_allclose(kept, good.bin_boundaries, atol=0.5)


def without_jobs(frame: Any) -> Any:
    """Return the rows behind an expression that fails whenever a job computes it."""
    from pyspark.sql import functions

    broken = functions.expr("if(number > -9, raise_error('a job ran'), '')")
    number = broken.cast("int")
    return frame.select(broken.alias("color"), broken.alias("text"), number.alias("number"))


@pytest.mark.parametrize(
    ("make", "column"),
    [
        (lambda: layers.StringLookup(vocabulary=["red"]), "color"),
        (lambda: layers.IntegerLookup(vocabulary=[1]), "number"),
        (lambda: layers.TextVectorization(vocabulary=["good"]), "text"),
    ],
)
def test_a_layer_with_a_vocabulary_learns_none(
    frame: Any, make: Callable[[], Any], column: str
) -> None:
    with pytest.raises(ConfigError, match=r"layer: expected a \w+ without vocabulary=.*Leave"):
        tos.adapt(make(), without_jobs(frame), column)


def test_a_feature_space_is_checked_before_its_first_job(frame: Any) -> None:
    kinds = keras.utils.FeatureSpace
    known = layers.StringLookup(vocabulary=["red"], output_mode="one_hot")
    feature = kinds.feature("string", known, "one_hot")
    space = kinds({"text": kinds.string_categorical(), "color": feature})
    text = r"feature 'color': expected a StringLookup without vocabulary="
    with pytest.raises(ConfigError, match=text):
        tos.adapt(space, without_jobs(frame))


def test_text_is_one_string_a_row(frame: Any, table: pd.DataFrame) -> None:
    from pyspark.sql import functions

    pairs = frame.withColumn("text", functions.array("text", "color"))
    text = r"'text': expected one string a row for this layer, got arrays of shape \(2,\)\. Join"
    with pytest.raises(DataError, match=text):
        tos.adapt(layers.TextVectorization(), pairs, "text")
    expected = layers.TextVectorization()
    expected.adapt(table["text"].to_numpy())
    single = frame.withColumn("text", functions.array("text"))
    found = tos.adapt(layers.TextVectorization(), single, "text")
    assert found.get_vocabulary() == expected.get_vocabulary()


def test_a_layer_that_is_built_keeps_its_width(frame: Any, table: pd.DataFrame) -> None:
    layer = layers.Normalization()
    layer.build((None, 3))
    text = r"'age, height': expected 3 values in the last axis.*, got 2\."
    with pytest.raises(ShapeMismatch, match=text):
        tos.adapt(layer, frame, ["age", "height"])
    with pytest.raises(ShapeMismatch, match=r"'age': expected 3 values .* got 1\."):
        tos.adapt(layer, frame, "age")
    whole = layers.Normalization(axis=None)
    whole.build((None, 3))
    tos.adapt(whole, frame, "age")
    np.testing.assert_allclose(whole.mean, table["age"].mean(), rtol=1e-5)
