"""TF1-style graphs: what a worker computes is what the session would have computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import few
from tests.unit.program.support import Lone, as_sparse, assert_same, batches
from tos_notebook.common.arrays import Array
from tos_notebook.errors import InvalidTransition
from tos_notebook.program.capture import capture
from tos_notebook.program.graph.program import GraphProgram

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def data() -> tuple[Array, Array]:
    """Eleven rows: with batches of four, the last one is smaller."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(11, 3)).astype(np.float32)
    return x, (x @ [1.0, -2.0, 0.5] + 0.3).astype(np.float32)


class Linear:
    """A linear regression with a hidden layer of two, in the default graph."""

    def __init__(self, optimizer: Any = None, **options: Any) -> None:
        self.x = v1.placeholder(tf.float32, [None, 3], "x")
        self.y = v1.placeholder(tf.float32, [None], "y")
        first = tf.constant([[0.1, 0.2], [0.3, -0.4], [-0.5, 0.6]])
        self.first = v1.get_variable("first", initializer=first)
        self.second = v1.get_variable("second", initializer=tf.constant([[0.7], [-0.8]]))
        self.hidden = tf.tanh(tf.matmul(self.x, self.first))
        self.output = tf.squeeze(tf.matmul(self.hidden, self.second), 1)
        self.loss = tf.reduce_mean((self.output - self.y) ** 2)
        optimizer = optimizer or v1.train.GradientDescentOptimizer(0.1)
        self.train = optimizer.minimize(self.loss, **options)
        self.session = v1.Session()

    def capture(self, **options: Any) -> GraphProgram:
        self.session.run(v1.global_variables_initializer())
        settings = {"feeds": [self.x, self.y], "session": self.session, "loss": self.loss}
        program = capture(self.train, **(settings | options))
        assert isinstance(program, GraphProgram)
        return program

    def run(self, columns: tuple[Array, ...], size: int) -> tuple[list[Array], float]:
        """Train in the session; return the parameters and the samples' mean loss."""
        total = 0.0
        for x, y in batches(columns, size):
            feed = {self.x: x, self.y: y}
            _, loss = self.session.run([self.train, self.loss], feed)
            total += float(loss) * len(x)
        return self.session.run([self.first, self.second]), total / len(columns[0])


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.05),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.02, momentum=0.5),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.2),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.2),
}


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam"))
def test_training_calls_equal_the_same_steps_in_the_session(
    name: str, data: tuple[Array, Array]
) -> None:
    """Optimizer state included: the second call goes on where the first one stopped."""
    model = Linear(OPTIMIZERS[name]())
    lone = Lone(model.capture(), *data)
    assert list(lone.tensors) == ["first", "second"]  # Adam's state stays local
    for _ in range(2):
        trained = lone.train(4)
        expected, loss = model.run(data, 4)
        assert_same(list(lone.tensors.values()), expected)
        assert trained.values["loss"] == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam"))
def test_reset_puts_optimizer_state_back_each_time(name: str, data: tuple[Array, Array]) -> None:
    lone = Lone(Linear(OPTIMIZERS[name]()).capture(), *data)
    start, found = lone.buffer.copy(), []
    for _ in range(3):
        lone.buffer[...] = start
        lone.train(4)
        lone.train(4)
        found.append(lone.buffer.copy())
        lone.runner.reset()
    assert_same([found[1], found[2]], [found[0], found[0]], rtol=0)


def test_optimizer_state_starts_as_the_session_left_it(data: tuple[Array, Array]) -> None:
    """A model that was trained before capture goes on with its momentum."""
    model = Linear(v1.train.AdamOptimizer(0.05))
    program = model.capture()
    model.run(data, 4)
    lone = Lone(program, *data)
    lone.train(4)
    assert_same(list(lone.tensors.values()), model.run(data, 4)[0])


def test_a_global_step_counts_on_the_worker_alone(data: tuple[Array, Array]) -> None:
    step = v1.train.get_or_create_global_step()
    model = Linear(global_step=step)
    program = model.capture(metrics={"step": tf.identity(step)})
    lone = Lone(program, *data)
    lone.train(4)
    assert len(program.layout) == 2
    assert lone.train(11).values["step"] == pytest.approx(3, abs=1)


def test_a_decaying_learning_rate_decays(data: tuple[Array, Array]) -> None:
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.2, step, 1, 0.5)
    model = Linear(v1.train.GradientDescentOptimizer(rate), global_step=step)
    lone = Lone(model.capture(), *data)
    lone.train(4)
    assert_same(list(lone.tensors.values()), model.run(data, 4)[0])


def test_a_learning_rate_variable_can_be_set(data: tuple[Array, Array]) -> None:
    rate = v1.get_variable("rate", initializer=0.1, trainable=False)
    model = Linear(v1.train.GradientDescentOptimizer(rate))
    program = model.capture(learning_rate=rate)
    lone = Lone(program, *data)
    assert program.has_learning_rate
    assert program.learning_rate == pytest.approx(0.1)
    lone.runner.set_learning_rate(0.0)
    before = lone.buffer.copy()
    lone.train(4)
    np.testing.assert_array_equal(lone.buffer, before)
    lone.runner.set_learning_rate(0.3)
    model.session.run(rate.assign(0.3))
    lone.train(4)
    assert_same(list(lone.tensors.values()), model.run(data, 4)[0])


def test_a_learning_rate_that_was_left_trainable_is_not_synchronised(
    data: tuple[Array, Array],
) -> None:
    """Or the next exchange would undo what was set."""
    rate = v1.get_variable("rate", initializer=0.1)
    lone = Lone(Linear(v1.train.GradientDescentOptimizer(rate)).capture(learning_rate=rate), *data)
    assert list(lone.tensors) == ["first", "second"]
    lone.runner.set_learning_rate(0.0)
    before = lone.buffer.copy()
    lone.train(4)
    np.testing.assert_array_equal(lone.buffer, before)


def test_setting_a_learning_rate_that_is_no_variable_is_refused(
    data: tuple[Array, Array],
) -> None:
    program = Linear().capture()
    assert (program.has_learning_rate, program.learning_rate) == (False, None)
    with pytest.raises(InvalidTransition, match="learning_rate"):
        Lone(program, *data).runner.set_learning_rate(0.1)


def test_only_the_named_parameters_are_synchronised(data: tuple[Array, Array]) -> None:
    """The others are trained too, by each worker for itself."""
    model = Linear()
    program = model.capture(params=[model.second])
    lone = Lone(program, *data)
    assert list(lone.tensors) == ["second"]
    lone.train(4)
    lone.train(4)
    model.run(data, 4)
    assert_same(lone.tensors["second"], model.run(data, 4)[0][1])


def test_without_a_loss_there_are_no_values(data: tuple[Array, Array]) -> None:
    lone = Lone(Linear().capture(loss=None), *data)
    before = lone.buffer.copy()
    assert lone.train(4).values == {}
    assert (lone.buffer != before).any()


def test_metrics_are_means_over_samples_in_their_order(data: tuple[Array, Array]) -> None:
    """Weighted by the batches' sizes: the last batch counts for less."""
    model = Linear(v1.train.GradientDescentOptimizer(0.0))
    metrics = {"bias": tf.reduce_mean(model.output - model.y), "rows": tf.size(model.y)}
    lone = Lone(model.capture(metrics=metrics), *data)
    values = lone.train(4).values
    output = model.session.run(model.output, {model.x: data[0]})
    assert list(values) == ["loss", "bias", "rows"]
    assert values["loss"] == pytest.approx(((output - data[1]) ** 2).mean(), rel=1e-5)
    assert values["bias"] == pytest.approx((output - data[1]).mean(), rel=1e-5)
    assert values["rows"] == pytest.approx((4 * 4 + 4 * 4 + 3 * 3) / 11)


def test_a_streaming_metric_that_nobody_initialised_does_not_matter(
    data: tuple[Array, Array],
) -> None:
    """Variables that the train operation does not need are none of its business."""
    model = Linear()
    v1.metrics.mean(model.output)
    lone = Lone(model.capture(), *data)
    assert lone.train(4).values["loss"] > 0


def test_a_loss_of_unknown_rank_is_taken_if_it_is_a_scalar(data: tuple[Array, Array]) -> None:
    model = Linear()
    vague = v1.placeholder_with_default(model.loss, None)
    lone = Lone(model.capture(loss=vague), *data)
    assert lone.train(11).values["loss"] == pytest.approx(model.run(data, 11)[1], rel=1e-5)


def test_constants_feed_what_no_record_feeds(data: tuple[Array, Array]) -> None:
    keep = v1.placeholder(tf.float32, [], "keep")
    model = Linear()
    with tf.control_dependencies([model.train]):
        scaled = model.loss * keep
    lone = Lone(model.capture(loss=scaled, feed_dict={"keep:0": 3}), *data)
    assert lone.train(11).values["loss"] == pytest.approx(3 * model.run(data, 11)[1], rel=1e-4)


def test_several_feeds_of_several_dtypes_are_cast_as_the_session_casts_them() -> None:
    """Bytes for a float32 placeholder: no float copy of the data travels."""
    image = v1.placeholder(tf.float32, [None, 2, 2])
    weight = v1.placeholder(tf.float64, [None])
    label = v1.placeholder(tf.int32, [None])
    w = v1.get_variable("w", initializer=tf.zeros([4]))
    score = tf.linalg.matvec(tf.reshape(image, [-1, 4]) / 255.0, w)
    error = (score - tf.cast(label, tf.float32)) ** 2 * tf.cast(weight, tf.float32)
    loss = tf.reduce_mean(error)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    rng = np.random.default_rng(1)
    columns = (
        rng.integers(0, 256, (5, 2, 2), np.uint8),
        rng.random(5).astype(np.float32),
        rng.integers(0, 2, 5).astype(np.uint8),
    )
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        feeds = [image, weight, label]
        lone = Lone(capture(train, feeds=feeds, session=session, loss=loss), *columns)
        lone.train(2)
        for batch in batches(columns, 2):
            session.run(train, dict(zip(feeds, batch, strict=True)))
        assert_same(lone.tensors["w"], session.run(w))


@pytest.mark.parametrize("dtype", few(["float16", "float64", "int32", "int64"], "float16", "int64"))
def test_parameters_keep_their_dtype(dtype: str) -> None:
    x = v1.placeholder(tf.float32, [None])
    kept = v1.get_variable("kept", initializer=tf.constant([2, 3], dtype))
    other = v1.get_variable("other", initializer=tf.constant(0.0))
    train = tf.group(kept.assign_add(tf.ones_like(kept)), other.assign_add(tf.reduce_sum(x)))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        program = capture(train, feeds=[x], session=session, params=[kept, other])
        lone = Lone(program, np.ones(6, np.float32))
        trained = lone.train(2)
        assert [v.dtype.name for v in trained.parameters] == [dtype, "float32"]
        assert lone.tensors["kept"].tolist() == [5, 6]
        assert lone.tensors["other"] == 6
        program.write(lone.buffer)
        assert session.run(kept).dtype == dtype
        assert session.run([kept, other])[0].tolist() == [5, 6]


def test_sparse_updates_train_an_embedding() -> None:
    index = v1.placeholder(tf.int64, [None])
    table = v1.get_variable("table", initializer=tf.reshape(tf.range(10.0), [5, 2]))
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, index) ** 2)
    train = v1.train.AdagradOptimizer(0.5).minimize(loss)
    rows = np.array([1, 3, 1, 4, 3], np.int64)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        lone = Lone(capture(train, feeds=[index], session=session, loss=loss), rows)
        lone.train(2)
        for (batch,) in batches([rows], 2):
            session.run(train, {index: batch})
        assert_same(lone.tensors["table"], session.run(table))
        assert lone.tensors["table"][2].tolist() == [4, 5]  # never looked up


def test_loops_and_conditions_of_the_graph_train(data: tuple[Array, Array]) -> None:
    model = Linear()
    looped = tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 0.5), (0, model.loss))[1]
    chosen = tf.cond(looped > 0, lambda: looped, lambda: looped * 2)
    model.train = v1.train.GradientDescentOptimizer(0.8).minimize(chosen)
    lone = Lone(model.capture(), *data)
    lone.train(4)
    assert_same(list(lone.tensors.values()), model.run(data, 4)[0])


def test_batch_normalisation_by_hand_synchronises_what_is_named(
    data: tuple[Array, Array],
) -> None:
    """Update operations beside the train operation, moving averages among the parameters."""
    model = Linear()
    moving = v1.get_variable("moving", initializer=tf.zeros([2]), trainable=False)
    update = moving.assign(0.9 * moving + 0.1 * tf.reduce_mean(model.hidden, 0))
    model.train = [model.train, update]
    program = model.capture(params=[model.first, model.second, moving])
    lone = Lone(program, *data)
    lone.train(11)
    assert (lone.tensors["moving"] != 0).all()


def test_write_and_export_work_on_a_finalized_graph(
    graph: tf.Graph, data: tuple[Array, Array]
) -> None:
    model = Linear()
    program = model.capture()
    graph.finalize()
    lone = Lone(program, *data)
    lone.train(4)
    program.write(lone.buffer)
    assert_same(model.session.run([model.first, model.second]), list(lone.tensors.values()), 0)
    np.testing.assert_array_equal(program.read(), lone.buffer)


def test_export_leaves_graph_and_session_as_they_were(
    graph: tf.Graph, data: tuple[Array, Array]
) -> None:
    model = Linear(v1.train.AdamOptimizer(0.1))
    program = model.capture()
    everything = v1.global_variables()
    before, count = model.session.run(everything), len(graph.get_operations())
    Lone(program, *data).train(4)
    assert len(graph.get_operations()) == count
    assert_same(model.session.run(everything), before, rtol=0)


def test_names_serve_for_every_element(data: tuple[Array, Array]) -> None:
    model = Linear()
    program = model.capture(feeds=["x:0", "y:0"], loss=model.loss.name)
    assert [(f.name, f.dtype, f.shape) for f in program.feeds] == [
        ("x:0", "float32", (3,)),
        ("y:0", "float32", ()),
    ]
    assert Lone(program, *data).train(4).values["loss"] > 0


def test_evaluate_reports_means_without_training(data: tuple[Array, Array]) -> None:
    model = Linear()
    program = model.capture(metrics={"bias": tf.reduce_mean(model.output - model.y)})
    before = program.read()
    found = program.evaluate(data, 4)
    output = model.session.run(model.output, {model.x: data[0]})
    assert found["loss"] == pytest.approx(((output - data[1]) ** 2).mean(), rel=1e-5)
    assert found["bias"] == pytest.approx((output - data[1]).mean(), rel=1e-5)
    np.testing.assert_array_equal(program.read(), before)


def test_sparse_rows_are_evaluated_as_their_dense_ones(data: tuple[Array, Array]) -> None:
    program = Linear().capture()
    x = np.where(np.abs(data[0]) > 0.5, data[0], 0)
    found = program.evaluate((as_sparse(x), data[1]), 4)
    assert found == pytest.approx(program.evaluate((x, data[1]), 4))
