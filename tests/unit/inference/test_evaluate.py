"""Loss and metrics that executors add up are those of one process."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.errors import ConfigError, DataError, ShapeMismatch
from tos_notebook.events import MilestoneCommitted


def records(sc: Any, *fields: Any) -> Any:
    """Return an RDD of uneven partitions, one of them empty."""
    rows = list(zip(*fields, strict=True))
    return sc.union(
        [sc.parallelize(rows[:7], 1), sc.parallelize(rows[7:], 3), sc.parallelize([], 1)]
    )


def test_an_rdd_is_evaluated_as_arrays_are(
    spark_context: Any, classifier: Any, rows: Any, classes: Any
) -> None:
    program = tos.capture(classifier)
    found = program.evaluate(records(spark_context, rows, classes), batch_size=16)
    expected = classifier.evaluate(rows, classes, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)
    assert program.evaluate((rows, classes)) == pytest.approx(expected, rel=1e-5)


def test_rows_count_by_their_weights(
    spark_context: Any, classifier: Any, rows: Any, classes: Any
) -> None:
    weights = np.linspace(0, 2, len(rows)).astype(np.float32)
    program = tos.capture(classifier, weights=True)
    found = program.evaluate(records(spark_context, rows, classes, weights))
    # The mean loss goes by the number of rows, whatever the size of Keras's last batch.
    expected = classifier.evaluate(
        rows, classes, sample_weight=weights, verbose=0, return_dict=True, batch_size=len(rows)
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_metrics_that_are_no_means_are_exact_too(spark_context: Any, rows: Any) -> None:
    import keras

    labels = (rows[:, 0] > 0).astype(np.int64)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", "binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
    found = tos.capture(model).evaluate(records(spark_context, rows, labels))
    expected = model.evaluate(rows, labels, verbose=0, return_dict=True)
    assert found["auc"] == pytest.approx(expected["auc"], abs=1e-6)


def test_columns_of_a_frame_are_evaluated(
    spark: Any, classifier: Any, rows: Any, classes: Any
) -> None:
    pairs = [(row.tolist(), int(label)) for row, label in zip(rows, classes, strict=True)]
    frame = spark.createDataFrame(pairs, "x array<float>, y int")
    found = tos.capture(classifier).evaluate(tos.columns(frame, "x", "y"))
    expected = classifier.evaluate(rows, classes, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_weight_is_no_label(spark: Any, classifier: Any) -> None:
    frame = spark.createDataFrame([([0.0] * 4, 1.0)], "x array<float>, w double")
    with pytest.raises(ShapeMismatch, match="label: expected columns for 'y', got none"):
        tos.capture(classifier).evaluate(tos.columns(frame, "x", weight="w"))


def test_data_that_do_not_fit_are_refused(spark_context: Any, classifier: Any, rows: Any) -> None:
    import tensorflow as tf

    program = tos.capture(classifier)
    with pytest.raises(ShapeMismatch, match="Expected records of 2 fields"):
        program.evaluate(spark_context.parallelize([(row,) for row in rows], 2))
    with pytest.raises(DataError, match="function that returns datasets"):
        program.evaluate(lambda context: tf.data.Dataset.from_tensors((rows, rows[:, 0])))
    with pytest.raises(DataError, match=r"predict: .* function that returns datasets"):
        program.predict(lambda context: tf.data.Dataset.from_tensors((rows, rows[:, 0])))


def test_a_run_evaluates_and_predicts_where_the_rows_are(
    spark: Any, classifier: Any, rows: Any, classes: Any
) -> None:
    data = records(spark.sparkContext, rows, classes)
    with tos.TrainingSession(spark, classifier, batch_size=10) as session:
        run = session.run((rows, classes), epochs=2, partitions=2)
        here, there = run.evaluate(rows, classes), run.evaluate(data)
        predicted = run.predict(data).collect()
        with pytest.raises(ConfigError, match="batch_size"):
            run.evaluate(data, batch_size=0)
    assert there == pytest.approx(here, rel=1e-5)
    np.testing.assert_allclose(predicted, classifier.predict(rows, verbose=0), rtol=1e-5)


def test_a_run_can_be_evaluated_here_while_an_evaluation_waits_for_a_slot(
    spark: Any, classifier: Any, rows: Any, classes: Any
) -> None:
    sc = spark.sparkContext
    data, watch = records(sc, rows, classes), Watch()
    with (
        ThreadPoolExecutor(2) as threads,
        tos.TrainingSession(spark, classifier, batch_size=10) as session,
    ):
        run = session.start((rows, classes), epochs=100_000, partitions=2, sinks=[watch])
        watch.wait_for(MilestoneCommitted)
        run.pause()
        there = threads.submit(run.evaluate, data)
        until(lambda: len(sc.statusTracker().getActiveJobsIds()) == 2)
        here = threads.submit(run.evaluate, rows, classes).result(30)
        assert not there.done()
        run.stop()
        assert set(there.result(60)) == set(here)


def test_rows_that_are_left_out_of_an_evaluation_are_told_of(
    spark: Any, classifier: Any, rows: Any, classes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [(row.tolist(), int(label)) for row, label in zip(rows, classes, strict=True)]
    frame = spark.createDataFrame([*pairs, (None, 1), ([1.0], 1)], "x array<float>, y int")
    with caplog.at_level(logging.WARNING):
        found = tos.capture(classifier).evaluate(tos.columns(frame, "x", "y", on_bad="skip"))
    assert "evaluate: 2 bad rows were left out." in caplog.text
    expected = classifier.evaluate(rows, classes, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-5)
