"""Data as users have them train, validate, evaluate and predict: tables, lists, datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, counter
from tos_notebook.errors import DataError

Train = Callable[..., tos.TrainingSession]


def two_inputs() -> Any:
    """Return a compiled model of a number, ``size``, and of text, ``color``."""
    import keras

    size = keras.Input((1,), name="size")
    color = keras.Input((1,), dtype="string", name="color")
    known = keras.layers.StringLookup(vocabulary=["red", "blue"], output_mode="multi_hot")
    joined = keras.layers.concatenate([size, known(color)])
    model = keras.Model([size, color], keras.layers.Dense(1, name="price")(joined))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


@pytest.fixture(scope="module")
def goods() -> pd.DataFrame:
    rows = 60
    colors = pd.Categorical(["red", "blue"] * (rows // 2))
    size = pd.Series(np.arange(rows) % 7, dtype="Int32")
    return pd.DataFrame({"color": colors, "size": size, "price": np.arange(rows) % 2 + 0.5})


def test_a_table_of_pandas_and_one_of_spark_train_by_the_names_of_their_columns(
    spark_context: Any, goods: pd.DataFrame
) -> None:
    spark = tos.connect(spark_context, warm_up=False)
    frame = spark.createDataFrame(goods.astype({"color": "object", "size": "int32"}))
    model, found = two_inputs(), []
    for data in (goods, frame):
        run = tos.fit(model, data, 2, label="price", validation_data=data, verbose=False)
        assert run.epochs["samples"].tolist() == [60, 60]
        loss = run.evaluate(data, label="price")["loss"]
        assert run.validation["loss"].iloc[-1] == pytest.approx(loss, rel=1e-4)
        predicted = run.predict(data)
        found.append(np.asarray(predicted if data is goods else predicted.toPandas()["prediction"]))
    assert [values.size for values in found] == [60, 60]


# As `tos.fit` does, in test_fit.py, and as a run evaluates, above.
@pytest.mark.long
def test_a_session_takes_names_of_columns(
    train: Train, spark_context: Any, digits: tuple[np.ndarray, ...]
) -> None:
    spark = tos.connect(spark_context, warm_up=False)
    rows = [(x.tolist(), int(y)) for x, y in zip(digits[0][:64], digits[1][:64], strict=True)]
    frame = spark.createDataFrame(rows, "pixels array<float>, digit int")
    session = train(captured_classifier())
    run = session.run(frame, features="pixels", label="digit", validation_data=frame)
    by_columns = run.evaluate(tos.columns(frame, "pixels", "digit"))
    assert run.evaluate(frame, features="pixels", label="digit") == by_columns
    with pytest.raises(DataError, match=r"Say which columns .*It has pixels, digit"):
        session.start(frame)


def test_what_spark_mls_assembler_makes_needs_no_names(train: Train, spark_context: Any) -> None:
    """The columns `features` and `label` stand beside those that the vectors were made of."""
    import keras
    from pyspark.ml.feature import VectorAssembler

    spark = tos.connect(spark_context, warm_up=False)
    rows = [(float(i), -float(i), "row", i % 2) for i in range(40)]
    raw = spark.createDataFrame(rows, "a double, b double, name string, label int")
    frame = VectorAssembler(inputCols=["a", "b"], outputCol="features").transform(raw)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    run = train(model).run(frame, 1, validation_data=frame)
    assert run.history["samples"].sum() == 40
    named = run.evaluate(frame, features="features", label="label")
    assert run.evaluate(frame) == named
    assert run.predict(frame).count() == 40


def test_lists_are_what_their_arrays_are(train: Train, digits: tuple[np.ndarray, ...]) -> None:
    x, y = digits[0][:64], digits[1][:64]
    run = train(captured_classifier()).run((x.tolist(), y.tolist()), 2)
    assert run.history["samples"].sum() == 128
    assert run.evaluate(x.tolist(), y.tolist()) == pytest.approx(run.evaluate(x, y))
    np.testing.assert_allclose(run.predict(x[:3].tolist()), run.predict(x[:3]), rtol=1e-5)


def test_each_row_of_a_dataset_counts_once_in_each_epoch(train: Train) -> None:
    """It is shuffled again in each, batched otherwise, and cut among three partitions."""
    import tensorflow as tf

    rows = tf.data.Dataset.range(600).map(lambda n: tf.cast(n, tf.float64)).shuffle(600).batch(32)
    session = train(counter(), combiner="downpour", batch_size=7, sync_interval=3)
    run = session.run(rows, epochs=4, partitions=3)
    assert run.parameters()["total"].tolist() == [4 * 179700.0, 2400.0]
    assert any("Each executor runs the dataset" in note for note in run.status.notes)


def test_a_retried_task_goes_on_in_a_dataset_that_has_no_seed(train: Train) -> None:
    import tensorflow as tf

    rows = tf.data.Dataset.range(600).map(lambda n: tf.cast(n, tf.float64)).shuffle(600)
    session = train(counter(), combiner="downpour", batch_size=5, sync_interval=2)
    run = session.start(rows, epochs=3)
    run.chaos(tos.chaos.Kill(worker=1, at=4))
    run.wait()
    assert run.parameters()["total"].tolist() == [3 * 179700.0, 1800.0]


def test_what_a_generator_yields_is_read_once_by_the_driver(train: Train) -> None:
    import tensorflow as tf

    read = []

    def numbers() -> Iterator[float]:
        read.append(None)
        yield from map(float, range(600))

    rows = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float64))
    session = train(counter(), combiner="downpour", batch_size=7, sync_interval=3)
    run = session.run(rows, epochs=2, partitions=2)
    assert run.parameters()["total"].tolist() == [2 * 179700.0, 1200.0]
    assert len(read) == 1
    assert any("has read the dataset's 600 rows once" in note for note in run.status.notes)


def test_a_dataset_validates_and_is_evaluated_and_predicted(
    train: Train, digits: tuple[np.ndarray, ...]
) -> None:
    import tensorflow as tf

    x, y = digits[0][:64], digits[1][:64]
    rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
    run = train(captured_classifier()).run(rows, validation_data=rows)
    assert run.history["samples"].sum() == 64
    measured = run.evaluate(rows)
    assert measured == pytest.approx(run.evaluate(x, y))
    assert run.validation["loss"].iloc[-1] == pytest.approx(measured["loss"], rel=1e-4)
    np.testing.assert_allclose(run.predict(rows), run.predict(x), rtol=1e-5)
