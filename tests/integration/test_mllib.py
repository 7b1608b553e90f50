"""The strategy treeaggregate trains as Spark's MLlib does: the same numbers after each iteration.

``make test-long`` compares all combinations, over 100 iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tos_notebook as tos
from tests.support.linear import Linear
from tests.support.long import few
from tests.support.watching import Watch
from tos_notebook.blocks.sampling import Sampler
from tos_notebook.errors import ConfigError, InvalidTransition
from tos_notebook.events import (
    CommandApplied,
    MilestoneCommitted,
    Repartitioned,
    StrategySwapped,
)
from tos_notebook.strategies import TreeAggregate
from tos_notebook.strategies.treeaggregate.trainer import CONVERGED
from tos_notebook.testing.bench import START, Deadline, Trial

ITERATIONS, MANY = 12, 100
"""The latter in long tests."""
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
    Case("logistic", "l2", 0.2, 1, True),
    Case("hinge", "l1", 1.0, 2, True),
    Case("logistic", "none", 0.2, 5, False),
    Case("squared", "l2", 0.2, 7, True),
    Case("squared", "l1", 1.0, 7, False),
]
"""Each value at least once."""


def labels(loss: str) -> Any:
    return SCORES if loss == "squared" else (SCORES > 0).astype(np.float64)


def bounds(partitions: int) -> list[int]:
    return [ROWS * part // partitions for part in range(partitions + 1)]


def of_mllib(sc: Any, case: Case, iterations: int, start: float = START, tol: float = 0.0) -> Any:
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
        initialWeights=np.full(FEATURES, float(start)),
        regParam=reg_param(case),
        regType=None if case.updater == "none" else case.updater,
        intercept=case.intercept,
        convergenceTol=tol,
    )
    weights = model.weights.toArray()
    return np.append(weights, model.intercept) if case.intercept else weights


def reg_param(case: Case) -> float:
    return 0.0 if case.updater == "none" else 0.03


def strategy_of(case: Case) -> TreeAggregate:
    return TreeAggregate(
        case.fraction, 0.5, case.updater, reg_param(case), convergence_tol=0, sampler="mllib"
    )


def of_program(case: Case, iterations: int) -> Any:
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


@pytest.mark.parametrize(
    ("case", "iterations"),
    few(
        [*((case, ITERATIONS) for case in FEW), *((case, MANY) for case in EVERY)],
        *((case, ITERATIONS) for case in FEW[1:4]),
    ),
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, Case) else str(value),
)
def test_a_program_is_trained_as_mllib_trains(
    spark_context: Any, case: Case, iterations: int
) -> None:
    same(of_program(case, iterations), of_mllib(spark_context, case, iterations))


def keras_squared() -> Any:
    """Half of the squared error, by Keras in float64."""
    import keras

    class HalfSquared(keras.losses.Loss):
        def call(self, y: Any, found: Any) -> Any:
            return keras.ops.square(keras.ops.reshape(y, (-1, 1)) - found) / 2

    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", dtype="float64")
    model = keras.Sequential([keras.Input((FEATURES,), dtype="float64"), dense])
    model.compile("adam", HalfSquared(dtype="float64"))
    return tos.capture(model), lambda: model.get_weights()[0].ravel()


def module_logistic() -> Any:
    """The log loss of a module in float64."""
    import keras
    import tensorflow as tf

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.zeros(FEATURES, tf.float64))

    model = Model()

    def loss(x: Any, y: Any) -> Any:
        found = tf.linalg.matvec(x, model.w)
        return tf.nn.sigmoid_cross_entropy_with_logits(y, found)

    feeds = [tf.TensorSpec([None, FEATURES], tf.float64), tf.TensorSpec([None], tf.float64)]
    made = tos.capture(model, loss=loss, optimizer=keras.optimizers.Adam(), feeds=feeds)
    return made, model.w.numpy


def graph_hinge() -> Any:
    """The hinge loss of a TF1 graph in float64."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x, y = v1.placeholder(tf.float64, [None, FEATURES]), v1.placeholder(tf.float64, [None])
        w = v1.get_variable("w", initializer=np.zeros(FEATURES))
        losses = tf.nn.relu(1 - (2 * y - 1) * tf.linalg.matvec(x, w))
        loss = tf.reduce_mean(losses)
        step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session = v1.Session()
        session.run(v1.global_variables_initializer())
        made = tos.capture(step, feeds=[x, y], loss=loss, session=session)
    return made, lambda: session.run(w)


@cache
def captured(make: Callable[[], Any]) -> tuple[Any, Callable[[], Any], Any]:
    program, trained = make()
    return program, trained, program.read()


def at_first(make: Callable[[], Any]) -> tuple[Any, Callable[[], Any]]:
    """Return a program with its first values, and what returns its present ones.

    It is captured once for all tests.
    """
    program, trained, first = captured(make)
    program.write(first)
    return program, trained


@pytest.mark.parametrize(
    ("make", "case"),
    [
        pytest.param(keras_squared, Case("squared", "l2", 1.0, 2, False), marks=pytest.mark.long),
        pytest.param(
            module_logistic, Case("logistic", "l1", 0.2, 2, False), marks=pytest.mark.long
        ),
        (graph_hinge, Case("hinge", "none", 0.2, 1, False)),
    ],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_a_program_of_tensorflow_is_trained_as_mllib_trains(
    spark_context: Any, train: Callable[..., Any], make: Callable[[], Any], case: Case
) -> None:
    program, trained = at_first(make)
    session = train(program, strategy=strategy_of(case), batch_size=20)
    run = session.run((X, labels(case.loss)), ITERATIONS, partitions=case.partitions, shuffle=False)
    assert run.state == "finished"
    same(trained(), of_mllib(spark_context, case, ITERATIONS, start=0.0))


def in_an_rdd(sc: Any, case: Case) -> Any:
    x, y, cuts = X, labels(case.loss), bounds(case.partitions)
    return sc.parallelize(range(case.partitions), case.partitions).flatMap(
        lambda part: [(x[i], y[i]) for i in range(cuts[part], cuts[part + 1])]
    )


@pytest.mark.parametrize(
    ("make", "case", "depth", "rdd"),
    [
        (keras_squared, Case("squared", "l2", 1.0, 7, False), 2, True),
        pytest.param(
            *(module_logistic, Case("logistic", "l1", 0.2, 2, False), 2, False),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *(graph_hinge, Case("hinge", "none", 0.2, 7, False), 1, False), marks=pytest.mark.long
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_a_spark_job_for_each_iteration_trains_as_mllib_trains(
    spark_context: Any,
    train: Callable[..., Any],
    make: Callable[[], Any],
    case: Case,
    depth: int,
    rdd: bool,
) -> None:
    """The partitions may be more than the two tasks that Spark runs at once."""
    program, trained = at_first(make)
    strategy = replace(strategy_of(case), jobs=True, depth=depth)
    session = train(program, strategy=strategy, batch_size=20)
    data = in_an_rdd(spark_context, case) if rdd else (X, labels(case.loss))
    run = session.run(data, 4, partitions=case.partitions, shuffle=False)
    assert (run.state, run.status.steps) == ("finished", 4)
    same(trained(), of_mllib(spark_context, case, 4, start=0.0))


@pytest.mark.parametrize("dies", few([False, True], True))
def test_a_task_that_fails_in_a_job_is_tried_again_and_counts_once(
    spark_context: Any, train: Callable[..., Any], dies: bool
) -> None:
    case = Case("logistic", "l2", 1.0, 2, False)

    def fail_first(partition: int, rows: Any) -> Any:
        from pyspark import TaskContext

        if partition == 0 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the disk was full, for a moment")
        yield from rows

    rows = in_an_rdd(spark_context, case)
    data = rows if dies else rows.mapPartitionsWithIndex(fail_first)
    program, trained = at_first(module_logistic)
    session = train(program, strategy=replace(strategy_of(case), jobs=True))
    run = session.start(data, 4, shuffle=False)
    if dies:
        run.chaos(tos.chaos.Kill(worker=1, at=2))
    assert run.wait(LIMIT).state == "finished"
    assert run.history["samples"].sum() == 4 * ROWS
    assert run.history["attempt"].max() == 1
    assert not any("restarted" in note for note in run.status.notes)
    same(trained(), of_mllib(spark_context, case, 4, start=0.0))


def test_a_run_of_jobs_is_steered_between_them_and_leaves_nothing_behind(
    spark_context: Any, train: Callable[..., Any]
) -> None:
    watch = Watch()
    program, _ = at_first(module_logistic)
    session = train(program, strategy=TreeAggregate(convergence_tol=0, jobs=True))
    run = session.start((X, labels("logistic")), 100_000, sinks=[watch])
    run.wait_for(milestones=2)
    run.pause()
    watch.wait_for(CommandApplied, 1)
    paused = run.status.steps
    run.repartition(3)
    run.unpause()
    watch.wait_for(Repartitioned, 1)
    run.repartition(2)
    run.swap_strategy(TreeAggregate(0.5, convergence_tol=0))
    watch.wait_for(StrategySwapped, 1)
    run.swap_strategy(TreeAggregate(convergence_tol=0, jobs=True, depth=1))
    watch.wait_for(StrategySwapped, 2)
    swapped = run.history["epoch"].max()
    run.wait_for(epochs=int(swapped) + 2)
    run.stop()
    assert run.state == "stopped"
    history = run.history
    assert history["version"].max() == history["epoch"].max() == run.status.steps > paused
    assert set(history["partition"]) == {0, 1, 2}
    whole = history[(history["epoch"] <= paused) | (history["epoch"] > swapped)]
    assert whole["samples"].sum() == len(set(whole["epoch"])) * ROWS
    assert history["samples"].sum() < len(set(history["epoch"])) * ROWS
    # A row for each worker: in the stage, too, an epoch is one step.
    assert not history.duplicated(["epoch", "partition"]).any()


def test_a_run_that_converges_stops_where_mllib_does(
    spark_context: Any, train: Callable[..., Any]
) -> None:
    case, tol = Case("logistic", "l2", 1.0, 2, False), 0.05
    program, trained = at_first(module_logistic)
    session = train(program, strategy=replace(strategy_of(case), convergence_tol=tol))
    run = session.run((X, labels("logistic")), 200, partitions=2, shuffle=False)
    assert (run.state, run.status.reason) == ("stopped", CONVERGED)
    assert 2 < run.status.steps < 200
    same(trained(), of_mllib(spark_context, case, 200, start=0.0, tol=tol))


def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_stopped(
    spark_context: Any, train: Callable[..., Any], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"strategy": TreeAggregate(0.5, convergence_tol=0)}
    data = X, labels("logistic")
    program, trained = at_first(module_logistic)
    train(program, **options).run(data, 40, seed=3)
    whole = trained().tobytes()

    watch = Watch()
    program, trained = at_first(module_logistic)
    session = train(program, checkpoint_dir=str(tmp_path), **options)
    run = session.start(data, 40, seed=3, checkpoint_every=4, sinks=[watch])
    run.chaos(tos.chaos.Pause(0.02, any=2))
    watch.wait_for(MilestoneCommitted, 12)
    run.stop()
    session.close()
    assert trained().tobytes() != whole

    program, trained = at_first(module_logistic)
    continued = tos.resume(run.uri, program=program, spark=spark_context).wait(LIMIT)
    assert continued.state == "finished"
    assert trained().tobytes() == whole


def test_what_cannot_be_sampled_is_refused_before_anything_is_trained(
    train: Callable[..., Any],
) -> None:
    program, _ = at_first(module_logistic)
    session = train(program, strategy=TreeAggregate(0.2, sampler="mllib"))
    with pytest.raises(ConfigError, match="shuffle: expected False with sampler='mllib'"):
        session.start((X, labels("logistic")))
    with pytest.raises(ConfigError, match="repartition_every: expected none with sampler='mllib'"):
        session.start((X, labels("logistic")), shuffle=False, repartition_every=1)
    run = session.start((X, labels("logistic")), 10_000, partitions=2, shuffle=False)
    with pytest.raises(InvalidTransition, match="draws what MLlib draws of the same partitions"):
        run.repartition(1)
    run.stop()

    def stream(context: Any) -> Any:
        import tensorflow as tf

        return tf.data.Dataset.from_tensors((tf.zeros(FEATURES, tf.float64), np.float64(0)))

    with pytest.raises(ConfigError, match="got a stream"):
        session.start(stream, partitions=1)


def test_an_optimizer_that_scales_the_loss_is_refused(train: Callable[..., Any]) -> None:
    import keras

    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    with pytest.raises(ConfigError, match=r"takes the optimizer's place.*scales the loss"):
        train(model, strategy="treeaggregate")


def test_a_callback_changes_nothing_of_what_is_trained(train: Callable[..., Any]) -> None:
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-9), "mse")
    first, found = model.get_weights(), []
    for callbacks in ([], [keras.callbacks.Callback()]):
        model.set_weights(first)
        session = train(model, strategy=TreeAggregate(step_size=0.1, convergence_tol=0))
        run = session.run((X, labels("squared")), 4, partitions=1, callbacks=callbacks)
        assert (run.state, run.settings.learning_rate) == ("finished", None)
        found.append([weight.tobytes() for weight in model.get_weights()])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("fraction", "partitions"),
    few(itertools.product([0.02, 0.2, 0.4, 0.41, 0.9], [1, 3]), (0.2, 3), (0.41, 3)),
)
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
