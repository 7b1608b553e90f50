"""Plain TensorFlow 2: modules and variables with a loss and an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, optimizers

from tests.unit.program.support import Lone, as_sparse, assert_same, batches
from tos_notebook.errors import CaptureError, ShapeMismatch, UnsupportedProgram
from tos_notebook.program.capture import capture
from tos_notebook.program.export.base import Program

ROWS, BATCH = 11, 4
X = np.random.default_rng(0).normal(2.0, 1.0, (ROWS, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, ROWS)
FEEDS = [tf.TensorSpec([None, 5]), tf.TensorSpec([None], tf.int64)]
COLUMNS = [("float32", (5,)), ("int64", ())]


pytestmark = pytest.mark.usefixtures("fresh_keras")


class Linear(tf.Module):
    """A layer, as TensorFlow's guide writes them."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(name="linear")
        self.w = tf.Variable(tf.random.normal([rows, columns], seed=1))
        self.b = tf.Variable(tf.zeros([columns]))

    def __call__(self, x: Any) -> Any:
        return x @ self.w + self.b


class Network(tf.Module):
    """Two layers, and the running mean of what goes into them."""

    def __init__(self) -> None:
        super().__init__(name="network")
        self.layers = [Linear(5, 8), Linear(8, 3)]
        self.mean = tf.Variable(tf.zeros([5]), trainable=False)
        self.scale = tf.Variable(0.5, trainable=False)
        self.calls = tf.Variable(0, trainable=False)

    @tf.function
    def __call__(self, x: Any) -> Any:
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, 0))
        self.calls.assign_add(1)
        for layer in self.layers:
            x = tf.tanh(layer(x) * self.scale)
        return x


def losses(model: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x))


def captured(model: Any = None, optimizer: Any = None, **options: Any) -> Program:
    model = model or Network()
    options = {"loss": losses(model), "feeds": FEEDS, **options}
    return capture(model, optimizer=optimizer or optimizers.SGD(0.1), **options)


def train_by_hand(model: Any, variables: Any, optimizer: Any, loss: Any) -> list[float]:
    """Return the loss of each batch, weighted by rows, as a loop of the user's own finds it."""
    found = []
    for x, y in batches([X, Y], BATCH):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss(x, y))
            scaled = optimizer.scale_loss(value)
        optimizer.apply(tape.gradient(scaled, variables), variables)
        found.append(float(value) * len(x) / ROWS)
    return found


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: optimizers.Adam(0.02, clipnorm=1.0),
    "schedule": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.2, 1, 0.5)),
    "scaled": lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_calls_equal_a_loop_with_a_gradient_tape(name: str) -> None:
    model = Network()
    program = captured(model, OPTIMIZERS[name]())
    lone = Lone(program, X, Y)
    by_hand = OPTIMIZERS[name]()
    for _ in range(2):
        found = lone.train(BATCH).values["loss"]
        expected = train_by_hand(model, model.trainable_variables, by_hand, losses(model))
        assert found == pytest.approx(sum(expected), rel=1e-4)
        assert lone.tensors.keys() == {
            "layers/0/b", "layers/0/w", "layers/1/b", "layers/1/w", "mean",
        }  # fmt: skip
        assert_same(
            list(lone.tensors.values()), [*model.trainable_variables, model.mean], rtol=1e-4
        )
    assert program.has_learning_rate == (name != "schedule")
    assert (program.learning_rate is None) == (name == "schedule")


def test_optimizer_state_is_known_and_the_learning_rate_can_be_set() -> None:
    """On data of other types, which are cast to what the feeds say."""
    program = captured(optimizer=optimizers.Adam(0.1))
    assert len(program.optimizer_state) == 2 * 4
    assert program.summary.startswith("module, 80 parameters in 5 tensors, 8 of optimizer state")
    lone = Lone(program, X.astype(np.uint8), Y.astype(np.int8))
    lone.runner.set_learning_rate(0.0)
    before = lone.tensors
    lone.train(BATCH)
    after = lone.tensors
    assert_same([after["layers/0/w"]], [before["layers/0/w"]], rtol=0)
    assert (after["mean"] != before["mean"]).all()


def test_a_workers_counters_are_its_own_and_the_users_module_stays_as_it_was() -> None:
    model = Network()
    program = captured(model)
    before = [v.numpy() for v in model.variables]
    lone = Lone(program, X, Y)
    lone.train(BATCH)
    assert_same([v.numpy() for v in model.variables], before, rtol=0)
    assert "calls" not in lone.tensors
    program.write(lone.buffer)
    np.testing.assert_array_equal(program.read(), lone.buffer)
    np.testing.assert_array_equal(model.layers[0].w, lone.tensors["layers/0/w"])


def test_metrics_are_means_over_rows_and_evaluating_changes_nothing() -> None:
    model = Network()
    hits = lambda x, y: tf.equal(tf.argmax(model(x), 1), y)  # noqa: E731
    program = captured(model, optimizers.SGD(0.0), metrics={"accuracy": hits})
    expected = {
        "loss": float(tf.reduce_mean(losses(model)(X, Y))),
        "accuracy": float(tf.reduce_mean(tf.cast(hits(X, Y), tf.float32))),
    }
    found = Lone(program, X, Y).train(BATCH).values
    assert list(found) == ["loss", "accuracy"]
    assert found == pytest.approx(expected, rel=1e-4)
    before = [v.numpy() for v in model.variables]
    assert program.evaluate((X, Y), BATCH) == pytest.approx(expected, rel=1e-4)
    assert_same([v.numpy() for v in model.variables], before, rtol=0)


def test_what_the_loss_only_reads_is_exported_once_and_anew_when_it_changed() -> None:
    model = Network()
    program = captured(model)
    first = program.export(COLUMNS)
    model.layers[0].w.assign_add(tf.ones([5, 8]))
    assert program.export(COLUMNS) is first
    model.scale.assign(0.25)
    assert program.export(COLUMNS) != first


def test_a_list_trains_its_variables_and_leaves_others_as_they_are() -> None:
    model = Network()
    head = list(model.layers[1].trainable_variables)
    lone = Lone(capture(head, optimizer="adam", loss=losses(model), feeds=FEEDS), X, Y)
    assert {s.shape for s in lone.program.layout.specs} == {(8, 3), (3,)}
    before = lone.tensors
    lone.train(BATCH)
    assert all((lone.tensors[name] != before[name]).any() for name in before)
    w = tf.Variable([1.0], name="w")
    alone = capture(w, optimizer="sgd", loss=lambda x: (w - x) ** 2, feeds=[tf.TensorSpec([None])])
    assert [s.name for s in alone.layout.specs] == ["w"]
    assert [f.name for f in alone.feeds] == ["x"]


class Mixed(tf.Module):
    """Keras layers in a module, one of them frozen; TensorFlow's modules do not see them."""

    def __init__(self) -> None:
        super().__init__(name="mixed")
        self.scale = tf.Variable(1.0)
        self.frozen = layers.Dense(6)
        self.frozen.trainable = False
        self.rest = [layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3)]

    def __call__(self, x: Any) -> Any:
        x = self.frozen(x) * self.scale
        for layer in self.rest:
            x = layer(x, training=True) if not isinstance(layer, layers.Dense) else layer(x)
        return x


def test_keras_layers_inside_a_module_are_trained_and_their_statistics_synchronised() -> None:
    model = Mixed()
    model(X)
    lone = Lone(captured(model), X, Y)
    names = {name.split("/")[-1] for name in lone.tensors}
    assert names == {
        "scale", "kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance",
    }  # fmt: skip
    before = lone.tensors
    lone.train(BATCH)
    assert all((lone.tensors[name] != before[name]).any() for name in before)


def test_unfreezing_a_layer_of_a_module_asks_for_a_new_capture() -> None:
    model = Mixed()
    model(X)
    program = captured(model)
    model.frozen.trainable = True
    with pytest.raises(CaptureError, match="Other variables of the module are trainable than when"):
        program.export(COLUMNS)


def test_random_generators_draw_anew_in_each_call_and_are_each_workers_own() -> None:
    w, generator = tf.Variable(1.0, name="w"), tf.random.Generator.from_seed(1)

    def loss(x: Any) -> Any:
        return w * generator.normal(tf.shape(x))

    program = capture([w], optimizer=optimizers.SGD(0.0), loss=loss, feeds=[tf.TensorSpec([None])])
    assert len(program.layout) == 1
    lone = Lone(program, X[:, 0])
    found = [lone.train(BATCH).values["loss"] for _ in range(2)]
    lone.runner.reset()
    assert found[0] != found[1]
    assert lone.train(BATCH).values["loss"] == found[0]


def test_a_keras_model_can_be_trained_by_a_loss_of_the_users_own() -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3)])
    lone = Lone(captured(model), X, Y)
    lone.train(BATCH)
    train_by_hand(model, model.trainable_variables, optimizers.SGD(0.1), losses(model))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


def test_python_control_flow_in_a_plain_function_is_part_of_the_program() -> None:
    w = tf.Variable(1.0)

    def loss(x: Any) -> Any:
        total = tf.constant(0.0)
        for row in x:
            if row > 0:
                total += w * row
        return total

    program = capture([w], optimizer="sgd", loss=loss, feeds=[tf.TensorSpec([None])])
    rows = np.array([1.0, -5.0, 2.0], np.float32)
    assert Lone(program, rows).train(3).values["loss"] == 3.0


def test_modules_are_saved_for_tensorflow(tmp_path: Path) -> None:
    model = Network()
    program = captured(model)
    program.save("checkpoint", tmp_path / "ckpt")
    program.save("savedmodel", tmp_path / "saved")
    expected = model.layers[0].w.numpy()
    model.layers[0].w.assign(tf.zeros([5, 8]))
    tf.train.Checkpoint(model=model).restore(str(tmp_path / "ckpt" / "checkpoint"))
    np.testing.assert_array_equal(model.layers[0].w, expected)
    assert len(tf.saved_model.load(str(tmp_path / "saved")).layers) == 2


def test_a_keras_model_is_saved_as_one_whatever_trains_it(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((5,)), layers.Dense(3)])
    program = captured(model)
    assert set(program.formats) == {"keras", "savedmodel", "checkpoint"}
    program.save("keras", tmp_path / "model.keras")
    found = keras.models.load_model(tmp_path / "model.keras")
    assert_same(found.get_weights(), model.get_weights(), rtol=0)


def test_a_module_predicts_by_a_function_of_its_first_feeds() -> None:
    model = Network()
    with pytest.raises(UnsupportedProgram, match=r"does not say how it predicts.*predict=lambda x"):
        captured(model).predict(X)
    program = captured(model, predict=model)
    np.testing.assert_allclose(program.predict(X), model(X), rtol=1e-5)
    several = captured(model, predict=lambda x, y: {"a": model(x), "b": tf.one_hot(y, 3)})
    found = several.predict((X, Y))
    np.testing.assert_array_equal(found[1].argmax(1), Y)


class Late(tf.Module):
    """Makes its variable when it is first called."""

    def __init__(self) -> None:
        super().__init__(name="late")
        self.b = tf.Variable([0.0])
        self.w: Any = None

    @tf.Module.with_name_scope
    def __call__(self, x: Any) -> Any:
        if self.w is None:
            self.w = tf.Variable(tf.ones([5, 3]))
        return x @ self.w + self.b


def test_variables_that_would_not_be_trained_are_named() -> None:
    with pytest.raises(CaptureError, match=r"variables that the module does not hold.*call it on"):
        captured(Late())
    model, outside = Network(), Linear(5, 3)
    with pytest.raises(CaptureError, match="does not hold, 'Variable:0' among them"):
        captured(model, loss=losses(lambda x: model(x) + outside(x)))


def wrong(**options: Any) -> Any:
    return lambda: captured(**options)


def without_its_base(kind: type) -> Any:
    """A module whose class does not call the constructor of its base."""

    def init(self: Any) -> None:
        self.weight = tf.Variable(tf.zeros([5]))

    kind = type("Mine", (kind,), {"__init__": init})
    return lambda: captured(kind(), loss=lambda x, y: tf.reduce_sum(x))


def unbuilt() -> Any:
    module = tf.Module(name="unbuilt")
    module.layer = layers.Dense(3)
    return captured(module)


def empty() -> Any:
    return captured(tf.Module(name="empty"))


def constant() -> Any:
    module = Network()
    for layer in module.layers:
        layer.w = layer.b = tf.Variable(1.0, trainable=False)
    return captured(module)


def used() -> Any:
    optimizer = optimizers.SGD(0.1)
    optimizer.build([tf.Variable(1.0)])
    return captured(optimizer=optimizer)


def without(name: str) -> Any:
    options = {"loss": losses(abs), "optimizer": "sgd", "feeds": FEEDS}
    del options[name]
    return lambda: capture(Network(), **options)


MISTAKES: dict[str, tuple[Callable[[], Any], type[CaptureError], str]] = {
    "no variables": (empty, CaptureError, "Module 'empty' has no variables yet.*call it once"),
    "not built": (unbuilt, CaptureError, "layer 'dense.*' has no weights yet: call it once"),
    "not trainable": (constant, UnsupportedProgram, "'network' has nothing to train: none of its"),
    "matrix": (
        wrong(loss=lambda x, y: x), ShapeMismatch, "loss: expected a scalar, or one",
    ),
    "no number": (wrong(loss=lambda x, y: None), ShapeMismatch, "loss: expected a scalar, or one"),
    "metric": (
        wrong(metrics={"hits": lambda x, y: x}), ShapeMismatch, "hits: expected a scalar, or one",
    ),
    "independent": (
        wrong(loss=lambda x, y: tf.reduce_mean(x)), CaptureError, "does not depend on any of the v",
    ),
    "arguments": (wrong(loss=lambda x: x), CaptureError, "expected a function of 2 arguments"),
    "a word": (wrong(loss="mse"), CaptureError, "loss: expected a function of a batch.*'mse'"),
    "keras metric": (
        wrong(metrics={"a": keras.metrics.Accuracy()}), CaptureError, "a: expected a function of a",
    ),
    "predict": (
        wrong(predict=lambda x, y, z: x), CaptureError, "predict: expected a function of 2 argu",
    ),
    "metrics": (wrong(metrics=["accuracy"]), CaptureError, "metrics: expected functions by name"),
    "two losses": (wrong(metrics={"loss": abs}), CaptureError, "other names than 'loss'"),
    "optimizer": (wrong(optimizer="fast"), CaptureError, "one of Keras, such as.*got 'fast'"),
    "v1 optimizer": (
        wrong(optimizer=tf.compat.v1.train.AdamOptimizer()), CaptureError, "one of Keras, such as",
    ),
    "used optimizer": (used, CaptureError, "SGD has trained others. Make another one"),
    "feeds": (wrong(feeds=[[None, 5]]), CaptureError, "feeds: expected a list of tf.TensorSpec"),
    "batch": (
        wrong(feeds=[tf.TensorSpec([4, 5]), FEEDS[1]]), ShapeMismatch, "'x' has shape .4, 5.: exp",
    ),
    "scalar feed": (
        wrong(feeds=[FEEDS[0], tf.TensorSpec([])]), ShapeMismatch, "'y' has shape ..: expected No",
    ),
    **{
        f"without the base of {kind.__name__}": (
            without_its_base(kind), CaptureError, "^Mine: expected an __init__ that calls super",
        )
        for kind in (tf.Module, keras.Layer, keras.Model)
    },
    "unknown": (wrong(feed=FEEDS), CaptureError, "A module takes loss.*Did you mean feeds"),
    "driver": (
        wrong(loss=lambda x, y: tf.numpy_function(lambda v: v, [tf.reduce_mean(x)], tf.float32)),
        UnsupportedProgram, "a Python function of this process",
    ),
    **{
        f"without {name}": (without(name), CaptureError, f"A module needs {name}: capture")
        for name in ("loss", "optimizer", "feeds")
    },
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_with_what_to_do(mistake: str) -> None:
    call, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message):
        call()


def test_sparse_rows_are_evaluated_as_their_dense_ones() -> None:
    program = captured()
    x = np.where(X > 2, X, 0)
    found = program.evaluate((as_sparse(x), Y), BATCH)
    assert found == pytest.approx(program.evaluate((x, Y), BATCH))
