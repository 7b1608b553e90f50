"""A step that is cut: the gradients of a batch, and the update of their mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.long import few
from tests.unit.program.support import Lone, Trainers, assert_one_call_does_both, batches
from tos_notebook.archive.spec import read_spec
from tos_notebook.common.arrays import Array
from tos_notebook.errors import UnsupportedProgram
from tos_notebook.program.archived import SavedProgram
from tos_notebook.program.capture import capture
from tos_notebook.program.export.base import Program
from tos_notebook.runtime.runner import TensorFlowRunner

LossScaleOptimizer = keras.optimizers.LossScaleOptimizer

COLUMNS = [("float32", (6,)), ("int64", ())]
ROWS = 32
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, 6)).astype("float32")
Y = RANDOM.integers(0, 3, ROWS)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw, clipped": lambda: keras.optimizers.AdamW(0.01, global_clipnorm=0.1),
    "averages": lambda: keras.optimizers.Adam(0.01, use_ema=True),
    "schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    ),
    "accumulated": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
}
KEPT = "averages", "accumulated"


def model(optimizer: Any, **layer: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="tanh", **layer),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    made.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return made


def with_statistics() -> Any:
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    made.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return made


def scaled(scale: float, **layer: Any) -> keras.Model:
    return model(LossScaleOptimizer(keras.optimizers.Adam(0.01), scale, 3), **layer)


OVERFLOWS = "scaled loss that overflows"

FUSED: dict[str, Callable[[], Any]] = {
    **{name: partial(lambda make: model(make()), make) for name, make in OPTIMIZERS.items()},
    "statistics": with_statistics,
    OVERFLOWS: lambda: scaled(2e6, dtype="mixed_float16"),
}


@cache
def captured(name: str) -> Program:
    """Capture one of `FUSED` for tests that leave its model alone: it is exported for all once."""
    return capture(FUSED[name]())


def whole(program: Program, batch_size: int, calls: int) -> dict[str, Array]:
    """Return what one process trains, batch by batch."""
    runner, buffer = TensorFlowRunner(program.export(COLUMNS)), program.read()
    for batch in batches((X, Y), batch_size) * calls:
        trained = runner.train(program.layout.vectors(buffer), batch, batch_size)
        program.layout.pack(trained.parameters, buffer)
    return {name: value.copy() for name, value in program.layout.tensors(buffer).items()}


@pytest.mark.parametrize("name", few(OPTIMIZERS, *KEPT))
def test_gradients_and_update_are_the_whole_step_to_the_bit(name: str) -> None:
    program = captured(name)
    expected = whole(program, 8, 3)
    cut = Trainers(program, X, Y, on_worker=False)
    for batch in batches((X, Y), 8) * 3:
        cut.step([batch])
    for parameter, value in cut.tensors.items():
        if "clipped" in name:
            # The norm over all gradients is added up in another order.
            np.testing.assert_allclose(value, expected[parameter], rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(value, expected[parameter], parameter)


@pytest.mark.parametrize("name", few(FUSED, "adamw, clipped", "statistics", OVERFLOWS))
def test_a_step_in_one_call_with_the_next_gradients_is_the_same_to_the_bit(name: str) -> None:
    assert_one_call_does_both(captured(name), (X, Y), 4)


def test_what_one_call_cannot_do_is_left_to_two() -> None:
    many = Trainers(captured("sgd"), X, Y)
    bound = Trainers(capture(model("sgd", kernel_constraint="unit_norm")), X, Y)
    for trainers, rows in [(many, 16), (bound, 8)]:
        vectors = trainers.layout.vectors(trainers.buffer)
        means = trainers.layout.vectors(trainers.layout.allocate())
        assert trainers.runner.advance(vectors, means, (X[:rows], Y[:rows]), 8) is None
    # As a program that was archived before.
    whole = Lone(captured("sgd"), X, Y)
    vectors = whole.program.layout.vectors(whole.buffer)
    assert whole.runner.advance(vectors, vectors, (X[:8], Y[:8]), 8) is None


@pytest.mark.parametrize("name", few(OPTIMIZERS, "adamw, clipped", "accumulated"))
def test_workers_with_unequal_batches_train_as_one_process_does(name: str) -> None:
    program = captured(name)
    expected = whole(program, ROWS, 10)
    cut = Trainers(program, X, Y)
    for _ in range(10):
        cut.step([(X[:5], Y[:5]), (X[5:25], Y[5:25]), (X[25:], Y[25:])])
    for parameter, value in cut.tensors.items():
        np.testing.assert_allclose(value, expected[parameter], rtol=2e-4, atol=2e-6)


def test_a_call_with_several_batches_adds_up_their_gradients() -> None:
    program = captured("sgd")
    at_once, in_parts = Trainers(program, X, Y), Trainers(program, X, Y)
    at_once.step([(X, Y)])
    trained = in_parts.runner.train(in_parts.layout.vectors(in_parts.buffer), (X, Y), 5)
    expected = at_once.runner.train(in_parts.layout.vectors(in_parts.buffer), (X, Y), ROWS)
    for one, other in zip(trained.parameters, expected.parameters, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert trained.values["loss"] == pytest.approx(expected.values["loss"], rel=1e-5)


def test_moving_statistics_are_averaged() -> None:
    cut = Trainers(captured("statistics"), X, Y)
    cut.step([(X[:8], Y[:8]), (X[8:], Y[8:])])
    moving = next(v for name, v in cut.tensors.items() if "moving_mean" in name)
    expected = 0.01 * X.mean(axis=0)
    np.testing.assert_allclose(moving, expected, rtol=1e-4, atol=1e-6)


def test_a_module_is_cut() -> None:
    def program() -> Program:
        weights = [tf.Variable(tf.ones([6, 3])), tf.Variable(tf.zeros([3]))]

        def loss(x: Any, y: Any) -> Any:
            logits = x @ weights[0] + weights[1]
            return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)

        feeds = [tf.TensorSpec([None, 6], tf.float32), tf.TensorSpec([None], tf.int64)]
        return capture(weights, loss=loss, optimizer=keras.optimizers.Adam(0.01), feeds=feeds)

    made = program()
    expected = whole(made, ROWS, 5)
    cut = Trainers(made, X, Y)
    for _ in range(5):
        cut.step([(X[:10], Y[:10]), (X[10:], Y[10:])])
    for parameter, value in cut.tensors.items():
        np.testing.assert_allclose(value, expected[parameter], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        pytest.param("float32", 2.0**15, marks=pytest.mark.long),
        pytest.param("mixed_float16", 2.0**10, marks=pytest.mark.long),
        ("mixed_float16", 2e6),
    ],
)
def test_a_scaled_loss_trains_as_whole_to_the_bit(dtype: str, scale: float) -> None:
    """The last one's gradients overflow at first: by those, the optimizer makes no step."""
    program = captured(OVERFLOWS) if scale == 2e6 else capture(scaled(scale, dtype=dtype))
    runner, buffer = TensorFlowRunner(program.export(COLUMNS)), program.read()
    cut = Trainers(program, X, Y)
    scales = [scale]
    for batch in batches((X, Y), 8) * 3:
        trained = runner.train(program.layout.vectors(buffer), batch, 8)
        program.layout.pack(trained.parameters, buffer)
        before = cut.tensors
        assert cut.step([batch]) == trained.values
        *_, (name, now) = cut.tensors.items()
        assert name.endswith("dynamic_scale")
        scales.append(float(now))
        for parameter, value in program.layout.tensors(buffer).items():
            np.testing.assert_array_equal(cut.tensors[parameter], value, parameter)
            assert scales[-1] >= scales[-2] or np.array_equal(before[parameter], value)
    assert (scales[1] == scale / 2) == (scale == 2e6)
    assert max(scales[4:]) > min(scales)


def test_gradients_of_one_worker_that_are_not_finite_lower_the_scale_of_all() -> None:
    program = capture(scaled(2.0**15)).for_gradients()
    cut = Trainers(program, X, Y)
    before = cut.tensors
    cut.step([(X[:8], Y[:8]), (X[8:] * np.float32(np.inf), Y[8:])])
    *weights, (_, scale) = cut.tensors.items()
    assert scale == 2.0**14
    for name, value in weights:
        np.testing.assert_array_equal(value, before[name])
    program.write(cut.buffer)
    assert program.model.optimizer.dynamic_scale.numpy() == 2.0**14


def test_only_workers_that_compute_gradients_are_sent_the_scale() -> None:
    program = captured(OVERFLOWS)
    ordinary = program.layout
    twin = program.for_gradients()
    assert len(ordinary) == len(program.model.weights)
    assert program.layout == ordinary == twin.layout.of_model
    assert len(twin.layout) == len(ordinary) + 1
    assert program.for_gradients() is twin is twin.for_gradients()
    assert not read_spec(program.export(COLUMNS)).gradients
    assert read_spec(twin.export(COLUMNS)).gradients


def test_the_specification_tells_whether_the_loss_is_scaled() -> None:
    for program, expected in [(captured(OVERFLOWS), True), (captured("sgd"), False)]:
        made = program.for_gradients()
        assert read_spec(made.export(COLUMNS)).scales_loss is made.scales_loss is expected


def test_a_module_with_a_scaled_loss_is_cut() -> None:
    weights = [tf.Variable(tf.ones([6, 3])), tf.Variable(tf.zeros([3]))]

    def loss(x: Any, y: Any) -> Any:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, x @ weights[0] + weights[1])

    feeds = [tf.TensorSpec([None, 6], tf.float32), tf.TensorSpec([None], tf.int64)]
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), 2.0**15)
    program = capture(weights, loss=loss, optimizer=optimizer, feeds=feeds)
    expected = whole(program, 8, 2)
    cut = Trainers(program, X, Y)
    for batch in batches((X, Y), 8) * 2:
        cut.step([batch])
    assert program.for_gradients().scales_loss
    for parameter, value in expected.items():
        np.testing.assert_array_equal(cut.tensors[parameter], value)


def test_a_saved_program_trains_as_it_was_saved() -> None:
    program = captured(OVERFLOWS)
    saved = SavedProgram(program.for_gradients().export(COLUMNS), COLUMNS, program)
    assert saved.for_gradients() is saved
    assert saved.layout == program.for_gradients().layout
    assert saved.scales_loss
    saved.write(saved.read())
    ordinary = SavedProgram(program.export(COLUMNS), COLUMNS, program)
    assert ordinary.layout == program.layout


def test_the_learning_rate_of_the_update_can_be_set() -> None:
    program = captured("sgd")
    cut, other = Trainers(program, X, Y), Trainers(program, X, Y)
    before = cut.buffer.copy()
    cut.updater.set_learning_rate(0.0)
    cut.step([(X, Y)])
    np.testing.assert_array_equal(cut.buffer, before)
    cut.updater.set_learning_rate(0.1)
    cut.step([(X, Y)])
    other.step([(X, Y)])
    np.testing.assert_array_equal(cut.buffer, other.buffer)


def test_the_optimizers_state_continues_where_it_was_copied() -> None:
    program = captured("averages")
    first, second = (Trainers(program, X, Y, on_worker=False) for _ in range(2))
    for _ in range(3):
        first.step([(X, Y)])
    state = first.updater.state()
    # NumPy's other type for int64, which a checkpoint's file may have.
    second.updater.restore([s.astype(np.longlong) if s.dtype == np.int64 else s for s in state])
    second.buffer[:] = first.buffer
    for cut in (first, second):
        cut.step([(X, Y)])
    np.testing.assert_array_equal(first.buffer, second.buffer)
    with pytest.raises(ValueError, match="variables"):
        second.updater.restore(first.updater.state()[1:])


class Twice(keras.Model):
    """Updates its weights again."""

    def train_step(self, data: Any) -> Any:
        super().train_step(data)
        return super().train_step(data)


class Conditional(keras.Model):
    """Updates its weights in a condition."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x))
        gradients = tape.gradient(loss, self.trainable_weights)

        def update() -> tf.Tensor:
            self.optimizer.apply(gradients, self.trainable_weights)
            return tf.constant(0.0)

        tf.cond(loss > 0, update, lambda: tf.constant(0.0))
        return {"loss": loss}


class ReadsAfter(keras.Model):
    """Looks at the weights that the optimizer has made."""

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        return {**logs, "norm": tf.norm(self.trainable_weights[0].value)}


class ByHand(keras.Model):
    """Has no use for its optimizer."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x))
        weight = self.trainable_weights[0]
        weight.assign_sub(0.1 * tape.gradient(loss, [weight])[0])
        return {"loss": loss}


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (Twice, "more than once"),
        (Conditional, "in a condition or a loop"),
        (ReadsAfter, "uses its weights again"),
        (ByHand, "does not call the optimizer"),
    ],
)
def test_a_step_without_a_place_to_cut_says_why_and_what_to_do(kind: Any, cause: str) -> None:
    inputs = keras.Input((6,))
    made = kind(inputs, keras.layers.Dense(3, activation="softmax")(inputs))
    made.compile("sgd", "sparse_categorical_crossentropy")
    program = capture(made)
    program.export(COLUMNS)
    with pytest.raises(UnsupportedProgram, match=cause) as raised:
        program.for_gradients().export(COLUMNS)
    assert 'of="parameters"' in str(raised.value)
    # The model's own optimizer is as it was.
    program.export(COLUMNS)


def test_each_half_of_a_program_knows_the_other() -> None:
    program = captured(OVERFLOWS)
    twin = program.for_gradients()
    assert twin.for_steps() is program is program.for_steps()
    archive = program.export(COLUMNS)
    saved = SavedProgram(archive, COLUMNS, program)
    assert saved.for_steps() is saved
    assert saved.for_gradients() is twin
    assert SavedProgram(twin.export(COLUMNS), COLUMNS, program).for_steps() is program


def test_a_saved_program_without_its_model_has_no_other_half() -> None:
    program = captured("sgd")
    for made in (program, program.for_gradients()):
        saved = SavedProgram(made.export(COLUMNS), COLUMNS)
        with pytest.raises(UnsupportedProgram, match="Resume the run with its model"):
            saved.for_steps() if made.gradients else saved.for_gradients()
