"""An error inside TensorFlow on a worker names the user's own lines."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.unit.program.support import Lone, Trainers
from tos_notebook.program.capture import capture
from tos_notebook.readable import summary

v1 = tf.compat.v1


def lines_of(lone: Any, error: BaseException) -> list[str]:
    message, lines = lone.runner.explain(error)
    assert message == summary(error)
    return lines


def failure(lone: Lone) -> tf.errors.OpError:
    with pytest.raises(tf.errors.OpError) as caught:
        lone.train(2)
    return caught.value


def assert_last_line(lines: list[str], function: Any, text: str) -> None:
    """The innermost frame is a line of this function of this file."""
    assert lines[-1].startswith(f'  File "{__file__}", line ')
    assert f", in {function.__name__}\n" in lines[-1]
    assert lines[-1].endswith(text)
    source, first = inspect.getsourcelines(function)
    number = int(lines[-1].split("line ")[1].split(",")[0])
    assert source[number - first].strip() == text


def build(x: Any) -> Any:
    checked = tf.debugging.assert_less(x, 5.0, message="too large")
    with tf.control_dependencies([checked]):
        w = v1.get_variable("w", initializer=1.0)
        return tf.reduce_mean(x * w)


def test_a_graphs_operation_is_explained_by_the_line_that_made_it() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        loss = build(x)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(v1.global_variables_initializer())
        program = capture(train, feeds=[x], session=session, loss=loss)
        lone = Lone(program, np.array([1, 2, 3, 9], np.float32))
    error = failure(lone)
    lines = lines_of(lone, error)
    text = 'checked = tf.debugging.assert_less(x, 5.0, message="too large")'
    assert_last_line(lines, build, text)
    assert "loss = build(x)" in lines[-2]
    assert summary(error).startswith("InvalidArgumentError: assertion failed: [too large]")
    assert "node" not in summary(error)


def test_a_loop_of_the_graph_is_explained_too() -> None:
    def body(i: Any, value: Any) -> Any:
        return i + 1, tf.debugging.check_numerics(value / 0.0, "broken")

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        w = v1.get_variable("w", initializer=1.0)
        loss = tf.while_loop(lambda i, _: i < 2, body, (0, tf.reduce_mean(x) * w))[1]
        train = w.assign_add(loss)
        session.run(v1.global_variables_initializer())
        lone = Lone(capture(train.op, feeds=[x], session=session), np.ones(4, np.float32))
    error = failure(lone)
    assert_last_line(
        lines_of(lone, error),
        body,
        'return i + 1, tf.debugging.check_numerics(value / 0.0, "broken")',
    )
    assert summary(error) == "InvalidArgumentError: broken : Tensor had Inf values"


class Subclass(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.table = layers.Embedding(5, 2)

    def call(self, x: Any) -> Any:
        return tf.reduce_sum(self.table(x), [1, 2])


class OwnStep(keras.Sequential):
    def train_step(self, data: Any) -> dict[str, Any]:
        logs: dict[str, Any] = super().train_step(data)
        logs["checked"] = tf.debugging.check_numerics(logs["loss"] / 0.0, "broken")
        return logs


BAD = np.full((3, 4), 99, np.int32)
LABELS = np.zeros(3, np.float32)


def lone_model(model: Any, *columns: Any) -> Lone:
    model.compile("sgd", "mse")
    return Lone(capture(model), *columns)


def test_a_subclass_is_explained_by_its_call() -> None:
    model = Subclass()
    model(np.zeros((1, 4), np.int32))
    lone = lone_model(model, BAD, LABELS)
    error = failure(lone)
    lines = lines_of(lone, error)
    assert_last_line(lines, Subclass.call, "return tf.reduce_sum(self.table(x), [1, 2])")
    assert not any("capture" in line or "in failure" in line for line in lines)
    assert summary(error) == "InvalidArgumentError: indices[0,0] = 99 is not in [0, 5)"


@pytest.mark.parametrize("call", ["train", "advance"])
def test_an_error_in_a_call_for_gradients_is_explained_as_well(call: str) -> None:
    model = Subclass()
    model(np.zeros((1, 4), np.int32))
    model.compile("sgd", "mse")
    trainers = Trainers(capture(model), BAD, LABELS)
    runner, vectors = trainers.runner, trainers.layout.vectors(trainers.buffer)
    means = [trainers.layout.vectors(trainers.layout.allocate())] * (call == "advance")
    with pytest.raises(tf.errors.OpError) as caught:
        getattr(runner, call)(vectors, *means, (BAD, LABELS), 3)
    lines = lines_of(trainers, caught.value)
    assert_last_line(lines, Subclass.call, "return tf.reduce_sum(self.table(x), [1, 2])")
    assert summary(caught.value) == "InvalidArgumentError: indices[0,0] = 99 is not in [0, 5)"


def test_a_train_step_is_explained_by_its_line() -> None:
    model = OwnStep([keras.Input((2,)), layers.Dense(1)])
    lone = lone_model(model, np.ones((3, 2), np.float32), LABELS[:, None])
    assert_last_line(
        lines_of(lone, failure(lone)),
        OwnStep.train_step,
        'logs["checked"] = tf.debugging.check_numerics(logs["loss"] / 0.0, "broken")',
    )


def test_a_functional_model_is_explained_by_the_layers_name() -> None:
    """None of its operations was made by code of the user's."""
    x = keras.Input((4,), dtype="int32")
    inner = layers.Embedding(5, 2, name="words")(x)
    model = keras.Model(x, layers.Dense(1)(layers.Flatten()(inner)))
    lone = lone_model(model, BAD, LABELS)
    assert lines_of(lone, failure(lone)) == ["  in layer 'words' (GatherV2)"]


def test_labels_out_of_range_name_the_operation() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    lone = Lone(capture(model), np.ones((3, 2), np.float32), np.full(3, 7))
    error = failure(lone)
    (line,) = lines_of(lone, error)
    assert "(SparseSoftmaxCrossEntropyWithLogits)" in line
    assert "label value of 7" in summary(error)


def test_other_errors_have_no_frames() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    lone = lone_model(model, np.ones((3, 2), np.float32), LABELS)
    assert lone.runner.explain(ValueError("Detected at node a defined")) is None
    assert lone.runner.explain(tf.errors.InternalError(None, None, "no node named")) == (
        "InternalError: no node named",
        [],
    )
    assert summary(ValueError("two\nlines")) == "ValueError: two"
    assert summary(ValueError()) == "ValueError: no message"


def test_the_dump_of_nodes_is_left_out() -> None:
    message = (
        "Graph execution error:\n\nDetected at node a/b defined at (most recent call last):\n"
        "<stack traces unavailable>\n2 root error(s) found.\n"
        "  (0) INVALID_ARGUMENT:  It broke\n\t [[{{node a/b}}]]\n [Op:__inference_train_1]"
    )
    assert summary(tf.errors.InvalidArgumentError(None, None, message)) == (
        "InvalidArgumentError: It broke"
    )
    message = "{{function_node __wrapped__Call_Tin_6}} It broke [Op:StatefulPartitionedCall] name: "
    assert summary(tf.errors.InvalidArgumentError(None, None, message)) == (
        "InvalidArgumentError: It broke"
    )
