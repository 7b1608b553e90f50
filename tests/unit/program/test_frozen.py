"""Frozen layers of Keras models: in the program once, not exchanged, and never out of date."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.unit.program.support import Lone, assert_same
from tos_notebook.errors import CaptureError, UnsupportedProgram
from tos_notebook.program.archived import SavedProgram
from tos_notebook.program.capture import capture
from tos_notebook.program.export.frozen import assigned, digest

X = np.random.default_rng(0).normal(3.0, 1.0, (11, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 11)
COLUMNS = [("float32", (5,)), ("int64", ())]


pytestmark = pytest.mark.usefixtures("fresh_keras")


def base(*parts: Any) -> Any:
    """Return a small network, as if it had been trained elsewhere."""
    body = parts or (layers.Dense(8), layers.BatchNormalization(), layers.Dense(4))
    return keras.Sequential([keras.Input((5,)), *body], name="base")


def headed(body: Any, frozen: bool = True) -> Any:
    """Put a head on a network, and compile it."""
    body.trainable = not frozen
    model = keras.Sequential([keras.Input((5,)), body, layers.Dense(3, name="head")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    return model


def names(program: Any) -> list[str]:
    return ["/".join(s.name.split("/")[-2:]) for s in program.layout.specs]


def test_only_the_head_on_a_frozen_base_is_exchanged_and_the_base_stays() -> None:
    """Its BatchNormalization runs in inference mode, as in Keras: its statistics stay, too."""
    model = headed(base())
    before = [w.numpy() for w in model.layers[0].weights]
    program = capture(model)
    assert names(program) == ["head/kernel", "head/bias"]
    assert program.layout.size == 4 * 3 + 3
    lone = Lone(program, X, Y)
    found = lone.train(4).values
    model.run_eagerly = True
    fitted = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0).history
    assert_same(list(lone.tensors.values()), model.layers[-1].get_weights(), rtol=1e-4)
    assert found == pytest.approx({name: values[0] for name, values in fitted.items()}, rel=1e-4)
    program.write(lone.buffer)
    assert_same(model.layers[0].get_weights(), before, rtol=0)
    # A worker keeps counters, metrics and the rate, to put them back; but no copy of the base.
    assert sum(value.nbytes for value in lone.runner._initial) < 100


def test_statistics_of_layers_that_are_not_frozen_are_exchanged() -> None:
    body = base()
    model = headed(body, frozen=False)
    body.layers[0].trainable = False
    assert "dense/kernel" not in names(capture(model))
    assert {name.split("/")[-1] for name in names(capture(model))} == {
        "kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance",
    }  # fmt: skip


def test_a_model_without_frozen_layers_holds_nothing_else() -> None:
    assert capture(headed(base(), frozen=False)).frozen == ""


def test_new_values_of_frozen_weights_are_exported_anew_and_unfrozen_ones_refused() -> None:
    """As between two runs of one session: the workers must not train on the old ones."""
    model = headed(base())
    program = capture(model)
    first = program.export(COLUMNS)
    assert program.export(COLUMNS) is first
    model.layers[0].layers[0].kernel.assign(np.ones((5, 8)))
    second = program.export(COLUMNS)
    assert second != first
    assert first.exists()
    model.layers[0].trainable = True
    with pytest.raises(CaptureError, match=r"'base/batch_.* and 7 more among them.*capture it"):
        program.export(COLUMNS)


class Counting(layers.Layer):
    """Keeps count of its calls, frozen or not."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        return x


def test_a_frozen_layer_that_changes_itself_is_refused() -> None:
    program = capture(headed(base(Counting(name="counting"))))
    with pytest.raises(UnsupportedProgram, match=r"changes 'base/counting/calls'.*trainable to T"):
        program.export(COLUMNS)
    thawed = capture(headed(base(Counting(name="counting")), frozen=False))
    lone = Lone(thawed, X, Y)
    lone.train(4)
    assert [v for k, v in lone.tensors.items() if k.endswith("calls")] == [3]


def test_a_saved_program_has_the_learning_rate_that_it_was_saved_with() -> None:
    program = capture(headed(base()))
    archive = program.export(COLUMNS)
    assert SavedProgram(archive, COLUMNS, learning_rate=0.25).learning_rate == 0.25
    assert SavedProgram(archive, COLUMNS).learning_rate is None


def test_a_saved_run_goes_on_with_a_model_of_the_same_frozen_weights_only() -> None:
    model = headed(base())
    program = capture(model)
    archive = program.export(COLUMNS)
    assert SavedProgram(archive, COLUMNS, program).frozen == program.frozen != ""
    # Made again without its seed: as many parameters, other values in the base.
    with pytest.raises(CaptureError, match=r"frozen weights have other values.*set the seed"):
        SavedProgram(archive, COLUMNS, capture(headed(base())))
    keras.utils.set_random_seed(0)
    SavedProgram(archive, COLUMNS, capture(headed(base())))


def test_what_a_step_assigns_is_told_from_what_it_reads_in_functions_that_it_calls() -> None:
    added, read, looped = (tf.Variable(0.0, name=name) for name in ("added", "read", "looped"))

    @tf.function
    def inner(x: Any) -> Any:
        added.assign_add(x)
        for _ in tf.range(3):
            looped.assign_add(read * x)
        return x * read + added

    def outer(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = inner(x)
        return tape.gradient(y, read)

    function = tf.function(outer).get_concrete_function(tf.TensorSpec([]))
    assert assigned(function, [added, read, looped]) == [added, looped]


def test_a_digest_tells_values_and_their_types_apart() -> None:
    values = [[1.0, 2.0], [2.0, 1.0], ["a", "b"], [True, False]]
    found = [digest([tf.Variable(value)]) for value in values]
    assert len(set(found)) == 4
    assert digest([tf.Variable([1.0, 2.0])]) == found[0]
    assert digest([]) == ""
