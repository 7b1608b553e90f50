"""Iterations of gradient descent on 2000 x 100 rows: `treeaggregate` against Spark's own MLlib.

Both train a logistic regression in float64, on the same rows in two partitions of one Spark, in
turns. MLlib begins a Spark job for each iteration, and computes in the JVM. Each iteration is
counted over the whole call, the beginning and the end of the run included.

    python -m benchmarks.throughput.mllib [--quick]
"""

from __future__ import annotations

import warnings
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.harness import Row, milliseconds, program
from ..lib.ours import spark

ROWS, FEATURES = 2000, 100
STEP = 0.1


def _model() -> Any:
    import keras
    import tensorflow as tf

    weights = tf.Variable(tf.zeros(FEATURES, tf.float64))

    def loss(x: Any, y: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(y, tf.linalg.matvec(x, weights))

    feeds = [tf.TensorSpec([None, FEATURES], tf.float64), tf.TensorSpec([None], tf.float64)]
    return tos.capture([weights], loss=loss, optimizer=keras.optimizers.SGD(), feeds=feeds)


def _points(sc: Any, x: Any, y: Any) -> Any:
    from pyspark.mllib.regression import LabeledPoint

    points = [LabeledPoint(label, row) for label, row in zip(y, x, strict=True)]
    cached = sc.parallelize(points, 2).cache()
    cached.count()
    return cached


def _of_mllib(points: Any, iterations: int) -> float:
    """Return the seconds of one iteration."""
    from pyspark.mllib.classification import LogisticRegressionWithSGD

    began = perf_counter()
    with warnings.catch_warnings():
        # It is deprecated, and still there.
        warnings.simplefilter("ignore", FutureWarning)
        LogisticRegressionWithSGD.train(points, iterations, STEP, convergenceTol=0.0)
    return (perf_counter() - began) / iterations


def _ours(session: tos.TrainingSession, data: Any, iterations: int) -> float:
    """Return the seconds of one iteration."""
    began = perf_counter()
    session.run(data, iterations, partitions=2, shuffle=False)
    return (perf_counter() - began) / iterations


def run(quick: bool) -> list[Row]:
    """Measure in turns."""
    rounds, few, many = (3, 10, 1000) if quick else (7, 30, 3000)
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, FEATURES))
    data = x, (x @ random.normal(size=FEATURES) > 0).astype(np.float64)
    strategy = tos.strategies.TreeAggregate(
        step_size=STEP, updater="l2", reg_param=0.01, convergence_tol=0
    )
    ours, theirs = [], []
    with (
        spark() as session,
        tos.TrainingSession(session, _model(), strategy=strategy, batch_size=ROWS) as training,
    ):
        points = _points(session.sparkContext, *data)
        _ours(training, data, few)
        _of_mllib(points, few)
        for _ in range(rounds):
            ours.append(_ours(training, data, many))
            theirs.append(_of_mllib(points, few))
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    parts = {
        "ours": milliseconds(median(ours)),
        "MLlib": milliseconds(median(theirs)),
        "range of the ratio": f"{min(ratios):.1f} to {max(ratios):.1f}",
    }
    what = f"iterations of {ROWS} x {FEATURES}: ours / MLlib"
    return [Row(what, median(ratios), "x", ">= 100", parts, rounds)]


if __name__ == "__main__":
    program(run, __doc__)
