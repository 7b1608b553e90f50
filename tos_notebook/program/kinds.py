"""What a user's value is, without an import: a user with a model has imported Keras."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def several(value: Any) -> Sequence[Any]:
    """Return the values of a list; a value that is none alone."""
    return value if isinstance(value, list | tuple) and value else [value]


def all_are(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind, or a list of such."""
    return all(isinstance(each, kind) for each in several(value))


def is_keras(value: Any) -> bool:
    """Whether a value is a Keras model, compiled or not."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(value, keras.Model)


def is_sequential(value: Any) -> bool:
    """Whether a value is a Keras model that is a list of layers."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(value, keras.Sequential)


def is_module(value: Any) -> bool:
    """Whether it holds variables, or is some; those of a graph do not count."""
    tf, keras = sys.modules.get("tensorflow"), sys.modules.get("keras")
    if keras is not None and isinstance(value, keras.Layer):
        return not isinstance(value, keras.Model)
    values = several(value)
    if keras is not None:
        values = [v.value if isinstance(v, keras.Variable) else v for v in values]
    return tf is not None and (
        isinstance(value, tf.Module)
        or all(isinstance(getattr(v, "handle", None), tf.__internal__.EagerTensor) for v in values)
    )


def is_graph_element(value: Any) -> bool:
    """Whether a value is what a graph can be captured by, or a list of such."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and all_are(value, tf.Operation | tf.Tensor | tf.Variable | str)
