"""What cannot be captured is refused by name, before any job starts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tos_notebook as tos
from tests.unit.program.support import Lone
from tos_notebook.blocks.block import ColumnSpec
from tos_notebook.errors import CaptureError, ShapeMismatch, UnsupportedProgram
from tos_notebook.program.capture import KEYWORDS, capture
from tos_notebook.program.graph.program import GraphOptions
from tos_notebook.program.keras.program import KerasProgram
from tos_notebook.program.keras.structure import named_plainly
from tos_notebook.program.module.program import ModuleProgram
from tos_notebook.wire.limits import MOST_METRICS

v1 = tf.compat.v1


def test_completion_finds_the_options_of_each_kind_of_model() -> None:
    kinds = KerasProgram, ModuleProgram, GraphOptions
    takes = {name for kind in kinds for name in inspect.signature(kind).parameters}
    found = inspect.signature(capture).parameters
    assert found.keys() == takes - {"module"}
    # As many as it has: none stands twice.
    assert len(KEYWORDS) == len(found) - 1


class Graph:
    """A small graph to capture wrongly: w is trained on x."""

    def __init__(self) -> None:
        self.x = v1.placeholder(tf.float32, [None, 2], "x")
        self.w = v1.get_variable("w", initializer=tf.ones([2]))
        self.doubled = 2 * self.x
        self.rows = tf.linalg.matvec(self.doubled, self.w)
        self.loss = tf.reduce_mean(self.rows)
        self.session = v1.Session()

    def capture(self, loss: Any = None, **options: Any) -> Any:
        loss = self.loss if loss is None else loss
        train = v1.train.GradientDescentOptimizer(0.1).minimize(self.loss)
        self.session.run(v1.global_variables_initializer())
        settings = {"feeds": [self.x], "session": self.session, "loss": loss}
        return capture(options.pop("train", train), **(settings | options))


@pytest.fixture
def graph() -> Iterator[Graph]:
    with tf.Graph().as_default():
        made = Graph()
        with made.session:
            yield made


def test_a_loss_that_is_no_scalar(graph: Graph) -> None:
    with pytest.raises(ShapeMismatch, match=r"loss .* scalar, got shape \(None,\).*reduce_mean"):
        graph.capture(loss=graph.rows)


def test_a_loss_that_is_an_operation(graph: Graph) -> None:
    with pytest.raises(ShapeMismatch, match="it is an operation"):
        graph.capture(loss=graph.loss.op)


def test_a_loss_that_turns_out_to_be_no_scalar(graph: Graph) -> None:
    """Its rank is known only once it runs: the error comes from the call that runs it."""
    vague = v1.placeholder_with_default(graph.rows, None)
    lone = Lone(graph.capture(loss=vague), np.ones((3, 2), np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        lone.train(3)


@pytest.mark.parametrize("feed", ["nowhere:0", "x", 3])
def test_a_feed_that_is_not_in_the_graph(graph: Graph, feed: Any) -> None:
    with pytest.raises(CaptureError, match="feed"):
        graph.capture(feeds=[feed])


def test_a_feed_of_another_graph(graph: Graph) -> None:
    with tf.Graph().as_default():
        other = v1.placeholder(tf.float32, [None, 2], "x")
    with pytest.raises(CaptureError, match="not in the session's graph"):
        graph.capture(feeds=[other])


@pytest.mark.parametrize("feeds", [[], "x:0", None])
def test_feeds_that_are_no_list(graph: Graph, feeds: Any) -> None:
    with pytest.raises(CaptureError, match="feeds"):
        graph.capture(feeds=feeds)


def test_a_feed_of_a_fixed_batch_dimension(graph: Graph) -> None:
    fixed = v1.placeholder(tf.float32, [32, 2], "fixed")
    with pytest.raises(ShapeMismatch, match=r"'fixed:0' has shape \(32, 2\): expected None"):
        graph.capture(feeds=[graph.x, fixed])


def test_a_scalar_feed(graph: Graph) -> None:
    rate = v1.placeholder(tf.float32, [], "rate")
    with pytest.raises(ShapeMismatch, match=r"'rate:0' is a scalar.*feed_dict"):
        graph.capture(feeds=[graph.x, rate])


def test_a_placeholder_that_nobody_feeds(graph: Graph) -> None:
    keep = v1.placeholder(tf.float32, [], "keep")
    with pytest.raises(CaptureError, match=r"'keep:0', which is neither among the feeds \['x:0'\]"):
        graph.capture(loss=graph.loss * keep)


def test_a_placeholder_behind_a_fed_tensor_is_not_needed(graph: Graph) -> None:
    """As in `session.run`: what is fed need not be computed."""
    lone = Lone(graph.capture(feeds=[graph.doubled]), np.ones((3, 2), np.float32))
    assert lone.train(2).values["loss"] > 0


@pytest.mark.parametrize("value", [np.ones(3), [[1.0]]])
def test_a_constant_that_does_not_fit_its_placeholder(graph: Graph, value: Any) -> None:
    keep = v1.placeholder(tf.float32, [], "keep")
    with pytest.raises(ShapeMismatch, match=r"'keep:0' has shape \(\), got a value of shape"):
        graph.capture(loss=graph.loss * keep, feed_dict={keep: value})


def test_nothing_to_train() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None])
        with pytest.raises(UnsupportedProgram, match="nothing to train"):
            capture(tf.no_op(), feeds=[x], session=session)


def test_a_parameter_that_is_no_variable_of_the_graph(graph: Graph) -> None:
    with pytest.raises(CaptureError, match="is not a variable of the session's graph"):
        graph.capture(params=[graph.loss])


def test_a_variable_without_a_value(graph: Graph) -> None:
    with v1.Session() as empty, pytest.raises(CaptureError, match="global_variables_initializer"):
        graph.capture(session=empty).export([("float32", (2,))])
    with pytest.raises(CaptureError, match="global_variables_initializer"):
        graph.capture(session=v1.Session()).read()


def test_a_variable_in_no_collection(graph: Graph) -> None:
    hidden = v1.get_variable("hidden", initializer=1.0, collections=["mine"], trainable=False)
    graph.session.run(hidden.initializer)
    with pytest.raises(UnsupportedProgram, match="'hidden' is in no collection"):
        graph.capture(loss=graph.loss * hidden).export([("float32", (2,))])


@pytest.mark.parametrize(
    ("rate", "message"),
    [(0.1, "0.1 is not a variable"), ("used", "does not use the learning rate")],
)
def test_a_learning_rate_that_nothing_uses(graph: Graph, rate: Any, message: str) -> None:
    unused = v1.get_variable("unused", initializer=0.1)
    with pytest.raises(CaptureError, match=message):
        graph.capture(learning_rate=unused if rate == "used" else rate)


def test_a_learning_rate_among_the_parameters(graph: Graph) -> None:
    rate = v1.get_variable("rate", initializer=0.1)
    train = v1.train.GradientDescentOptimizer(rate).minimize(graph.loss)
    with pytest.raises(CaptureError, match="both the learning rate and a parameter"):
        graph.capture(train=train, learning_rate=rate, params=[graph.w, rate])


@pytest.mark.parametrize("wrapper", ["py_function", "numpy_function"])
def test_a_python_function_in_the_graph(graph: Graph, wrapper: str) -> None:
    function = getattr(tf, wrapper)(lambda v: v, [graph.loss], tf.float32, name="my_python")
    with pytest.raises(UnsupportedProgram, match=r"my_python.*a Python function.*executor"):
        graph.capture(loss=tf.reshape(function, []))


def test_a_python_function_that_training_does_not_need(graph: Graph) -> None:
    tf.numpy_function(lambda v: v, [graph.loss], tf.float32)
    tf.data.Dataset.range(3).map(lambda v: tf.numpy_function(lambda v: v, [v], tf.int64))
    lone = Lone(graph.capture(), np.ones((3, 2), np.float32))
    assert lone.train(2).values["loss"] > 0


@pytest.mark.parametrize(
    "make", [v1.data.make_one_shot_iterator, v1.data.make_initializable_iterator]
)
def test_a_dataset_iterator_in_the_graph(graph: Graph, make: Any) -> None:
    element = make(tf.data.Dataset.from_tensors(2.0)).get_next()
    with pytest.raises(UnsupportedProgram, match="a dataset iterator"):
        graph.capture(loss=graph.loss * element)


def test_a_lookup_table_in_the_graph(graph: Graph) -> None:
    entries = tf.lookup.KeyValueTensorInitializer([1, 2], [1.0, 2.0], tf.int64, tf.float32)
    table = tf.lookup.StaticHashTable(entries, 0.0)
    with pytest.raises(UnsupportedProgram, match="a lookup table"):
        graph.capture(loss=graph.loss * table.lookup(tf.constant(1, tf.int64)))


def test_an_unknown_option_names_its_neighbour(graph: Graph) -> None:
    with pytest.raises(CaptureError, match="got also 'param_list'"):
        graph.capture(param_list=[graph.w])
    with pytest.raises(CaptureError, match="Did you mean feeds"):
        graph.capture(feed=[graph.x])


@pytest.mark.parametrize("missing", ["feeds", "session"])
def test_what_a_graph_cannot_do_without(graph: Graph, missing: str) -> None:
    with pytest.raises(CaptureError, match=f"needs {missing}"):
        graph.capture(**{missing: None})


def test_a_session_that_is_none(graph: Graph) -> None:
    with pytest.raises(CaptureError, match=r"expected a tf\.compat\.v1\.Session, got 'local'"):
        graph.capture(session="local")


@pytest.mark.parametrize("value", [42, None, [], lambda x: x, keras.Model])
def test_what_is_neither_model_nor_graph(value: Any) -> None:
    with pytest.raises(CaptureError, match="Expected a compiled Keras model"):
        capture(value)


@pytest.mark.parametrize("value", ["model.keras", Path("model.keras")])
def test_the_file_of_a_model_is_to_be_loaded_first(value: Any) -> None:
    with pytest.raises(CaptureError) as caught:
        tos.fit(value, (np.ones((4, 2)), np.ones(4)), verbose=False)
    text = str(caught.value)
    assert text.startswith("Expected a compiled Keras model")
    assert "got the text 'model.keras'. Load it first" in text
    assert text.endswith("keras.models.load_model('model.keras').")


def test_a_program_is_captured_already(graph: Graph) -> None:
    program = graph.capture()
    assert capture(program) is program
    with pytest.raises(CaptureError, match="takes no options"):
        capture(program, feeds=[graph.x])


def model(*parts: Any, **options: Any) -> Any:
    made = keras.Sequential([keras.Input((2,)), *(parts or [layers.Dense(1)])])
    made.compile("sgd", "mse", **options)
    return made


COLUMNS = [("float32", (2,)), ("float32", (1,))]


def test_a_model_that_is_not_built() -> None:
    unbuilt = keras.Sequential([layers.Dense(1)])
    unbuilt.compile("sgd", "mse")
    with pytest.raises(CaptureError, match=r"has no weights yet.*keras\.Input"):
        capture(unbuilt)


def test_a_model_that_is_not_compiled() -> None:
    with pytest.raises(CaptureError, match="is not compiled"):
        capture(keras.Sequential([keras.Input((2,)), layers.Dense(1)]))


def test_a_model_of_frozen_layers() -> None:
    frozen = model()
    frozen.trainable = False
    with pytest.raises(UnsupportedProgram, match="nothing to train"):
        capture(frozen)


def test_a_model_that_runs_eagerly() -> None:
    with pytest.raises(UnsupportedProgram, match="run_eagerly=True"):
        capture(model(run_eagerly=True))


def test_a_dtype_that_numpy_does_not_know() -> None:
    with pytest.raises(UnsupportedProgram, match="bfloat16"):
        capture(model(layers.Dense(1, dtype="bfloat16")))


def test_an_option_for_a_model() -> None:
    with pytest.raises(CaptureError, match="'loss'"):
        capture(model(), loss="mse")


class Calls(layers.Layer):
    """A layer that calls Python."""

    def __init__(self, wrapper: Any) -> None:
        super().__init__()
        self.wrapper = wrapper

    def call(self, x: Any) -> Any:
        return tf.ensure_shape(self.wrapper(lambda v: v, [x], tf.float32), x.shape)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


@pytest.mark.parametrize("wrapper", [tf.py_function, tf.numpy_function])
def test_a_python_function_in_a_model(wrapper: Any) -> None:
    program = capture(model(layers.Dense(2), Calls(wrapper)))
    with pytest.raises(UnsupportedProgram, match=r"PyFunc\) is a Python function"):
        program.export([("float32", (2,)), ("float32", (2,))])


class Steps(keras.Sequential):
    """A train_step that returns what it was told to."""

    returns: Any = None

    def train_step(self, data: Any) -> Any:
        return self.returns(self(data[0]))


@pytest.mark.parametrize(
    ("returns", "error", "message"),
    [
        (lambda y: {"loss": y}, ShapeMismatch, "'loss' must be a scalar tensor"),
        (lambda y: {"loss": None}, ShapeMismatch, "'loss' must be a scalar tensor, got None"),
        (tf.reduce_mean, CaptureError, "must return a dict of scalars"),
    ],
    ids=["vector", "nothing", "no dict"],
)
def test_a_train_step_that_returns_no_scalars(
    returns: Any, error: type[CaptureError], message: str
) -> None:
    made = Steps([keras.Input((2,)), layers.Dense(1)])
    made.returns = returns
    made.compile("sgd", "mse")
    with pytest.raises(error, match=message):
        capture(made).export(COLUMNS)


@pytest.mark.parametrize(
    ("loss", "label"),
    [("sparse_categorical_crossentropy", (3,)), ("categorical_crossentropy", ())],
)
def test_labels_that_the_loss_does_not_take_are_named_with_their_feed(
    loss: str, label: tuple[int, ...]
) -> None:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, "softmax")])
    model.compile("sgd", loss)
    program = capture(model)
    name = program.feeds[1].name
    with pytest.raises(ShapeMismatch) as caught:
        program.export([("float32", (4,)), ("float32", label)])
    assert f"{name!r} (float32 of shape {label})" in str(caught.value)
    assert "one-hot labels with categorical_crossentropy" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_what_the_user_s_own_step_raises_is_left_as_it_is() -> None:
    class Own(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            raise ValueError("my own")

    model = Own([keras.Input((2,)), layers.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="my own") as caught:
        capture(model).export([("float32", (2,)), ("float32", (2,))])
    assert str(caught.value) == "my own"


def test_more_metrics_than_a_push_holds_are_refused(graph: Graph) -> None:
    most = {f"m{number}": graph.loss for number in range(MOST_METRICS)}
    graph.capture(metrics=most).export([("float32", (2,))])
    with pytest.raises(UnsupportedProgram, match="at most 256 metrics, got 257"):
        graph.capture(metrics=most | {"more": graph.loss}).export([("float32", (2,))])


@pytest.mark.parametrize(
    "names", [("bell\x07", "bell\\x07"), ("m" * 400 + "a" + "n" * 400, "m" * 400 + "b" + "n" * 400)]
)
def test_metrics_that_would_travel_by_one_name_are_refused(
    graph: Graph, names: tuple[str, str]
) -> None:
    metrics = dict.fromkeys(names, graph.loss)
    with pytest.raises(UnsupportedProgram, match="have the same name once it is cut to 256"):
        graph.capture(metrics=metrics).export([("float32", (2,))])


def named(**names: str) -> Any:
    """Return a model with a layer, a metric, an optimizer, and a name."""
    name = {"layer": "a", "metric": "b", "optimizer": "c", "model": "d"} | names
    model = keras.Sequential(
        [keras.Input((2,)), layers.Dense(3, name=name["layer"])], name=name["model"]
    )
    metric = keras.metrics.SparseCategoricalAccuracy(name=name["metric"])
    optimizer = keras.optimizers.SGD(name=name["optimizer"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=[metric])
    return model


@pytest.mark.parametrize("name", ["top 5", "größe", "a:b", "%s", "a\x1b[31mb"])
@pytest.mark.parametrize("what", ["layer", "metric", "optimizer", "model"])
def test_a_name_that_tensorflow_cannot_use(what: str, name: str) -> None:
    program = capture(named(**{what: name}))
    with pytest.raises(CaptureError, match=f"use the name of {what} {re.escape(repr(name))}"):
        program.export([("float32", (2,)), ("int64", ())])


def test_a_refused_name_is_in_no_name_of_a_later_model() -> None:
    with pytest.raises(CaptureError):
        capture(named(layer="a b")).export([("float32", (2,)), ("int64", ())])
    assert keras.Variable(0.0, name="v").path == "v"


@pytest.mark.parametrize("name", ["_a", "-a", "..", "a>b", "x" * 3000])
def test_what_tensorflow_takes_for_a_layer_is_captured(name: str) -> None:
    capture(named(layer=name)).export([("float32", (2,)), ("int64", ())])


def test_a_layer_with_a_name_that_tensorflow_cannot_use_predicts_and_evaluates_nothing(
    tmp_path: Path,
) -> None:
    model = named(layer="a b")
    with pytest.raises(CaptureError, match="layer 'a b'"):
        capture(model).evaluate((np.zeros((3, 2), "f4"), np.zeros(3, "i8")))
    with pytest.raises(CaptureError, match="layer 'a b'"):
        capture(model).serve([ColumnSpec("float32", (2,))], tmp_path / "served")


def test_another_error_of_a_model_with_such_a_name_is_told_as_what_it_is() -> None:
    program = capture(named(layer="a b"))
    with pytest.raises(ValueError, match="No such thing"), named_plainly(program.model):
        raise ValueError("No such thing")
