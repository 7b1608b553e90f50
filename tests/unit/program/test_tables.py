"""Lookup tables are part of a program, wherever in the user's process they are."""

from __future__ import annotations

import gc
import itertools
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.support.long import few
from tests.unit.program.support import Lone, assert_same
from tos_notebook.errors import CaptureError, UnsupportedProgram
from tos_notebook.program.capture import capture
from tos_notebook.program.keras.program import KerasProgram

pytestmark = pytest.mark.usefixtures("fresh_keras")

WORDS = np.array([b"a", b"b", b"never seen", b"", b"b", b"a", b"a", b"b", b"c", b"c", b"a"], object)
LABELS = np.arange(11) % 3


def compiled(inputs: Any, found: Any) -> Any:
    model = keras.Model(inputs, layers.Dense(3)(found))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    return model


def test_a_layer_that_looks_words_up_trains_as_in_this_process() -> None:
    words = keras.Input((1,), dtype="string")
    found = layers.StringLookup(vocabulary=["a", "b"])(words)
    model = compiled(words, layers.Flatten()(layers.Embedding(3, 2)(found)))
    lone = Lone(capture(model), WORDS[:, None], LABELS)
    trained = lone.train(4).values
    data = tf.data.Dataset.from_tensor_slices((WORDS[:, None].tolist(), LABELS)).batch(4)
    expected = model.fit(data, verbose=0).history
    assert trained == pytest.approx({name: values[0] for name, values in expected.items()}, 1e-5)
    assert_same(list(lone.tensors.values()), model.get_weights(), rtol=1e-5)


@pytest.mark.parametrize("kind", few(["static", "vocabulary", "mutable"], "static", "mutable"))
def test_a_table_that_only_a_function_knows_travels(kind: str) -> None:
    keys, numbers = tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64)
    entries = tf.lookup.KeyValueTensorInitializer(keys, numbers)
    table: Any
    if kind == "static":
        table = tf.lookup.StaticHashTable(entries, 3)
    elif kind == "vocabulary":
        zero = tf.lookup.KeyValueTensorInitializer(keys, numbers - 1)
        table = tf.lookup.StaticVocabularyTable(zero, 2)
    else:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 3)
        table.insert(keys, numbers)
    inputs = keras.Input((5,))
    model = compiled(inputs, inputs)

    def prepare(text: Any) -> Any:
        # TensorFlow does not know the shape of what a mutable table returns.
        return tf.reshape(tf.one_hot(table.lookup(text), 5), [-1, 5])

    program = KerasProgram(model, preprocess=prepare)
    # What no collection of garbage looks at is found, too.
    gc.freeze()
    found = Lone(program, WORDS, LABELS).train(11).values
    assert found["loss"] == pytest.approx(program.evaluate((WORDS, LABELS))["loss"], rel=1e-5)


def test_other_resources_are_refused() -> None:
    queue = tf.queue.FIFOQueue(1, [tf.int64])
    inputs = keras.Input((1,))
    model = compiled(inputs, inputs)
    program = KerasProgram(model, preprocess=lambda x: x + tf.cast(queue.size(), tf.float32))
    with pytest.raises(UnsupportedProgram, match="neither a variable nor a lookup table"):
        program.export([("float32", (1,)), ("int64", ())])


@pytest.mark.parametrize(
    ("layer", "first", "second"),
    [
        (layers.Normalization(), [[0.0], [1.0]], [[0.0], [5.0]]),
        (layers.Discretization(num_bins=2), [[0.0], [1.0]], [[4.0], [5.0]]),
    ],
    ids=["Normalization", "Discretization"],
)
def test_a_layer_that_is_adapted_again_is_exported_again(
    layer: Any, first: list[list[float]], second: list[list[float]]
) -> None:
    layer.adapt(np.array(first, "float32"))
    numbers = keras.Input((1,))
    program = capture(compiled(numbers, layer(numbers)))
    columns = [("float32", (1,)), ("int64", ())]
    exported = program.export(columns)
    assert program.export(columns) == exported
    layer.adapt(np.array(second, "float32"))
    assert program.export(columns) != exported


def test_a_vocabulary_that_is_set_again_is_exported_again() -> None:
    words = keras.Input((1,), dtype="string")
    lookup = layers.StringLookup(vocabulary=["a"], output_mode="multi_hot")
    program = capture(compiled(words, lookup(words)))
    columns = [("string", (1,)), ("int64", ())]
    first = program.export(columns)
    assert program.export(columns) == first
    lookup.set_vocabulary(["b"])
    assert program.export(columns) != first


class Nested(layers.Layer):
    """Holds a lookup that is no layer of the model's own."""

    def __init__(self, lookup: Any) -> None:
        super().__init__()
        self.held = {"lookup": lookup}

    def call(self, x: Any) -> Any:
        return self.held["lookup"](x)


NEVER_ADAPTED = [
    layers.StringLookup,
    partial(layers.StringLookup, num_oov_indices=3),
    partial(layers.TextVectorization, output_sequence_length=1),
]


PLACES = "layer", "preprocess", "nested"


@pytest.mark.parametrize(
    ("place", "make"),
    # Each place and each layer once.
    few(
        itertools.product(PLACES, NEVER_ADAPTED),
        *zip(PLACES, NEVER_ADAPTED, strict=True),
    ),
)
def test_a_lookup_that_was_never_adapted_is_refused_by_name(make: Any, place: str) -> None:
    lookup = make(name="colors")
    if place == "preprocess":
        inputs = keras.Input((1,))
        program = capture(
            compiled(inputs, inputs),
            preprocess=lambda text: tf.cast(tf.reshape(lookup(text), [-1, 1]), tf.float32),
        )
    else:
        words = keras.Input((1,), dtype="string")
        found = (Nested(lookup) if place == "nested" else lookup)(words)
        program = capture(compiled(words, layers.Rescaling(1.0)(found)))
    with pytest.raises(CaptureError) as caught:
        program.export([("string", (1,)), ("int64", ())])
    text = str(caught.value)
    assert f"{type(lookup).__name__} 'colors': expected a vocabulary, got none" in text
    assert 'tos.adapt(layer, df, "column")' in text
    assert "layer.set_vocabulary(words)" in text
    lookup.adapt(["a", "b"])
    program.export([("string", (1,)), ("int64", ())])


def test_whole_numbers_that_were_never_adapted_are_refused_too() -> None:
    numbers = keras.Input((1,), dtype="int64")
    found = layers.IntegerLookup(num_oov_indices=2, name="zips")(numbers)
    program = capture(compiled(numbers, layers.Rescaling(1.0)(found)))
    with pytest.raises(CaptureError, match=r"IntegerLookup 'zips': expected a vocabulary"):
        program.export([("int64", (1,)), ("int64", ())])


def test_a_layer_that_needs_no_vocabulary_trains() -> None:
    words = keras.Input((1,), dtype="string")
    found = layers.Rescaling(1.0)(layers.Hashing(4)(words))
    assert Lone(capture(compiled(words, found)), WORDS[:, None], LABELS).train(4).values
