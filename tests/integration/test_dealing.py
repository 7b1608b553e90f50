"""What a run begins with: rows dealt out at random, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter

Train = Callable[..., tos.TrainingSession]

EPOCHS = 30


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's flowers, which it gives sorted by species."""
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    return x.astype(np.float32), y


def flowers() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3, "softmax")]
    )
    rule = keras.optimizers.Adam(0.01)
    model.compile(rule, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.mark.parametrize("kind", ["arrays", "rdd", "frame", "estimator"])
def test_a_model_learns_all_labels_of_rows_that_are_sorted_by_label(
    spark: Any, train: Train, iris: tuple[np.ndarray, np.ndarray], kind: str
) -> None:
    """Undealt rows end at 0.6 to 0.7; `keras.fit` at 0.97."""
    x, y = iris
    rows = spark.sparkContext.parallelize(list(zip(x.tolist(), y.tolist(), strict=True)), 2)
    frame = spark.createDataFrame(rows, "features array<float>, label long")
    model = flowers()
    if kind == "estimator":
        stage = tos.ml.TensorEstimator(model=model, epochs=EPOCHS, batchSize=16)
        model = stage.fit(frame).model
    else:
        given = {"arrays": iris, "rdd": rows, "frame": tos.columns(frame, "features", "label")}
        train(model, batch_size=16).run(given[kind], EPOCHS)
    assert model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"] >= 0.95


@pytest.mark.parametrize("kind", ["arrays", "rdd"])
def test_rows_that_stay_sorted_in_their_partitions_are_told_of(
    spark: Any, train: Train, iris: tuple[np.ndarray, np.ndarray], kind: str
) -> None:
    x, y = iris
    rows = spark.sparkContext.parallelize(list(zip(x.tolist(), y.tolist(), strict=True)), 2)
    data = iris if kind == "arrays" else rows
    session = train(flowers(), batch_size=16)
    (note,) = session.run(data, shuffle="partitions").status.notes
    assert "67% of partition" in note
    assert session.run(data).status.notes == ()


def counted(spark: Any, kind: str) -> tuple[Any, Any]:
    """Return the numbers 0 to 799 in 8 partitions, and how often any was computed."""
    from pyspark.sql.functions import udf

    computed = spark.sparkContext.accumulator(0)

    def seen(number: float) -> float:
        computed.add(1)
        return float(number)

    if kind == "rdd":
        return spark.sparkContext.parallelize(range(800), 8).map(lambda n: (seen(n),)), computed
    numbers = spark.range(800, numPartitions=8).selectExpr("cast(id as double) as id")
    return tos.columns(numbers.select(udf(seen, "double")("id").alias("n")), "n"), computed


@pytest.mark.parametrize("shuffle", [True, "partitions"])
@pytest.mark.parametrize(("kind", "looks"), [("frame", 0), ("rdd", 1)])
def test_each_row_is_computed_once_although_every_epoch_is_a_job(
    spark: Any, train: Train, kind: str, looks: int, shuffle: Any
) -> None:
    """Beside a look at the RDD's first record, which says what its rows are."""
    data, computed = counted(spark, kind)
    run = train(counter(), combiner="downpour", batch_size=10).run(data, epochs=4, shuffle=shuffle)
    assert run.parameters()["total"].tolist() == [4 * 319600.0, 3200.0]
    assert computed.value == 800 + looks


def test_rows_that_are_drawn_at_random_are_the_same_in_every_epoch(
    spark: Any, train: Train
) -> None:
    frame = spark.range(2000, numPartitions=8).where("rand() > 0.3")
    data = tos.columns(frame.selectExpr("cast(id as double) as n"), "n")
    run = train(counter(), combiner="downpour", batch_size=50).run(data, epochs=3)
    total, rows = run.parameters()["total"].tolist()
    assert rows % 3 == 0
    assert total % 3 == 0
    assert 0 < rows < 3 * 2000
