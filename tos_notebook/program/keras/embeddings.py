"""Embeddings: which are large enough to be exchanged by row, and a step that reads few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import keras
import tensorflow as tf

FEWEST_ROWS = 1024
FEWEST_BYTES = 1_000_000
"""Of smaller tables, all rows are sent as fast as some."""

MOST_ROWS = 1 << 32
"""Numbers of rows are sent as u32."""


def tables_in(model: Any, weights: Sequence[Any]) -> list[int]:
    """Return which weights are large tables of embeddings.

    Parameters
    ----------
    model : keras.Model
    weights : sequence of keras.Variable
    """
    known = {id(layer._embeddings) for layer in _embeddings(model)}
    return [i for i, weight in enumerate(weights) if id(weight) in known and _is_large(weight)]


def _is_large(weight: Any) -> bool:
    rows, width = weight.shape
    nbytes = rows * width * tf.as_dtype(weight.dtype).size
    many = FEWEST_ROWS <= rows <= MOST_ROWS
    return bool(weight.trainable and many and nbytes >= FEWEST_BYTES)


@contextmanager
def gathering(model: Any) -> Iterator[None]:
    """Let large embeddings read the rows that they need, while a step is traced inside.

    Keras reads the whole variable first. TensorFlow copies it for that, once rows of it are written
    in place.
    """
    with ExitStack() as stack:
        for layer in _embeddings(model):
            if _is_large(layer._embeddings) and _is_plain(layer):
                layer.call = partial(_gather, layer, layer.call)
                stack.callback(delattr, layer, "call")
        yield


def _embeddings(model: Any) -> list[Any]:
    found = model._flatten_layers(include_self=False)
    return [layer for layer in found if isinstance(layer, keras.layers.Embedding) and layer.built]


def _is_plain(layer: Any) -> bool:
    """Return whether a layer computes what Keras' own does, in the dtype of its table."""
    own = type(layer).call is keras.layers.Embedding.call and "call" not in vars(layer)
    others = getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None)
    return own and not others and layer.compute_dtype == layer.variable_dtype


def _gather(layer: Any, call: Any, inputs: Any) -> tf.Tensor:
    """Return the rows of a layer's table, as its `call` does."""
    if not isinstance(inputs, tf.Tensor):
        return call(inputs)
    ids = inputs if inputs.dtype in (tf.int32, tf.int64) else tf.cast(inputs, tf.int32)
    # That of a layer which makes its table of a variable, as by norms, is none.
    table = getattr(layer.embeddings, "value", None)
    if not isinstance(table, tf.Variable):
        return call(inputs)
    ids = tf.where(ids < 0, ids + tf.cast(layer.input_dim, ids.dtype), ids)
    return tf.gather(table, ids)
