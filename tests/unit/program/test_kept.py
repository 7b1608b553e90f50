"""A model that is captured again is not traced again, unless anything is not what it was."""

from __future__ import annotations

import errno
import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from tests.support.long import few
from tos_notebook.program.capture import capture
from tos_notebook.program.keras import kept

COLUMNS = [("float32", (6,)), ("int64", ())]
LOSS = "sparse_categorical_crossentropy"


def model(*more: Any) -> keras.Model:
    made = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(4, name="first"),
            layers.Dropout(0.5, name="dropout"),
            *more,
            layers.Dense(3, activation="softmax"),
        ]
    )
    made.compile(keras.optimizers.Adam(0.01), LOSS, metrics=["accuracy"])
    return made


def exported(made: keras.Model, columns: Any = COLUMNS, **options: Any) -> tuple[Any, Path]:
    # The program owns its archive.
    program = capture(made, **options)
    return program, program.export(columns)


def is_kept(made: keras.Model, change: Callable[[], object], **options: Any) -> bool:
    """Whether the archive serves again after a change."""
    first = exported(made, **options)
    change()
    second = exported(made, **options)
    return first[1].samefile(second[1])


def is_same(made: keras.Model, change: Callable[[], object], **options: Any) -> bool:
    """Whether the archive would serve again after a change that leaves all values as they are.

    It goes by what decides that, and traces nothing.
    """
    program = capture(made, **options)
    first = program._made_of(tuple(COLUMNS)), kept.makers(made, program._optimizers)
    change()
    program = capture(made, **options)
    second = program._made_of(tuple(COLUMNS)), kept.makers(made, program._optimizers)
    return bool(first[0]) and first[0] == second[0] and kept._are(first[1], second[1])


def own_loss(y: Any, found: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(y, found)


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


def of_own_class() -> keras.Model:
    entry = keras.Input((6,))
    made = OwnStep(entry, layers.Dense(3, activation="softmax")(entry))
    made.compile("sgd", LOSS)
    return made


def test_a_model_that_is_as_it_was_is_traced_once() -> None:
    made = model(layers.BatchNormalization())
    # Parameters are synchronised: their values are none of the archive's.
    assert is_kept(made, lambda: made.set_weights([w * 2 for w in made.get_weights()]))


def test_what_is_kept_goes_with_the_model() -> None:
    made = model()
    program, archive = exported(made)
    assert archive.stat().st_nlink == 2
    del made, program
    gc.collect()
    assert not archive.exists()


def changed_rate(made: keras.Model) -> None:
    made.get_layer("dropout").rate = 0.1


def trained_here(made: keras.Model) -> None:
    made.fit(np.ones((4, 6), "float32"), np.zeros(4, "int64"), verbose=0)


def other_momentum(made: keras.Model) -> None:
    made.optimizer.beta_1 = 0.5


def other_metric(made: keras.Model) -> None:
    made.compile(made.optimizer, LOSS)


def new_optimizer(made: keras.Model) -> None:
    made.compile(keras.optimizers.Adam(0.01), LOSS, metrics=["accuracy"])


def other_learning_rate(made: keras.Model) -> None:
    made.optimizer.learning_rate = 0.5


def drawn(made: keras.Model) -> None:
    """Draw from the numbers of the dropout, whose state an archive holds."""
    made(np.ones((4, 6), "float32"), training=True)


@pytest.mark.parametrize(
    "change",
    few(
        [
            *(changed_rate, trained_here, other_momentum, other_metric, new_optimizer),
            *(other_learning_rate, drawn),
        ],
        *(trained_here, other_learning_rate, other_metric, drawn),
    ),
)
def test_a_model_that_has_changed_is_traced_again(change: Callable[[Any], None]) -> None:
    made = model()
    assert not is_kept(made, lambda: change(made))


def test_frozen_weights_that_have_changed_are_exported_again() -> None:
    made = model()
    first = made.get_layer("first")
    first.trainable = False
    made.compile("sgd", LOSS)
    assert not is_kept(made, lambda: first.set_weights([w + 1 for w in first.get_weights()]))


def test_functions_of_ones_own_may_read_something_else_each_time() -> None:
    made = model(layers.Lambda(lambda x: x * 2, output_shape=(4,)))
    assert not is_kept(made, lambda: None)
    for made in (model(layers.Activation(lambda x: keras.ops.tanh(x))), of_own_class()):
        assert not is_same(made, lambda: None)


def test_a_loss_and_a_preparation_of_ones_own_may_read_something_else_each_time() -> None:
    made = model()
    assert is_same(made, lambda: None)
    assert not is_same(made, lambda: None, preprocess=lambda x: x * 2)
    assert not is_same(made, lambda: None, class_weight={0: 2.0})
    made.compile("sgd", own_loss)
    assert not is_same(made, lambda: None)


def test_other_data_have_an_archive_of_their_own() -> None:
    made = model()
    first = exported(made)
    other = exported(made, [("float64", (6,)), ("int64", ())])
    again = exported(made)
    assert not first[1].samefile(other[1])
    assert first[1].samefile(again[1])


def other_rule(made: keras.Model) -> None:
    made.get_layer("first").kernel.regularizer = keras.regularizers.L2(0.5)


def other_constraint(made: keras.Model) -> None:
    made.get_layer("first").kernel.constraint = keras.constraints.NonNeg()


def compiled_again(made: keras.Model) -> None:
    # The configuration of a loss does not tell its dtype.
    loss = keras.losses.SparseCategoricalCrossentropy(dtype="float64")
    made.compile(made.optimizer, loss, metrics=["accuracy"])


@pytest.mark.parametrize("change", [other_rule, other_constraint, compiled_again])
def test_what_no_configuration_tells_is_noticed(change: Callable[[Any], None]) -> None:
    made = model()
    loss = keras.losses.SparseCategoricalCrossentropy()
    made.compile(made.optimizer, loss, metrics=["accuracy"])
    assert is_same(made, lambda: None)
    assert not is_same(made, lambda: change(made))


def test_a_number_of_a_layer_that_its_configuration_does_not_tell_is_noticed() -> None:
    zoom = layers.RandomZoom(0.1)
    made = model(layers.Reshape((2, 2, 1)), zoom, layers.Flatten())
    assert is_same(made, lambda: None)
    assert not is_same(made, lambda: setattr(zoom, "height_lower", -0.9))


@pytest.mark.parametrize(
    ("name", "value"),
    few(
        [("epsilon", 1e-3), ("floatx", "float64"), ("image_data_format", "channels_first")],
        ("floatx", "float64"),
    ),
)
def test_another_setting_of_keras_is_noticed(name: str, value: Any) -> None:
    get, put = (getattr(keras.config, prefix + name) for prefix in ("", "set_"))
    before = get()
    try:
        assert not is_same(model(), lambda: put(value))
    finally:
        put(before)


def test_methods_that_were_replaced_may_read_something_else_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = model()
    made.train_step = MethodType(lambda self, data: keras.Model.train_step(self, data), made)
    assert not is_same(made, lambda: None)
    call = layers.Dense.call
    monkeypatch.setattr(layers.Dense, "call", lambda self, x, training=None: call(self, x))
    assert not is_same(model(), lambda: None)


def test_a_module_whose_name_begins_as_keras_does_is_not_keras(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Scaled(layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 2.0

    monkeypatch.setattr(Scaled, "__module__", "keras_mine")
    for function in (Scaled.call, own_loss):
        monkeypatch.setattr(function, "__module__", "keras_mine")
    assert not is_same(model(Scaled()), lambda: None)
    made = model()
    made.compile("sgd", own_loss)
    assert not is_same(made, lambda: None)


def test_a_loss_of_ones_own_is_nothing_to_warn_of() -> None:
    made = model()
    made.compile("sgd", lambda y, found: own_loss(y, found))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*lambda")
        assert not is_same(made, lambda: None)


def test_an_archive_that_is_gone_or_on_another_device_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = model()
    first = exported(made)
    (archive,) = (each.archive for each in kept._kept[made])
    archive.unlink()
    second = exported(made)
    assert not first[1].samefile(second[1])

    def link(*paths: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", link)
    third = exported(made)
    assert third[1].exists()
    assert not second[1].samefile(third[1])


def test_a_model_that_is_compiled_again_and_again_keeps_one_archive() -> None:
    made = model()
    for _ in range(3):
        new_optimizer(made)
        exported(made)
    assert len(kept._kept[made]) == 1


@pytest.mark.parametrize("kind", few(["lstm", "gru", "images", "mixed"], "images", "mixed"))
def test_models_of_many_kinds_are_traced_once(kind: str) -> None:
    parts: dict[str, list[Any]] = {
        "lstm": [layers.Reshape((3, 2)), layers.Bidirectional(layers.LSTM(2))],
        "gru": [layers.Reshape((3, 2)), layers.GRU(2, return_sequences=True)],
        "images": [layers.Reshape((6, 1, 1)), layers.Conv2D(2, 1), layers.RandomFlip()],
        "mixed": [layers.Dense(4, dtype="mixed_float16", kernel_regularizer="l2")],
    }
    made = model(layers.Reshape((4,)), layers.Dense(6), *parts[kind], layers.Flatten())
    made.compile(
        keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.1, 10), use_ema=True),
        keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)],
    )
    assert is_kept(made, lambda: None)
