"""A TF1-style graph that is cut: the gradients of a batch, and the update of their mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import few
from tests.unit.program.support import Lone, Trainers, assert_one_call_does_both, batches
from tests.unit.program.test_graph import OPTIMIZERS, Linear
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.program.graph.program import GraphProgram

v1 = tf.compat.v1

ROWS = 24
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, 3)).astype("float32")
Y = (X @ [1.0, -2.0, 0.5] + 0.3).astype("float32")


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


@cache
def captured(name: str) -> GraphProgram:
    """Capture a graph for tests that leave its session alone: it is exported for all once."""
    with tf.Graph().as_default():
        return Linear(OPTIMIZERS[name]()).capture()


def assert_trains_as_whole(
    program: GraphProgram, calls: int = 1, on_worker: bool = True
) -> Trainers:
    """Train in two parts and whole, by the same batches, and compare every bit."""
    whole, cut = Lone(program, X, Y), Trainers(program, X, Y, on_worker=on_worker)
    for batch in batches((X, Y), 5) * calls:
        expected = whole.train(5, batch)
        assert cut.step([batch]) == expected.values
    for name, value in whole.tensors.items():
        np.testing.assert_array_equal(cut.tensors[name], value, name)
    return cut


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam"))
def test_gradients_and_update_are_the_whole_step_to_the_bit(name: str) -> None:
    assert_trains_as_whole(captured(name), calls=2, on_worker=False)


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam"))
def test_workers_with_unequal_batches_train_as_one_process_does(name: str) -> None:
    program = captured(name)
    whole, cut = Lone(program, X, Y), Trainers(program, X, Y)
    for _ in range(10):
        whole.train(ROWS)
        cut.step([(X[:3], Y[:3]), (X[3:20], Y[3:20]), (X[20:], Y[20:])])
    for parameter, value in whole.tensors.items():
        np.testing.assert_allclose(cut.tensors[parameter], value, rtol=1e-4)


def test_what_counts_steps_is_part_of_the_update() -> None:
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.2, step, 1, 0.5)
    model = Linear(v1.train.GradientDescentOptimizer(rate), global_step=step)
    cut = assert_trains_as_whole(model.capture())
    assert [state.tolist() for state in cut.updater.state()] == [5]


class Normalized(Linear):
    """Keeps the inputs' moving mean: a batch moves it, in an operation before the update."""

    def __init__(self) -> None:
        self.x = v1.placeholder(tf.float32, [None, 3], "x")
        self.y = v1.placeholder(tf.float32, [None], "y")
        start = tf.zeros([3])
        self.mean = v1.get_variable("mean", initializer=start, trainable=False, use_resource=True)
        self.first = v1.get_variable("first", initializer=tf.constant([0.1, 0.2, 0.3]))
        moved = self.mean.assign_add(0.1 * (tf.reduce_mean(self.x, 0) - self.mean))
        with tf.control_dependencies([moved]):
            error = tf.linalg.matvec(self.x - self.mean, self.first) - self.y
            self.loss = tf.reduce_mean(error**2)
            self.train = v1.train.AdamOptimizer(0.05).minimize(self.loss)
        self.session = v1.Session()


def test_what_a_batch_moves_is_part_of_the_gradients() -> None:
    model = Normalized()
    assert_trains_as_whole(model.capture(params=[model.first, model.mean]))


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam"))
def test_a_step_in_one_call_with_the_next_gradients_is_the_same_to_the_bit(name: str) -> None:
    assert_one_call_does_both(captured(name), (X, Y), 4)


def test_one_call_takes_the_mean_of_statistics_before_a_batch_moves_them() -> None:
    model = Normalized()
    assert_one_call_does_both(model.capture(params=[model.first, model.mean]), (X, Y), 4)


def test_moved_statistics_are_averaged() -> None:
    model = Normalized()
    cut = Trainers(model.capture(params=[model.first, model.mean]), X, Y)
    cut.step([(X[:5], Y[:5]), (X[5:], Y[5:])])
    np.testing.assert_allclose(cut.tensors["mean"], 0.1 * X.mean(0), rtol=1e-5, atol=1e-7)


def test_averages_of_the_weights_are_part_of_the_update() -> None:
    model = Linear()
    averages = v1.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([model.train]):
        model.train = averages.apply([model.first])
    assert_trains_as_whole(
        model.capture(params=[model.first, model.second, averages.average(model.first)])
    )


def test_a_train_operation_may_be_the_loss_after_the_update() -> None:
    """As `tf.slim` makes it; the loss is that of the weights before."""
    model = Linear()
    with tf.control_dependencies([model.train]):
        model.train = model.loss = tf.identity(model.loss)
    assert_trains_as_whole(model.capture())


def test_constants_may_be_part_of_the_update() -> None:
    rate = v1.placeholder(tf.float32, [], "rate")
    model = Linear(v1.train.GradientDescentOptimizer(rate))
    assert_trains_as_whole(model.capture(feed_dict={rate: 0.2}))


def test_a_count_of_steps_may_be_part_of_gradients_and_metrics() -> None:
    """Workers are sent it with the parameters; it is not shown as one of the model's."""
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.1, step, 1, 0.5)
    model = Linear(v1.train.GradientDescentOptimizer(rate), global_step=step)
    program = model.capture(metrics={"rate": rate})
    cut = Trainers(program, X, Y)
    rates = [cut.step([batch])["rate"] for batch in batches((X, Y), 8)]
    assert rates == pytest.approx([0.1, 0.05, 0.025])
    assert cut.tensors["global_step"] == 3
    assert cut.layout.of_model == program.layout
    program.for_gradients().write(cut.buffer)
    assert model.session.run(step) == 3


def test_two_optimizers_may_each_update_their_own_parameters() -> None:
    model = Linear()
    other = v1.train.AdamOptimizer(0.1)
    first = v1.train.GradientDescentOptimizer(0.1).minimize(model.loss, var_list=[model.first])
    model.train = [first, other.minimize(model.loss, var_list=[model.second])]
    assert_trains_as_whole(model.capture())


def test_the_learning_rate_of_the_update_can_be_set() -> None:
    rate = v1.get_variable("rate", initializer=0.1, trainable=False)
    model = Linear(v1.train.GradientDescentOptimizer(rate))
    cut = Trainers(model.capture(learning_rate=rate), X, Y)
    before = cut.buffer.copy()
    cut.updater.set_learning_rate(0.0)
    cut.step([(X, Y)])
    np.testing.assert_array_equal(cut.buffer, before)
    cut.updater.set_learning_rate(0.3)
    cut.step([(X, Y)])
    model.session.run(rate.assign(0.3))
    np.testing.assert_allclose(cut.tensors["first"], model.run((X, Y), ROWS)[0][0], rtol=1e-5)


def test_gradients_that_the_graph_clips_are_clipped_on_each_worker() -> None:
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    model = Linear(optimizer)
    gradients = optimizer.compute_gradients(model.loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in gradients], 0.1)
    model.train = optimizer.apply_gradients(zip(clipped, [v for _, v in gradients], strict=True))
    assert_trains_as_whole(model.capture())


def test_parameters_may_have_one_gradient_in_common() -> None:
    model = Linear()
    (gradient,) = tf.gradients(model.loss, [model.hidden])
    common = tf.reshape(tf.reduce_sum(gradient, 0), [2, 1])
    other = v1.get_variable("other", initializer=tf.ones([2, 1]))
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    model.train = optimizer.apply_gradients([(common, model.second), (common, other)])
    assert_trains_as_whole(model.capture(params=[model.second, other]))


def test_the_optimizers_state_continues_where_it_was_copied() -> None:
    step = v1.train.get_or_create_global_step()
    program = Linear(v1.train.AdamOptimizer(0.05), global_step=step).capture()
    first, second = Trainers(program, X, Y), Trainers(program, X, Y)
    for _ in range(3):
        first.step([(X, Y)])
    second.updater.restore(first.updater.state())
    second.buffer[:] = first.buffer
    for cut in (first, second):
        cut.step([(X, Y)])
    np.testing.assert_array_equal(first.buffer, second.buffer)


def by_hand() -> Linear:
    model = Linear()
    (gradient,) = tf.gradients(model.loss, [model.first])
    model.train = model.first.assign_sub(0.1 * gradient)
    return model


def sparse(optimizer: Any) -> Linear:
    model = Linear()
    model.x = v1.placeholder(tf.int64, [None, 3], "index")
    output = tf.reduce_sum(tf.nn.embedding_lookup(model.first, model.x), [1, 2])
    model.loss = tf.reduce_mean((output - model.y) ** 2)
    model.train = optimizer.minimize(model.loss)
    return model


def twice() -> Linear:
    model = Linear()
    again = v1.train.AdamOptimizer(0.1).minimize(model.loss)
    model.train = [model.train, again]
    return model


def in_turn() -> Linear:
    model = Linear()
    first = v1.train.GradientDescentOptimizer(0.1).minimize(model.loss, var_list=[model.first])
    with tf.control_dependencies([first]):
        loss = tf.reduce_sum(model.second) * tf.reduce_sum(model.first.read_value())
        model.train = v1.train.AdamOptimizer(0.1).minimize(loss, var_list=[model.second])
    return model


def rate_of_a_batch() -> Linear:
    rate = v1.placeholder(tf.float32, [None], "rates")
    model = Linear(v1.train.GradientDescentOptimizer(tf.reduce_mean(rate)))
    model.x = [model.x, rate]
    return model


def measured_after() -> Linear:
    model = Linear()
    with tf.control_dependencies([model.train]):
        model.loss = tf.norm(model.first.read_value())
    return model


def conditional() -> Linear:
    model = Linear()

    def update() -> tf.Tensor:
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        gradients = [(tf.ones([3, 2]), model.first)]
        with tf.control_dependencies([optimizer.apply_gradients(gradients)]):
            return tf.constant(1)

    model.train = tf.cond(model.loss > 0, update, lambda: tf.constant(0))
    return model


def reads_slots() -> Linear:
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    model = Linear(optimizer)
    model.loss = model.loss + tf.norm(optimizer.get_slot(model.first, "momentum"))
    return model


def shared_noise() -> Linear:
    noise = tf.random.uniform([], seed=1)
    model = Linear(v1.train.GradientDescentOptimizer(noise))
    model.loss = model.loss * noise
    return model


def other_variables() -> Linear:
    model = Linear()
    model.capture = partial(Linear.capture, model, params=[model.first])
    return model


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (by_hand, r"AssignSub.*\) changes parameter 'first' by hand"),
        (lambda: sparse(v1.train.MomentumOptimizer(0.1, 0.9)), "SparseApplyMomentum.* sparse"),
        (lambda: sparse(v1.train.GradientDescentOptimizer(0.1)), "Scatter.*'first' by a sparse"),
        (lambda: sparse(v1.train.AdamOptimizer(0.1)), "Assign.*'first' by hand or by a sparse"),
        (twice, "'Adam/.*' and 'GradientDescent/.*' both update parameter"),
        (in_turn, "a gradient needs operation 'Read/ReadVariableOp' .*after an update"),
        (rate_of_a_batch, "is part of the update, and needs 'rates:0' of the batch"),
        (measured_after, "a metric or a gradient needs operation .*after an update"),
        (conditional, "If.* changes parameter 'first' by hand"),
        (reads_slots, "'first/Momentum:0', which the optimizer changes, is used in both"),
        (shared_noise, r"RandomUniform\)"),
        (other_variables, "'second', which is not one of its parameters"),
    ],
)
def test_a_graph_without_a_place_to_cut_says_which_operation(
    make: Callable[[], Linear], cause: str
) -> None:
    model = make()
    feeds = [*model.x, model.y] if isinstance(model.x, list) else [model.x, model.y]
    program = model.capture(feeds=feeds)
    columns = [(feed.dtype.name, tuple(feed.shape[1:])) for feed in feeds]
    program.export(columns)
    with pytest.raises(UnsupportedProgram, match=cause) as raised:
        program.for_gradients().export(columns)
    assert 'of="parameters"' in str(raised.value)
