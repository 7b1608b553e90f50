"""What a run begins with: rows dealt out at random, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import counter

Train = Callable[..., tos.TrainingSession]

SEEDS = (0, 1, 2)

ALLOWED = 0.02
"""How far below `keras.fit` accuracy may be, on the mean of all seeds."""


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


def flowers(seed: int = 0) -> Any:
    import keras

    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(3, "softmax")]
    )
    rule = keras.optimizers.Adam(0.01)
    model.compile(rule, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


class Flowers:
    """Rows in the order in which they come, and what `keras.fit` makes of them."""

    batch_size, epochs = 16, 30

    def __init__(self, data: Any, folder: Path, spark: Any) -> None:
        self.data = data
        x, y = data
        records = list(zip(x.tolist(), y.tolist(), strict=True))
        self.rows = spark.sparkContext.parallelize(records, 2)
        self.frame = spark.createDataFrame(self.rows, "features array<float>, label long")
        self.frame.write.partitionBy("label").parquet(str(folder / "iris"))
        self.parquet = spark.read.parquet(str(folder / "iris"))
        self.fitted = np.mean([self.accuracy(self.fit(seed)) for seed in SEEDS])

    def fit(self, seed: int) -> Any:
        model = flowers(seed)
        model.fit(*self.data, self.batch_size, self.epochs, verbose=0)
        return model

    def train(self, train: Train, kind: str, seed: int) -> Any:
        model = flowers(seed)
        if kind == "estimator":
            options = {"epochs": self.epochs, "batchSize": self.batch_size, "seed": seed}
            return tos.ml.TensorEstimator(model=model, **options).fit(self.frame).model
        given = {
            "arrays": self.data,
            "rdd": self.rows,
            "frame": tos.columns(self.frame, "features", "label"),
            "parquet": tos.columns(self.parquet, "features", "label"),
        }
        train(model, batch_size=self.batch_size).run(given[kind], self.epochs, seed=seed)
        return model

    def accuracy(self, model: Any) -> float:
        return float(model.evaluate(*self.data, verbose=0, return_dict=True)["accuracy"])


@pytest.fixture(scope="module")
def task(
    spark: Any,
    iris: tuple[np.ndarray, np.ndarray],
    tmp_path_factory: pytest.TempPathFactory,
) -> Flowers:
    return Flowers(iris, tmp_path_factory.mktemp("parquet"), spark)


@pytest.mark.parametrize("kind", ["arrays", "rdd", "frame", "parquet", "estimator"])
def test_sorted_rows_are_learned_as_well_as_by_keras_with_as_many_epochs(
    train: Train, task: Flowers, kind: str
) -> None:
    """With the defaults, on two workers. Undealt rows end some 30 points below.

    `benchmarks.sorted_data` does the same with digits, which take longer.
    """
    found = [task.accuracy(task.train(train, kind, seed)) for seed in SEEDS]
    assert np.mean(found) >= task.fitted - ALLOWED, found


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
