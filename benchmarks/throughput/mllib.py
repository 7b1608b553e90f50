"""Iterations of gradient descent on 2000 x 100 rows: `treeaggregate` against Spark itself.

All train a logistic regression in float64, on the same rows in two partitions of one Spark, in
turns. Each iteration is counted over the whole call, the beginning and the end of the run included.

- One long Spark job against MLlib, which begins a job for each iteration and computes in the JVM.
- A job for each iteration (``jobs=True``) against the loop of PySpark that does no more: it
  broadcasts the weights, computes gradients with NumPy, and calls ``treeAggregate``. Executors keep
  the rows there, too.

    python -m benchmarks.throughput.mllib [--quick]
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.harness import Row, milliseconds, program
from ..lib.ours import spark

ROWS, FEATURES = 2000, 100
STEP, REG_PARAM = 0.1, 0.01
PARTITIONS = 2


def _model() -> Any:
    import keras
    import tensorflow as tf

    weights = tf.Variable(tf.zeros(FEATURES, tf.float64))

    def loss(x: Any, y: Any) -> Any:
        return tf.nn.sigmoid_cross_entropy_with_logits(y, tf.linalg.matvec(x, weights))

    feeds = [tf.TensorSpec([None, FEATURES], tf.float64), tf.TensorSpec([None], tf.float64)]
    return tos.capture([weights], loss=loss, optimizer=keras.optimizers.SGD(), feeds=feeds)


def _descent(jobs: bool) -> tos.strategies.TreeAggregate:
    return tos.strategies.TreeAggregate(
        step_size=STEP, updater="l2", reg_param=REG_PARAM, convergence_tol=0, jobs=jobs
    )


def _points(sc: Any, x: Any, y: Any) -> Any:
    from pyspark.mllib.regression import LabeledPoint

    points = [LabeledPoint(label, row) for label, row in zip(y, x, strict=True)]
    cached = sc.parallelize(points, PARTITIONS).cache()
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


def _bare(sc: Any, data: Any, iterations: int) -> float:
    """Return the seconds of one iteration."""
    began = perf_counter()
    x, y = data
    cuts = [ROWS * part // PARTITIONS for part in range(PARTITIONS + 1)]
    parts = [sc.broadcast((x[a:b], y[a:b])) for a, b in pairwise(cuts)]
    empty, weights = sc.parallelize(range(PARTITIONS), PARTITIONS), np.zeros(FEATURES)
    for iteration in range(1, iterations + 1):
        sent = sc.broadcast(weights)
        total, _, rows = empty.map(partial(_gradient, sent, parts)).treeAggregate(
            (np.zeros(FEATURES), 0.0, 0), _add, _add
        )
        step = STEP / math.sqrt(iteration)
        weights = (1 - step * REG_PARAM) * weights - step * total / rows
        sent.destroy()
    for part in parts:
        part.destroy()
    return (perf_counter() - began) / iterations


def _gradient(sent: Any, parts: Any, partition: int) -> tuple[Any, float, int]:
    x, y = parts[partition].value
    margins = x @ sent.value
    factors = 1 / (1 + np.exp(-margins)) - y
    loss = float(np.sum(np.logaddexp(0, margins) - y * margins))
    return factors @ x, loss, len(y)


def _add(one: tuple[Any, float, int], other: tuple[Any, float, int]) -> tuple[Any, float, int]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _ours(session: tos.TrainingSession, data: Any, iterations: int) -> float:
    """Return the seconds of one iteration."""
    began = perf_counter()
    session.run(data, iterations, partitions=PARTITIONS, shuffle=False)
    return (perf_counter() - began) / iterations


def run(quick: bool) -> list[Row]:
    """Measure in turns."""
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, FEATURES))
    data = x, (x @ random.normal(size=FEATURES) > 0).astype(np.float64)
    with spark() as session:
        return [_stage(session, data, quick), _jobs(session, data, quick)]


def _stage(session: Any, data: Any, quick: bool) -> Row:
    rounds, few, many = (3, 10, 1000) if quick else (7, 30, 3000)
    ours, theirs = [], []
    with _training(session, jobs=False) as training:
        points = _points(session.sparkContext, *data)
        _ours(training, data, few)
        _of_mllib(points, few)
        for _ in range(rounds):
            ours.append(_ours(training, data, many))
            theirs.append(_of_mllib(points, few))
    return _row("one job: ours / MLlib", ">= 100", ours, theirs)


def _jobs(session: Any, data: Any, quick: bool) -> Row:
    rounds, few, many = (3, 5, 20) if quick else (7, 5, 50)
    ours, theirs = [], []
    with _training(session, jobs=True) as training:
        _ours(training, data, few)
        _bare(session.sparkContext, data, few)
        for _ in range(rounds):
            ours.append(_ours(training, data, many))
            theirs.append(_bare(session.sparkContext, data, many))
    return _row("a job each: ours / bare treeAggregate", ">= 0.8", ours, theirs)


def _training(session: Any, jobs: bool) -> tos.TrainingSession:
    return tos.TrainingSession(session, _model(), strategy=_descent(jobs), batch_size=ROWS)


def _row(what: str, goal: str, ours: list[float], theirs: list[float]) -> Row:
    """Return iterations a second, as the ratio of pairs."""
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    parts = {
        "ours": milliseconds(median(ours)),
        "theirs": milliseconds(median(theirs)),
        "range of the ratio": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }
    what = f"iterations of {ROWS} x {FEATURES}, {what}"
    return Row(what, median(ratios), "x", goal, parts, len(ratios))


if __name__ == "__main__":
    program(run, __doc__)
