"""Keras models: what a worker computes is what `fit` would have computed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.support.long import few
from tests.unit.program.support import Lone, assert_same
from tos_notebook.common.arrays import Array
from tos_notebook.layout import Layout
from tos_notebook.program.capture import capture
from tos_notebook.program.keras.program import KerasProgram

ROWS, BATCH = 11, 4


pytestmark = pytest.mark.usefixtures("fresh_keras")


def rows(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(ROWS, *shape)).astype(np.float32)


def classes(count: int) -> Array:
    return np.random.default_rng(1).integers(0, count, ROWS)


def classifier(
    *parts: Any, shape: tuple[int, ...] = (5,), optimizer: Any = "sgd", dtype: str | None = None
) -> Any:
    model = keras.Sequential([keras.Input(shape, dtype=dtype), *parts, layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def mlp(optimizer: Any = "sgd") -> Any:
    return classifier(layers.Dense(4, activation="tanh"), optimizer=optimizer)


def fit(model: Any, x: Any, y: Any, **weights: Any) -> dict[str, float]:
    """Train as Keras does, step by step: tracing takes longer than these few rows."""
    model.run_eagerly = True
    history = model.fit(x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0, **weights)
    model.run_eagerly = False
    return {name: values[0] for name, values in history.history.items()}


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.02),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.2, 1, 0.5)
    ),
}


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adam", "schedule"))
def test_training_calls_equal_fit_without_shuffling(name: str) -> None:
    """Weights, loss and metrics, over two calls, which share optimizer state and step counts."""
    model, x, y = mlp(OPTIMIZERS[name]()), rows(5), classes(3)
    program = capture(model)
    lone = Lone(program, x, y)
    for _ in range(2):
        found = lone.train(BATCH).values
        expected = fit(model, x, y)
        assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)
        assert list(found) == ["loss", "accuracy"]
        assert found == pytest.approx(expected, rel=1e-4)
    assert program.has_learning_rate == (name != "schedule")
    assert (program.learning_rate is None) == (name == "schedule")


def test_reset_puts_the_optimizer_back_each_time() -> None:
    lone = Lone(capture(mlp("adam")), rows(5), classes(3))
    start, found = lone.buffer.copy(), []
    for _ in range(3):
        lone.buffer[...] = start
        lone.train(BATCH)
        lone.train(BATCH)
        found.append(lone.buffer.copy())
        lone.runner.reset()
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_the_learning_rate_can_be_set() -> None:
    lone = Lone(capture(mlp()), rows(5), classes(3))
    lone.runner.set_learning_rate(0.0)
    before = lone.buffer.copy()
    lone.train(BATCH)
    np.testing.assert_array_equal(lone.buffer, before)


def test_export_leaves_the_model_as_it_was() -> None:
    """A model that has been trained before: weights, optimizer and metrics."""
    model, x, y = mlp("adam"), rows(5), classes(3)
    fit(model, x, y)
    model.reset_metrics()
    before = [v.numpy().copy() for v in (*model.variables, *model.optimizer.variables)]
    Lone(capture(model), x, y).train(BATCH)
    after = [*model.variables, *model.optimizer.variables]
    assert_same(after, before, rtol=0)
    assert model.get_metrics_result()["accuracy"] == 0


def test_write_gives_the_model_the_trained_weights() -> None:
    model, x, y = mlp(), rows(5), classes(3)
    program = capture(model)
    lone = Lone(program, x, y)
    lone.train(BATCH)
    program.write(lone.buffer)
    trained = lone.buffer.copy()
    assert_same(model.get_weights(), list(lone.tensors.values()), rtol=0)
    lone.buffer[...] = 0  # the caller's buffer is its own again
    np.testing.assert_array_equal(program.read(), trained)
    assert program.evaluate((x, y), BATCH) == pytest.approx(
        model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True)
    )


def test_averages_are_constrained_as_their_weights_are() -> None:
    """Several workers' changes may add up to averages that no weight may have."""
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, kernel_constraint="non_neg")])
    model.compile(keras.optimizers.SGD(0.1, use_ema=True), "mse")
    program = KerasProgram(model)
    buffer = program.layout.allocate()
    for tensor in program.layout.tensors(buffer).values():
        tensor[...] = -1
    program.write(buffer)
    assert program.finish()
    kernel, bias = model.get_weights()
    np.testing.assert_array_equal(kernel, 0)
    np.testing.assert_array_equal(bias, -1)


def test_what_an_optimizer_keeps_for_itself_is_no_parameter_of_the_model() -> None:
    model = mlp(keras.optimizers.SGD(0.1, use_ema=True))
    program = KerasProgram(model)
    layout = Layout.from_json(program.layout.to_json())
    assert layout == program.layout
    assert len(layout) > len(model.weights)
    assert [spec.name for spec in layout.of_model.specs] == [w.path for w in model.weights]
    assert f"{model.count_params()} parameters in {len(model.weights)} tensors" in program.summary


def test_moving_statistics_are_synchronised() -> None:
    model, x, y = classifier(layers.BatchNormalization()), 3 + rows(5), classes(3)
    lone = Lone(capture(model), x, y)
    before = lone.tensors
    lone.train(BATCH)
    moving = [name for name in before if "moving" in name]
    assert len(moving) == 2
    for name in moving:
        assert (lone.tensors[name] != before[name]).all()
    fit(model, x, y)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


def test_convolutions_take_bytes() -> None:
    """uint8 images are rescaled in the model: no float copy of the data travels."""
    model = classifier(
        layers.Rescaling(1 / 255),
        layers.Conv2D(2, 3, activation="relu"),
        layers.Flatten(),
        shape=(6, 6, 1),
    )
    x = np.random.default_rng(0).integers(0, 256, (ROWS, 6, 6, 1), np.uint8)
    lone = Lone(capture(model), x, classes(3))
    lone.train(BATCH)
    fit(model, x, classes(3))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


def test_dropout_drops_anew_in_each_step() -> None:
    """Its random seed is local; on equal rows, at rate zero, only dropout tells calls apart."""
    model = classifier(layers.Dropout(0.5), optimizer=keras.optimizers.SGD(0.0))
    x, y = np.repeat(rows(5)[:1], ROWS, 0), np.zeros(ROWS, int)
    lone = Lone(capture(model), x, y)
    losses = [lone.train(1).values["loss"] for _ in range(3)]
    assert len(set(losses)) == 3
    assert len(lone.tensors) == 2


def test_embeddings_and_recurrence_train() -> None:
    model = classifier(
        layers.Embedding(7, 3), layers.GRU(2), shape=(4,), dtype="int32", optimizer="adam"
    )
    x = np.random.default_rng(0).integers(0, 7, (ROWS, 4))
    lone = Lone(capture(model), x, classes(3))
    lone.train(BATCH)
    fit(model, x, classes(3))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-3)


def two_inputs(kind: str) -> tuple[Any, Any]:
    """A model of two inputs in a list or a dict, and the names of its feeds."""
    left, right = keras.Input((2,), name="zulu"), keras.Input((3,), name="alpha")
    summed = layers.Dense(1)(left) + layers.Dense(1)(right)
    inputs: Any = [left, right] if kind == "list" else {"zulu": left, "alpha": right}
    model = keras.Model(inputs, summed)
    model.compile("sgd", "mse")
    return model, ["zulu", "alpha"]


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_several_inputs_are_fed_in_the_order_of_the_feeds(kind: str) -> None:
    model, names = two_inputs(kind)
    program = capture(model)
    assert [f.name for f in program.feeds] == [*names, "y"]
    data = {"zulu": rows(2), "alpha": rows(3, seed=5)}
    y = rows(1, seed=9)
    lone = Lone(program, *(data[name] for name in names), y)
    lone.train(BATCH)
    fit(model, data if kind == "dict" else [data[name] for name in names], y)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_several_outputs_take_several_labels(kind: str) -> None:
    x = keras.Input((5,))
    outs = {"a": layers.Dense(1, name="a")(x), "b": layers.Dense(2, name="b")(x)}
    model = keras.Model(x, outs if kind == "dict" else list(outs.values()))
    model.compile("sgd", {"a": "mse", "b": "mae"} if kind == "dict" else ["mse", "mae"])
    program = capture(model)
    assert [f.name for f in program.feeds] == ["x", "a", "b"]
    labels = {"a": rows(1, seed=1), "b": rows(2, seed=2)}
    lone = Lone(program, rows(5), *labels.values())
    found = lone.train(BATCH).values
    expected = fit(model, rows(5), labels if kind == "dict" else list(labels.values()))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    assert program.evaluate([rows(5), *labels.values()], BATCH)["loss"] > 0


def test_what_the_user_has_not_named_is_called_x_and_y() -> None:
    assert [f.name for f in capture(mlp()).feeds] == ["x", "y"]
    model = keras.Sequential([keras.Input((5,), name="pixels"), layers.Dense(3, name="digit")])
    model.compile("sgd", "mse")
    program = capture(model, weights=True)
    assert [f.name for f in program.feeds] == ["pixels", "digit", "sample_weight"]
    parts = {part: [f.name for f in feeds] for part, feeds in program.record.items()}
    assert parts == {"inputs": ["pixels"], "labels": ["digit"], "weight": ["sample_weight"]}


class Subclassed(keras.Model):
    """Two layers by one name, and a call of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = layers.Dense(1, name="same"), layers.Dense(1, name="same")

    def call(self, inputs: Any) -> Any:
        a, b = inputs
        return self.left(a) + self.right(b)


def test_a_subclass_is_known_by_its_first_call() -> None:
    model = Subclassed()
    model([rows(2), rows(3)])
    model.compile("adam", "mse")
    program = capture(model)
    assert [f.name for f in program.feeds] == ["x0", "x1", "y"]
    assert len({spec.name for spec in program.layout.specs}) == 4
    lone = Lone(program, rows(2), rows(3), rows(1))
    lone.train(BATCH)
    fit(model, [rows(2), rows(3)], rows(1))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


class OwnStep(keras.Sequential):
    """A training step of its own, which returns the batch's loss and a metric."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = tf.reduce_mean((predicted - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        for metric in self.metrics:
            metric.update_state(loss) if metric.name == "loss" else metric.update_state(
                y, predicted
            )
        return {"loss": loss, "running": self.metrics[0].result()}


def test_a_step_of_the_users_own_is_averaged_as_what_it_is() -> None:
    """A batch's loss is weighted by samples; a metric's result already is a mean, of batches."""
    model = OwnStep([keras.Input((5,)), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    x, y = rows(5), rows(1, seed=3)
    found = Lone(capture(model), x, y).train(BATCH).values
    errors = ((model.predict(x, verbose=0) - y) ** 2)[:, 0]
    batches = [errors[i : i + BATCH].mean() for i in range(0, ROWS, BATCH)]
    assert found["loss"] == pytest.approx(errors.mean(), rel=1e-4)
    assert found["running"] == pytest.approx(np.mean(batches), rel=1e-4)


class Adversaries(keras.Model):
    """Never called itself, two optimizers, no labels, no loss of Keras' own."""

    def __init__(self) -> None:
        super().__init__()
        self.one = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
        self.other = keras.Sequential([keras.Input((1,)), layers.Dense(5)])
        self.second = keras.optimizers.Adam(0.01)

    def train_step(self, data: Any) -> dict[str, Any]:
        x = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self.other(self.one(x)) - x) ** 2)
        for optimizer, part in ((self.optimizer, self.one), (self.second, self.other)):
            weights = part.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"error": loss}


def test_a_model_without_labels_trains_with_optimizers_of_its_own() -> None:
    model = Adversaries()
    model.compile("adam")
    program = capture(model, labels=0)
    assert [f.name for f in program.feeds] == ["x"]
    lone = Lone(program, rows(5))
    losses = [lone.train(BATCH).values["error"] for _ in range(5)]
    assert losses[-1] < losses[0]


def test_mixed_precision_scales_the_loss_and_keeps_float32_weights() -> None:
    keras.config.set_dtype_policy("mixed_float16")
    model = mlp(keras.optimizers.SGD(0.1))
    program = capture(model)
    assert {s.dtype for s in program.layout.specs} == {"float32"}
    lone = Lone(program, rows(5), classes(3))
    before = lone.buffer.copy()
    lone.train(BATCH)
    assert (lone.buffer != before).any()
    assert program.has_learning_rate
    assert program.learning_rate == pytest.approx(0.1)
    lone.runner.set_learning_rate(0.0)  # that of the optimizer inside, not of its wrapper
    trained = lone.buffer.copy()
    lone.train(BATCH)
    np.testing.assert_array_equal(lone.buffer, trained)


def test_steps_whose_float16_gradients_overflow_are_skipped_until_the_scale_has_come_down() -> None:
    """The scale is the worker's own: it goes on where it was in the next call."""
    keras.config.set_dtype_policy("mixed_float16")
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**24)
    lone = Lone(capture(mlp(scaled)), rows(5), classes(3))
    start = lone.buffer.copy()
    changed = []
    for _ in range(8):
        assert np.isfinite(lone.train(BATCH).values["loss"])
        changed.append(bool((lone.buffer != start).any()))
    assert changed[0] is False
    assert changed[-1] is True
    assert all(np.isfinite(value).all() for value in lone.tensors.values())


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_a_models_dtype_is_kept(dtype: str) -> None:
    keras.config.set_dtype_policy(dtype)
    model = keras.Sequential([keras.Input((5,)), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    program = capture(model)
    lone = Lone(program, rows(5), rows(1))
    assert [v.dtype for v in lone.train(BATCH).parameters] == [dtype] * 2
    program.write(lone.buffer)
    assert model.get_weights()[0].dtype == dtype


class Written(keras.Model):
    """Computes by TensorFlow, which multiplies no doubles with floats."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(tf.concat([x, tf.zeros_like(x, tf.float32)], axis=1))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((y - self(x)) ** 2)
        self.optimizer.apply(
            tape.gradient(loss, self.trainable_variables), self.trainable_variables
        )
        return {"loss": loss}


def test_doubles_come_to_a_step_of_ones_own_as_fit_makes_them() -> None:
    x, y = rows(5).astype("float64"), rows(1, seed=2).astype("float64")
    model = Written()
    model.compile(keras.optimizers.SGD(0.1), jit_compile=False)
    model(x[:1].astype("float32"))
    program = capture(model)
    lone = Lone(program, x, y)
    lone.train(BATCH)
    fit(model, x, y)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-5)


def test_adapted_normalisation_travels_with_its_integer_count() -> None:
    x = 5 + 3 * rows(5)
    normalise = layers.Normalization()
    normalise.adapt(x)
    model = classifier(normalise)
    lone = Lone(capture(model), x, classes(3))
    dtypes = {s.name.split("/")[-1]: s.dtype for s in lone.program.layout.specs}
    assert dtypes["count"] == "int64"
    lone.train(BATCH)
    fit(model, x, classes(3))
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-4)


def test_each_kind_of_data_is_exported_once() -> None:
    program = capture(mlp())
    assert isinstance(program, KerasProgram)
    first = program.export([("float32", (5,)), ("int64", ())])
    assert program.export([("float32", (5,)), ("int64", ())]) is first
    assert program.export([("uint8", (5,)), ("int64", ())]) is not first


def test_exporting_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """TensorFlow would name its temporary folder in the user's cell, twice."""
    with caplog.at_level(logging.INFO):
        Lone(capture(classifier(layers.Dense(2))), rows(5), classes(2)).train(BATCH)
    assert not [r for r in caplog.records if r.name in ("tensorflow", "absl")]


@pytest.mark.parametrize(
    ("loss", "classes"),
    [
        ("sparse_categorical_crossentropy", 5),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), 5),
        ([keras.losses.sparse_categorical_crossentropy], 5),
        (keras.losses.SparseCategoricalCrossentropy(ignore_class=-1), None),
        ("categorical_crossentropy", None),
        ("mse", None),
    ],
)
def test_the_classes_of_labels_are_known_where_the_loss_takes_their_numbers(
    loss: Any, classes: int | None
) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    model.compile("sgd", loss)
    assert [feed.classes for feed in KerasProgram(model).feeds] == [None, classes]


SPARSE = "sparse_categorical_crossentropy"


@pytest.mark.parametrize("form", ["list", "dict"])
@pytest.mark.parametrize(
    ("loss", "classes"),
    [
        (SPARSE, {"z": 3, "a": 5}),
        ({"z": SPARSE, "a": "mse"}, {"z": 3, "a": None}),
        ({"a": SPARSE, "z": None}, {"z": None, "a": 5}),
    ],
)
def test_the_classes_of_several_outputs_are_each_known(
    form: str, loss: Any, classes: dict[str, int | None]
) -> None:
    x = keras.Input((3,), name="x")
    outs = {name: layers.Dense(size, name=name)(x) for name, size in (("z", 3), ("a", 5))}
    model = keras.Model(x, outs if form == "dict" else list(outs.values()))
    model.compile("sgd", loss)
    assert {feed.name: feed.classes for feed in KerasProgram(model).feeds[1:]} == classes


@pytest.mark.parametrize("form", ["list", "dict"])
def test_a_list_of_losses_is_in_the_order_in_which_keras_takes_it(form: str) -> None:
    x = keras.Input((3,))
    outs = {name: layers.Dense(4, name=name)(x) for name in "za"}
    model = keras.Model(x, outs if form == "dict" else list(outs.values()))
    model.compile("sgd", [SPARSE, "mse"])
    classes = {feed.name: feed.classes for feed in KerasProgram(model).feeds[1:]}
    assert classes == ({"z": 4, "a": None} if form == "list" else {"a": 4, "z": None})
