"""What a Keras model takes and returns."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import keras

from .spec import FeedSpec


def functional(model: Any) -> Any:
    """Return what of a model knows the structure of its inputs and outputs."""
    return getattr(model, "_functional", None) or model


def inputs_of(model: Any) -> Any:
    """Return the structure of a model's inputs, with a `FeedSpec` for each."""
    struct = getattr(functional(model), "_inputs_struct", None)
    if struct is not None:
        return keras.tree.map_structure(
            lambda t: FeedSpec(t.name, t.dtype, tuple(t.shape[1:])), struct
        )
    # A subclass knows only the shapes it was built with, by argument.
    shapes = list((model._build_shapes_dict or {}).values())
    if len(shapes) != 1 or _is_shape(shapes[0]):
        return FeedSpec("x", None, None)
    numbers = itertools.count()
    return keras.tree.map_shape_structure(
        lambda _: FeedSpec(f"x{next(numbers)}", None, None), shapes[0]
    )


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(d, int | None) for d in value)


def feeds_of(struct: Any) -> tuple[FeedSpec, ...]:
    """Return what `inputs_of` returned as a row."""
    return tuple(keras.tree.flatten(struct))


def is_model(value: Any) -> bool:
    """Whether this is a Keras model."""
    return isinstance(value, keras.Model)


def is_built(model: Any) -> bool:
    """Whether a model, or all it is made of (where it is never called itself), is built."""
    parts = list(model._flatten_layers(include_self=False, recursive=False))
    return model.built or (bool(parts) and all(part.built for part in parts))


def pack(struct: Any, tensors: Sequence[Any]) -> Any:
    """Return tensors in a structure; one alone stays bare, as users feed it."""
    if not tensors:
        return None
    if len(tensors) == 1 and not isinstance(struct, dict):
        return tensors[0]
    if len(keras.tree.flatten(struct)) != len(tensors):
        return list(tensors)
    return keras.tree.pack_sequence_as(struct, list(tensors))


def classes_of(model: Any) -> int | None:
    """Return how many classes a model's only output tells apart, where its labels are numbers."""
    losses = keras.tree.flatten(model.loss)
    loss = keras.losses.get(losses[0]) if len(losses) == 1 else None
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        config = loss.get_config()
        # A class to ignore may lie out of range on purpose.
        known = config.get("ignore_class") is None and config.get("axis", -1) == -1
    else:
        known = loss is keras.losses.sparse_categorical_crossentropy
    shape = getattr(functional(model), "output_shape", None)
    return shape[-1] if known and isinstance(shape, tuple) else None
