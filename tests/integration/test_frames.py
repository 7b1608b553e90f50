"""Training on a DataFrame: by a session and by a cell, with good rows and with bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.integration.conftest import captured_classifier, counter
from tests.support.watching import Watch
from tos_notebook import errors
from tos_notebook.archive.spec import FeedSpec
from tos_notebook.data.source import as_source
from tos_notebook.events import RowsSkipped

Train = Callable[..., tos.TrainingSession]
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def spark(spark_context: Any) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def frame_of(spark: Any, rows: list[tuple[Any, ...]], schema: str) -> Any:
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), schema)


def test_a_model_learns_from_columns_and_is_validated_on_columns(
    spark: Any, train: Train, digits: Digits
) -> None:
    x, y, x_test, y_test = digits

    def frame(x: np.ndarray, y: np.ndarray) -> Any:
        rows = list(zip(x.tolist(), y.tolist(), strict=True))
        return frame_of(spark, rows, "pixels array<float>, digit long")

    session = train(captured_classifier(), batch_size=32)
    data, test = (tos.columns(frame(*d), "pixels", "digit") for d in ((x, y), (x_test, y_test)))
    run = session.run(data, epochs=20, validation_data=test)
    assert run.status.samples == 20 * len(x)
    assert run.validation["accuracy"].iloc[-1] > 0.9


def test_every_row_of_a_frame_counts_once_in_each_epoch_however_it_is_laid_out(
    spark: Any, train: Train
) -> None:
    frame = spark.range(1000, numPartitions=3).selectExpr("cast(id as double) as n")
    session = train(counter(), combiner="downpour", batch_size=7, sync_interval=3)
    run = session.run(tos.columns(frame, "n"), epochs=4, repartition_every=2)
    assert run.parameters()["total"].tolist() == [4 * 499500.0, 4000.0]


def test_a_shuffled_frame_is_trained_exactly_once_although_tasks_die(
    spark: Any, train: Train, watch: Watch
) -> None:
    frame = spark.range(600, numPartitions=4).repartition(2, "id")
    data = tos.columns(frame.selectExpr("cast(id as double) as n"), "n")
    session = train(counter(), combiner="downpour", batch_size=5, sync_interval=2)
    run = session.start(data, epochs=3, sinks=[watch])
    run.chaos(tos.chaos.Kill(worker=0))
    run.wait()
    assert run.parameters()["total"].tolist() == [3 * 179700.0, 1800.0]


BAD = [(float(n), n % 2) for n in range(20)]
BAD[13] = (float("nan"), 1)


def test_a_bad_row_ends_the_run_with_its_name(spark: Any, train: Train) -> None:
    data = tos.columns(frame_of(spark, BAD, "n double, label int"), "n")
    with pytest.raises(
        errors.DataError, match=r"Column 'n', partition 1, row 3: expected float64 .*got nan"
    ):
        train(counter(), combiner="downpour").run(data)


def test_bad_rows_are_left_out_counted_and_told(spark: Any, train: Train, watch: Watch) -> None:
    data = tos.columns(frame_of(spark, BAD, "n double, label int"), "n", on_bad="skip")
    run = train(counter(), combiner="downpour").run(data, epochs=2, sinks=[watch])
    assert run.parameters()["total"].tolist() == [2 * (190.0 - 13), 38.0]
    assert run.status.rows_skipped == 1
    (told,) = watch.of(RowsSkipped)
    assert str(told) == (
        "1 row of partition 1 left out for column 'n': the first is row 3, with nan."
    )


@pytest.mark.parametrize("kind", ["frame", "arrays"])
def test_a_label_that_is_no_class_is_named_with_its_row(
    spark: Any, train: Train, digits: Digits, kind: str
) -> None:
    x, y = digits[0][:40], digits[1][:40].copy()
    y[33] = 10
    data: Any = (x, y)
    expected: Any = (errors.DataError, r"^Row 33, feed .*got 10")
    if kind == "frame":
        rows = list(zip(x.tolist(), y.tolist(), strict=True))
        data = tos.columns(frame_of(spark, rows, "x array<float>, y int"), "x", "y")
        expected = (errors.DataError, r"partition 1, row 13.*got .*10")
    with pytest.raises(expected[0], match=expected[1]):
        train(captured_classifier()).run(data)


IDS = [3] * 19 + [2**32 + 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda spark: (np.array(IDS),), "^Row 19, feed 'row'"),
        (
            lambda spark: spark.sparkContext.parallelize([(n,) for n in IDS], 2),
            "Partition 1, row 9, feed 'row'",
        ),
        (
            lambda spark: tos.columns(frame_of(spark, [(n,) for n in IDS], "n long"), "n"),
            "Column 'n', partition 1, row 9",
        ),
    ],
    ids=["arrays", "rdd", "frame"],
)
def test_an_integer_that_does_not_fit_is_named_and_becomes_no_other_one(
    spark: Any, make: Any, message: str
) -> None:
    feeds = (FeedSpec("row", "int32", ()),)
    sc = spark.sparkContext
    with pytest.raises(Exception, match=f"{message}: expected .*integers from .* got 4294967299"):
        as_source(sc, make(spark), 2, feeds).tasks(sc).count()


def test_a_column_of_another_shape_is_named_before_anything_starts(
    spark: Any, train: Train
) -> None:
    data = tos.columns(
        frame_of(spark, [([1.0], 1)] * 4, "pixels array<float>, y int"), "pixels", "y"
    )
    with pytest.raises(errors.ShapeMismatch, match=r"shape \(64,\), got .*\(1,\) in column 'pix"):
        train(captured_classifier()).start(data)


def test_a_run_on_a_frame_is_resumed_with_the_same_columns(
    spark: Any, train: Train, tmp_path: Any
) -> None:
    frame = spark.range(100, numPartitions=2).selectExpr("cast(id as double) as n")
    data = tos.columns(frame, "n")
    session = train(counter(), combiner="downpour", batch_size=5, checkpoint_dir=str(tmp_path))
    run = session.run(data, epochs=1, checkpoint_every="1h")
    session.close()
    again = tos.resume(run.uri, data, epochs=2).wait()
    assert next(iter(again.parameters().values())).tolist() == [2 * 4950.0, 200.0]
