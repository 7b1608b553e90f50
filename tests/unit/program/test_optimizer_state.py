"""Optimizer state: which variables it is, and that it can be reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.unit.program.support import Lone
from tos_notebook.archive.spec import read_spec
from tos_notebook.common.arrays import Array
from tos_notebook.program.capture import capture
from tos_notebook.program.export.base import Program

v1 = tf.compat.v1
optimizers, schedules = keras.optimizers, keras.optimizers.schedules

X = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 8)


pytestmark = pytest.mark.usefixtures("fresh_keras")


def dense(optimizer: Any, *parts: Any) -> Program:
    """Capture a linear classifier: a kernel and a bias, metrics, and what else is put in."""
    model = keras.Sequential([keras.Input((5,)), *parts, layers.Dense(3, name="out")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return capture(model)


def kinds(program: Program) -> list[str]:
    """Return the last words of the state's names, such as momentum, without repetition."""
    return list(dict.fromkeys(name.split("_")[-1] for name in program.optimizer_state))


def state(lone: Lone) -> Array:
    """Return a copy of the optimizer state, as one vector."""
    return np.concatenate([v.numpy().ravel() for v in lone.variables.optimizer_state])


KERAS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "sgd": (lambda: optimizers.SGD(0.1), []),
    "momentum": (lambda: optimizers.SGD(0.1, momentum=0.9), ["momentum"]),
    "adam": (lambda: optimizers.Adam(0.01), ["momentum", "velocity"]),
    "adamw": (lambda: optimizers.AdamW(0.01), ["momentum", "velocity"]),
    "adagrad": (lambda: optimizers.Adagrad(0.1), ["accumulator"]),
    "averaged": (lambda: optimizers.SGD(0.1, momentum=0.9, use_ema=True), ["momentum"]),
    "accumulated": (
        lambda: optimizers.Adam(0.01, gradient_accumulation_steps=2), ["momentum", "velocity"],
    ),
    "scheduled": (
        lambda: optimizers.Adam(schedules.ExponentialDecay(0.1, 1, 0.5)),
        ["momentum", "velocity"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERAS)
def test_the_state_of_keras_optimizers_is_found_and_nothing_else_is(name: str) -> None:
    """No counter, learning rate, metric, random seed, average of weights or moving statistic."""
    make, expected = KERAS[name]
    program = dense(make(), layers.BatchNormalization(), layers.Dropout(0.1))
    assert kinds(program) == expected
    # For scale, offset, kernel and bias.
    assert len(program.optimizer_state) == 4 * len(expected)
    spec = read_spec(program.export([("float32", (5,)), ("int64", ())]))
    assert spec.optimizer_state == program.optimizer_state


def test_state_inside_a_wrapper_that_scales_the_loss_is_found() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    program = dense(optimizers.Adam(0.01))
    assert len(program.optimizer_state) == 4


class Adversaries(keras.Model):
    """Has a second optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.out = layers.Dense(3)
        self.second = optimizers.Adagrad(0.1)

    def call(self, x: Any) -> Any:
        return self.out(x)


def test_state_of_an_optimizer_of_the_models_own_is_found() -> None:
    model = Adversaries()
    model(X)
    model.compile(optimizers.SGD(0.1, momentum=0.9), "mse")
    model.second.build(model.trainable_variables)
    assert sorted(kinds(capture(model))) == ["accumulator", "momentum"]


def linear(optimizer: Any, references: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return features, labels, loss and train operation of a TF1-style linear regression."""
    x = v1.placeholder(tf.float32, [None, 5])
    y = v1.placeholder(tf.float32, [None])
    w = v1.get_variable("w", initializer=tf.ones([5, 1]), use_resource=not references)
    b = v1.get_variable("scope/b", initializer=tf.zeros([1]), use_resource=not references)
    loss = tf.reduce_mean((tf.squeeze(tf.matmul(x, w) + b, 1) - y) ** 2)
    return x, y, loss, optimizer.minimize(loss, v1.train.get_or_create_global_step())


def captured(x: Any, y: Any, loss: Any, train: Any, **options: Any) -> Program:
    session = v1.Session()
    session.run(v1.global_variables_initializer())
    return capture(train, feeds=[x, y], loss=loss, session=session, **options)


GRAPH: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "sgd": (lambda: v1.train.GradientDescentOptimizer(0.1), []),
    "momentum": (lambda: v1.train.MomentumOptimizer(0.1, 0.9), ["Momentum"]),
    "adam": (lambda: v1.train.AdamOptimizer(0.1), ["Adam", "Adam_1"]),
    "adagrad": (lambda: v1.train.AdagradOptimizer(0.1), ["Adagrad"]),
    "rmsprop": (lambda: v1.train.RMSPropOptimizer(0.1), ["RMSProp", "RMSProp_1"]),
}


@pytest.mark.parametrize("references", [False, True], ids=["resources", "references"])
@pytest.mark.parametrize("name", GRAPH)
def test_the_state_of_a_graphs_optimizer_is_found(name: str, references: bool) -> None:
    make, expected = GRAPH[name]
    with tf.Graph().as_default():
        program = captured(*linear(make(), references))
    names = [f"{parameter}/{name}" for parameter in ("w", "scope/b") for name in expected]
    assert sorted(program.optimizer_state) == sorted(names)


def test_averages_and_the_state_of_other_variables_are_left_out() -> None:
    with tf.Graph().as_default():
        x, y, loss, train = linear(v1.train.MomentumOptimizer(0.1, 0.9))
        w, b = v1.trainable_variables()
        average = v1.train.ExponentialMovingAverage(0.9).apply([w, b])
        program = captured(x, y, loss, [train, average], params=[w])
    assert program.optimizer_state == ("w/Momentum",)


def test_state_of_an_optimizer_in_a_scope_is_found() -> None:
    with tf.Graph().as_default(), v1.variable_scope("train"):
        program = captured(*linear(v1.train.MomentumOptimizer(0.1, 0.9)))
    assert len(program.optimizer_state) == 2


def test_state_of_sparse_gradients_is_found_where_assignments_update_them() -> None:
    with tf.Graph().as_default():
        index = v1.placeholder(tf.int64, [None])
        table = v1.get_variable("table", initializer=tf.ones([5, 2]))
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, index) ** 2)
        train = v1.train.AdamOptimizer(0.1).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            program = capture(train, feeds=[index], loss=loss, session=session)
    assert program.optimizer_state == ("table/Adam", "table/Adam_1")


def graph_adam() -> Lone:
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        rate = v1.train.exponential_decay(0.1, step, 1, 0.5)
        return Lone(captured(*linear(v1.train.AdamOptimizer(rate))), X, Y.astype(np.float32))


def keras_adam(**options: Any) -> Lone:
    schedule = schedules.ExponentialDecay(0.1, 1, 0.5)
    return Lone(dense(optimizers.Adam(schedule, **options)), X, Y)


ADAMS = pytest.mark.parametrize("make", [keras_adam, graph_adam], ids=["keras", "graph"])


def change(lone: Lone, start: Array) -> Array:
    """Return how one step from `start` changes the parameters, as one vector."""
    lone.buffer[:] = start
    lone.train(8)
    (after,), (before,) = (lone.program.layout.vectors(b) for b in (lone.buffer, start))
    return after.astype(np.float64) - before


@ADAMS
def test_reset_state_is_zero_and_a_schedule_goes_on(make: Callable[[], Lone]) -> None:
    """Adam's first step is as long as the learning rate: its correction restarts, too."""
    lone = make()
    start = lone.buffer.copy()
    first = change(lone, start)
    for halvings in (1, 2, 3):
        lone.runner.reset_optimizer_state()
        assert not state(lone).any()
        np.testing.assert_allclose(change(lone, start), first / 2**halvings, rtol=2e-3, atol=1e-6)
        assert state(lone).any()


@ADAMS
def test_a_run_resets_the_schedule_too(make: Callable[[], Lone]) -> None:
    lone = make()
    start = lone.buffer.copy()
    first = change(lone, start)
    lone.runner.reset_optimizer_state()
    change(lone, start)
    lone.runner.reset()
    np.testing.assert_array_equal(change(lone, start), first)


def test_state_is_reset_to_what_it_was_captured_with() -> None:
    lone = Lone(dense(optimizers.Adagrad(0.1, initial_accumulator_value=0.25)), X, Y)
    before = state(lone)
    lone.train(8)
    assert (state(lone) != before).any()
    lone.runner.reset_optimizer_state()
    np.testing.assert_array_equal(state(lone), before)


def test_resetting_the_state_leaves_accumulated_gradients_and_their_count() -> None:
    """Else exchanges that come before enough of them would stop the training altogether."""
    lone = keras_adam(gradient_accumulation_steps=3)
    start = lone.buffer.copy()
    for number in range(1, 7):
        lone.runner.reset_optimizer_state()
        moved = change(lone, start).any()
        assert moved == (number % 3 == 0)


def test_capturing_leaves_the_optimizers_schedule_where_it_was() -> None:
    schedule = schedules.ExponentialDecay(0.1, 1, 0.5)
    optimizer = optimizers.SGD(schedule)
    dense(optimizer).export([("float32", (5,)), ("int64", ())])
    assert optimizer._learning_rate is schedule


def test_the_summary_says_how_much_optimizer_state_there_is() -> None:
    assert "in 2 tensors, 4 of optimizer state, fed" in dense(optimizers.Adam(0.01)).summary
    assert "state" not in dense(optimizers.SGD(0.01)).summary
