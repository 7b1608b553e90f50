"""The strategy treeaggregate trains as Spark's MLlib does: the same numbers after each iteration.

``make test-mllib`` compares all combinations, over 100 iterations.
"""

from __future__ import annotations

import itertools
import os
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.linear import Linear
from tos_notebook.blocks.sampling import Sampler
from tos_notebook.strategies import TreeAggregate
from tos_notebook.testing.bench import START, Deadline, Trial

ALL = "TOS_MLLIB" in os.environ
ITERATIONS = 100 if ALL else 12
LIMIT = 60.0
ROWS, FEATURES = 83, 5
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, FEATURES))
SCORES = X @ RANDOM.normal(size=FEATURES) + 0.3 * RANDOM.normal(size=ROWS) - 0.5


class Case(NamedTuple):
    """One way to train."""

    loss: str
    updater: str
    fraction: float
    partitions: int
    intercept: bool


EVERY = [
    Case(*values)
    for values in itertools.product(
        ("squared", "logistic", "hinge"),
        ("none", "l2", "l1"),
        (1.0, 0.2),
        (1, 2, 5, 7),
        (False, True),
    )
]

FEW = [
    Case("squared", "none", 1.0, 1, False),
    Case("logistic", "l2", 0.2, 1, True),
    Case("hinge", "l1", 1.0, 2, True),
    Case("squared", "l1", 0.2, 2, False),
    Case("logistic", "none", 0.2, 5, False),
    Case("hinge", "l2", 1.0, 5, True),
    Case("squared", "l2", 0.2, 7, True),
    Case("logistic", "l1", 1.0, 7, False),
    Case("hinge", "none", 0.2, 7, True),
]
"""Each value at least twice."""


def labels(loss: str) -> Any:
    return SCORES if loss == "squared" else (SCORES > 0).astype(np.float64)


def bounds(partitions: int) -> list[int]:
    return [ROWS * part // partitions for part in range(partitions + 1)]


def of_mllib(sc: Any, case: Case, iterations: int = ITERATIONS, tol: float = 0.0) -> Any:
    """Train by MLlib; return weights, and behind them the intercept if there is one."""
    from pyspark.mllib import classification, regression
    from pyspark.mllib.regression import LabeledPoint

    x, y, cuts = X, labels(case.loss), bounds(case.partitions)
    points = sc.parallelize(range(case.partitions), case.partitions).flatMap(
        lambda part: [LabeledPoint(y[i], x[i]) for i in range(cuts[part], cuts[part + 1])]
    )
    kind: Any = {
        "squared": regression.LinearRegressionWithSGD,
        "logistic": classification.LogisticRegressionWithSGD,
        "hinge": classification.SVMWithSGD,
    }[case.loss]
    model = kind.train(
        points,
        iterations=iterations,
        step=0.5,
        miniBatchFraction=case.fraction,
        initialWeights=np.full(FEATURES, float(START)),
        regParam=reg_param(case),
        regType=None if case.updater == "none" else case.updater,
        intercept=case.intercept,
        convergenceTol=tol,
    )
    weights = model.weights.toArray()
    return np.append(weights, model.intercept) if case.intercept else weights


def reg_param(case: Case) -> float:
    return 0.0 if case.updater == "none" else 0.03


def strategy_of(case: Case, tol: float = 0.0) -> TreeAggregate:
    return TreeAggregate(
        case.fraction, 0.5, case.updater, reg_param(case), convergence_tol=tol, sampler="mllib"
    )


def of_program(case: Case, iterations: int = ITERATIONS) -> Any:
    """Train a program in this process, by the strategy's own workers and server."""
    program = Linear(case.loss, FEATURES, case.intercept)
    with Trial(strategy_of(case), Deadline(LIMIT)).bench(program) as bench:
        if case.intercept:
            # MLlib begins with that of its features, whatever the weights are.
            layout = program.spec.layout
            buffer, _ = bench.run.parameters.read()
            layout.tensors(buffer)["b"][...] = 1
            bench.run.parameters.load(buffer)
        bench.begin((X, labels(case.loss)), case.partitions, range(iterations))
        bench.work()
        found = program.spec.layout.tensors(bench.run.parameters.read()[0])
        return np.concatenate([np.atleast_1d(value) for value in found.values()])


def same(found: Any, expected: Any) -> None:
    off = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert off <= 1e-10, f"{off:g}: {found} {expected}"


@pytest.mark.parametrize("case", EVERY if ALL else FEW, ids=lambda case: "-".join(map(str, case)))
def test_a_program_is_trained_as_mllib_trains(spark_context: Any, case: Case) -> None:
    same(of_program(case), of_mllib(spark_context, case))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("fraction", [0.02, 0.2, 0.4, 0.41, 0.9])
def test_samples_are_those_of_the_jvm(spark_context: Any, fraction: float, partitions: int) -> None:
    rows = 700
    rdd = spark_context.parallelize(range(rows), partitions)
    sizes = rdd.glom().map(len).collect()
    drawn = rdd._to_java_object_rdd()
    for iteration in (1, 2, 40):
        expected = list(drawn.sample(False, fraction, 42 + iteration).collect())
        sampler = Sampler(fraction, "mllib")
        found = [
            sum(sizes[:part]) + sampler.draw(size, iteration - 1, part)
            for part, size in enumerate(sizes)
        ]
        assert np.concatenate(found).tolist() == expected
