"""A model that is captured again is not traced again, unless anything is not what it was."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from tos_notebook.program.capture import capture

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
    kept = archive.stat().st_nlink
    assert kept == 2
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
    [
        *(changed_rate, trained_here, other_momentum, other_metric, new_optimizer),
        *(other_learning_rate, drawn),
    ],
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: model(layers.Lambda(lambda x: x * 2, output_shape=(4,))),
        lambda: model(layers.Activation(lambda x: keras.ops.tanh(x))),
        of_own_class,
    ],
    ids=["lambda", "activation", "step"],
)
def test_functions_of_ones_own_may_read_something_else_each_time(
    make: Callable[[], keras.Model],
) -> None:
    assert not is_kept(make(), lambda: None)


def test_a_loss_and_a_preparation_of_ones_own_may_read_something_else_each_time() -> None:
    made = model()
    made.compile("sgd", own_loss)
    assert not is_kept(made, lambda: None)
    assert not is_kept(model(), lambda: None, preprocess=lambda x: x * 2)
    assert not is_kept(model(), lambda: None, class_weight={0: 2.0})


def test_other_data_have_an_archive_of_their_own() -> None:
    made = model()
    first = exported(made)
    other = exported(made, [("float64", (6,)), ("int64", ())])
    again = exported(made)
    assert not first[1].samefile(other[1])
    assert first[1].samefile(again[1])
