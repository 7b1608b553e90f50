"""Predictions of DataFrames, RDDs and arrays are those of the model in one process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tos_notebook as tos
from tos_notebook.data.dataframe.batches import BATCH_ROWS
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch, UnsupportedProgram
from tos_notebook.inference.dataframe import check_batches


def frame_of(spark: Any, rows: Any) -> Any:
    """Return rows in three partitions, with a number and a name that the model does not take."""
    records = [(i, f"row {i}", row.tolist()) for i, row in enumerate(rows)]
    numbered = spark.sparkContext.parallelize(records, 3)
    return spark.createDataFrame(numbered, "id int, name string, x array<double>")


def test_a_frame_gets_a_column_and_keeps_its_rows_and_columns_in_order(
    spark: Any, classifier: Any, rows: Any
) -> None:
    frame = frame_of(spark, rows)
    scored = tos.capture(classifier).predict(frame, "x", batch_size=7)
    assert scored.dtypes == [*frame.dtypes, ("prediction", "array<float>")]
    found = scored.collect()
    assert [(row.id, row.name) for row in found] == [(i, f"row {i}") for i in range(len(rows))]
    expected = classifier.predict(rows, verbose=0)
    np.testing.assert_allclose([row.prediction for row in found], expected, rtol=1e-5)


def test_several_inputs_and_outputs_are_columns_of_their_own(
    spark: Any, branching: Any, rows: Any
) -> None:
    records = [(row.tolist(), i) for i, row in enumerate(rows)]
    frame = spark.createDataFrame(records, "a array<float>, b int")
    scored = tos.load_model(branching).predict(frame, ["a", "b"])
    assert scored.dtypes[2:] == [
        ("prediction_grid", "array<array<float>>"),
        ("prediction_one", "float"),
    ]
    found = scored.collect()
    expected = branching.predict([rows, np.arange(len(rows))], verbose=0)
    grids = [row.prediction_grid for row in found]
    np.testing.assert_allclose(grids, expected["grid"], rtol=1e-4, atol=1e-6)
    ones = [[row.prediction_one] for row in found]
    np.testing.assert_allclose(ones, expected["one"], rtol=1e-4, atol=1e-6)
    named = tos.load_model(branching).predict(frame, ["a", "b"], output=["g", "o"])
    assert named.columns == ["a", "b", "g", "o"]


def test_bad_rows_are_predicted_null_where_they_may_be(spark: Any, classifier: Any) -> None:
    good = [0.0, 0.0, 0.0, 0.0]
    rows = [(good,), (None,), ([1.0, float("nan"), 0.0, 0.0],), ([1.0],), (good,)]
    frame = spark.createDataFrame(rows, "x array<float>").coalesce(1)
    scored = tos.capture(classifier).predict(tos.columns(frame, "x", on_bad="skip"))
    assert [row.prediction is None for row in scored.collect()] == [False, True, True, True, False]
    whole = spark.createDataFrame(rows[1:4], frame.schema).coalesce(1)
    scored = tos.capture(classifier).predict(tos.columns(whole, "x", on_bad="skip"))
    assert [row.prediction for row in scored.collect()] == [None] * 3


def test_spark_4_0_predicts_the_same_through_pandas(
    spark: Any, branching: Any, classifier: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no functions over Arrow's arrays. Rows of several kinds, and bad ones, pass."""
    from pyspark.sql import functions

    monkeypatch.delattr(functions, "arrow_udf", raising=False)
    records = [(row.tolist(), i) for i, row in enumerate(rows)]
    frame = spark.createDataFrame(records, "a array<float>, b int")
    found = tos.load_model(branching).predict(frame, ["a", "b"]).collect()
    expected = branching.predict([rows, np.arange(len(rows))], verbose=0)
    grids = [row.prediction_grid for row in found]
    np.testing.assert_allclose(grids, expected["grid"], rtol=1e-4, atol=1e-6)
    ones = [[row.prediction_one] for row in found]
    np.testing.assert_allclose(ones, expected["one"], rtol=1e-4, atol=1e-6)
    some = [([0.0] * 4,), (None,), ([1.0, float("nan"), 0.0, 0.0],), ([1.0],)]
    bad = spark.createDataFrame(some, "x array<float>").coalesce(1)
    scored = tos.capture(classifier).predict(tos.columns(bad, "x", on_bad="skip"))
    assert [row.prediction is None for row in scored.collect()] == [False, True, True, True]


def test_a_limit_of_bad_rows_is_refused_where_they_are_predicted_null(
    spark: Any, classifier: Any
) -> None:
    frame = spark.createDataFrame([([0.0] * 4,)], "x array<float>")
    with pytest.raises(ConfigError, match="raise or skip for predict, got 'skip:1'"):
        tos.capture(classifier).predict(tos.columns(frame, "x", on_bad="skip:1"))


def test_a_dataset_is_predicted_by_the_names_of_its_inputs() -> None:
    wide, deep = keras.Input((1,), name="wide"), keras.Input((1,), name="deep")
    out = keras.layers.Dense(1, use_bias=False)(keras.layers.Concatenate()([wide, deep]))
    model = keras.Model([wide, deep], out)
    model.layers[-1].set_weights([np.array([[10.0], [1.0]])])
    rows = {"wide": [[1.0], [2.0]], "deep": [[5.0], [6.0]]}
    for data in (rows, (rows, [0, 1])):
        dataset = tf.data.Dataset.from_tensor_slices(data)
        for form in (dataset, dataset.batch(2, drop_remainder=True)):
            assert tos.load_model(model).predict(form).ravel().tolist() == [15.0, 26.0]


def test_a_bad_row_is_named_by_column_partition_and_row(spark: Any, classifier: Any) -> None:
    frame = spark.createDataFrame([([0.0] * 4,), ([1.0],)], "x array<float>").coalesce(1)
    scored = tos.capture(classifier).predict(frame, "x")
    with pytest.raises(Exception, match=r"Column 'x', partition 0, row 1: .* 1 values in place"):
        scored.collect()


@pytest.fixture
def tokens() -> Any:
    import keras

    inputs = keras.Input((1,), dtype="int32", name="t")
    found = keras.layers.Flatten()(keras.layers.Embedding(10, 2)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(found))
    model.compile("sgd", "mse")
    return tos.capture(model)


def test_an_integer_that_does_not_fit_is_told_in_one_message(spark: Any, tokens: Any) -> None:
    frame = spark.createDataFrame([([2**32 + 3],)], "t array<bigint>").coalesce(1)
    with pytest.raises(Exception, match=r"DataError: Column 't', partition 0, row 0") as caught:
        tokens.predict(frame, "t").collect()
    text = str(caught.value)
    assert "got 4294967299. Clean the data" in text
    # One frame at most: which of ours has raised it does not help the user.
    assert text.count('File "') <= 1


def test_arrays_are_evaluated_only_if_their_integers_fit(tokens: Any) -> None:
    big, y = np.full((9, 1), 2**32 + 3), np.ones((9, 1), np.float32)
    with pytest.raises(DataError, match=r"Row 0, feed 't': expected integers .* got 4294967299"):
        tokens.evaluate((big, y))


def test_an_empty_frame_is_predicted_empty(spark: Any, classifier: Any, rows: Any) -> None:
    frame = frame_of(spark, rows).where("id < 0")
    assert tos.capture(classifier).predict(frame, "x").collect() == []


def test_later_training_does_not_change_what_was_predicted_before(
    spark: Any, classifier: Any, rows: Any
) -> None:
    expected = classifier.predict(rows, verbose=0)
    scored = tos.capture(classifier).predict(frame_of(spark, rows), "x")
    classifier.set_weights([np.zeros_like(w) for w in classifier.get_weights()])
    np.testing.assert_allclose([r.prediction for r in scored.collect()], expected, rtol=1e-5)


@pytest.mark.parametrize("form", ["features", "tuples", "records"])
def test_an_rdd_is_predicted_record_by_record_in_order(
    spark_context: Any, classifier: Any, rows: Any, form: str
) -> None:
    record = {"features": lambda x: x, "tuples": lambda x: (x,), "records": lambda x: (x, 1)}[form]
    data = spark_context.parallelize([record(row) for row in rows], 3)
    found = tos.capture(classifier).predict(data).collect()
    np.testing.assert_allclose(found, classifier.predict(rows, verbose=0), rtol=1e-5)


def test_arrays_are_predicted_here(classifier: Any, branching: Any, rows: Any) -> None:
    found = tos.capture(classifier).predict(rows, batch_size=8)
    np.testing.assert_allclose(found, classifier.predict(rows, verbose=0), rtol=1e-5)
    numbers = np.arange(len(rows))
    grid, one = tos.load_model(branching).predict((rows, numbers))
    expected = branching.predict([rows, numbers], verbose=0)
    np.testing.assert_allclose(grid, expected["grid"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one, expected["one"], rtol=1e-4, atol=1e-6)


def test_what_training_prepares_in_graph_is_prepared_for_predictions(classifier: Any) -> None:
    import tensorflow as tf

    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    program = tos.capture(classifier, preprocess=lambda x: tf.cast(x, tf.float32) / 255)
    expected = classifier.predict(pixels / np.float32(255), verbose=0)
    np.testing.assert_allclose(program.predict(pixels), expected, rtol=1e-5)


def test_a_graph_predicts_what_it_was_told_with_the_constants_for_tests(
    spark_context: Any, rows: Any, classes: Any
) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        y, x = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, 4])
        keep = v1.placeholder(tf.float32, [])
        weights = tf.Variable(np.eye(4, 3, dtype=np.float32))
        logits = tf.nn.dropout(tf.matmul(x, weights), rate=1 - keep)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        options = {"feeds": [y, x], "loss": loss, "session": session, "feed_dict": {keep: 0.5}}
        program = tos.capture(train, predictions=logits, test_feed_dict={keep: 1.0}, **options)
        silent = tos.capture(train, **options)
    expected = rows[:, :3]
    np.testing.assert_allclose(program.predict(rows), expected, rtol=1e-6)
    records = spark_context.parallelize(list(zip(classes, rows, strict=True)), 2)
    np.testing.assert_allclose(program.predict(records).collect(), expected, rtol=1e-6)
    here, there = program.evaluate((classes, rows)), program.evaluate(records)
    assert there == pytest.approx(here, rel=1e-6)
    with pytest.raises(UnsupportedProgram, match="predictions=y"):
        silent.predict(rows)


def test_what_does_not_fit_is_refused_before_any_job(
    spark: Any, classifier: Any, rows: Any
) -> None:
    program, frame = tos.capture(classifier), frame_of(spark, rows)
    with pytest.raises(DataError, match="no column 'pixels'"):
        program.predict(frame, "pixels")
    with pytest.raises(DataError, match=r"name the columns as the model does: x\."):
        program.predict(frame.withColumnRenamed("x", "pixels"))
    with pytest.raises(DataError, match=r"'x' is array<double>: expected a number.* one input"):
        program.predict(frame, ["x", "id"])
    with pytest.raises(ConfigError, match="has a column 'name' already"):
        program.predict(frame, "x", output="name")
    with pytest.raises(ConfigError, match="expected 1 names"):
        program.predict(frame, "x", output=["a", "b"])
    with pytest.raises(ShapeMismatch, match=r"shape \(4,\), got float32 of shape \(3,\)"):
        program.predict(rows[:, :3])
    with pytest.raises(ShapeMismatch, match="as many rows each"):
        program.predict(np.float32(1))
    with pytest.raises(ShapeMismatch, match="got 2 values in row 0 and 1 values in row 1"):
        program.predict([[1.0, 2.0], [1.0]])
    with pytest.raises(ConfigError, match="batch_size"):
        program.predict(rows, batch_size=0)
    with pytest.raises(ConfigError, match=r"expected a DataFrame .* got numpy\.ndarray"):
        program.predict(rows, "x")


def test_batches_without_a_limit_are_refused_since_spark_never_ends_them() -> None:
    conf = {BATCH_ROWS: "0"}
    with pytest.raises(ConfigError, match=r"maxRecordsPerBatch is 0: .* Set a limit"):
        check_batches(SimpleNamespace(conf=conf))
    check_batches(SimpleNamespace(conf=conf | {BATCH_ROWS: "500"}))
    check_batches(SimpleNamespace(conf={}))
