"""The variables of a module, or of what else holds some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ...errors import CaptureError, UnsupportedProgram

VARIABLES = (tf.Variable, keras.Variable)


def value_of(variable: Any) -> tf.Variable:
    """Return TensorFlow's variable, of one that may be Keras'."""
    return variable.value if isinstance(variable, keras.Variable) else variable


@dataclass(frozen=True, slots=True)
class Found:
    """What `find_variables` found; each a tf.Variable or a keras.Variable.

    Parameters
    ----------
    trainable, others : list
    names : mapping of int to str
        By the id of TensorFlow's variable.
    chosen : bool
        Whether the user listed them, rather than named what holds them.
    """

    trainable: list[Any]
    others: list[Any]
    names: Mapping[int, str]
    chosen: bool


def find_variables(module: Any) -> Found:
    """Return the variables that a module holds, those of Keras layers inside it included.

    Parameters
    ----------
    module : tf.Module, keras.Layer, variable or list of variables

    Raises
    ------
    CaptureError
        It has none, or a Keras layer in it none yet.
    UnsupportedProgram
        None of them is trainable.
    """
    module = [module] if isinstance(module, VARIABLES) else module
    chosen = isinstance(module, list | tuple)
    named = dict(reversed([(id(value_of(v)), (n, v)) for n, v in _named(module)]))
    variables = [variable for _, variable in reversed(named.values())]
    what = "The list" if chosen else f"{type(module).__name__} {module.name!r}"
    if not variables:
        raise CaptureError(
            f"{what} has no variables yet. Make them when it is made, or call it once on a batch."
        )
    trainable = [v for v in variables if v.trainable]
    if not trainable:
        raise UnsupportedProgram(
            f"{what} has nothing to train: none of its {len(variables)} variables is trainable."
        )
    others = [v for v in variables if not v.trainable]
    return Found(trainable, others, {key: name for key, (name, _) in named.items()}, chosen)


def _named(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, variable); some perhaps twice."""
    if isinstance(module, list | tuple):
        yield from ((getattr(v, "path", None) or v.name.split(":")[0], v) for v in module)
    elif isinstance(module, keras.Layer):
        yield from _of_layer(module)
    else:
        held = module._flatten(
            predicate=lambda value: isinstance(value, (*VARIABLES, keras.Layer)), with_path=True
        )
        for path, value in held:
            if isinstance(value, keras.Layer):
                yield from _of_layer(value)
            else:
                yield "/".join(map(str, path)), value


def _of_layer(layer: Any) -> Iterator[tuple[str, Any]]:
    parts = list(layer._flatten_layers(recursive=False, include_self=False))
    if not layer.built and not (parts and all(part.built for part in parts)):
        raise CaptureError(
            f"Keras layer {layer.name!r} has no weights yet: call it once on a batch, or build it."
        )
    yield from ((weight.path, weight) for weight in layer.weights)
