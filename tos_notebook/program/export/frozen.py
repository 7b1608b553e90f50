"""What of a program training leaves as it is: exported once, and never exchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import (
    get_read_only_resource_input_indices_graph,
)

from ...errors import CaptureError, UnsupportedProgram


def synchronised(model: Any) -> list[Any]:
    """Return the weights of a Keras model that training changes, in the model's order.

    Those are the trainable ones, and what layers that are not frozen keep beside (moving
    statistics). A layer with ``trainable=False`` runs in inference mode: BatchNormalization in it
    keeps its statistics.
    """
    layers = [layer for layer in model._flatten_layers() if layer.trainable]
    kept = {id(weight) for layer in layers for weight in layer._non_trainable_variables}
    changed = [w for w in model.weights if w.trainable or (id(w) in kept and _is_number(w))]
    return [weight for weight in changed if not _is_served(weight)]


def frozen_weights(model: Any) -> list[Any]:
    """Return the other weights of a Keras model."""
    known = set(map(id, synchronised(model)))
    return [w for w in model.weights if id(w) not in known and not _is_served(w)]


def _is_served(weight: Any) -> bool:
    """Whether shards have what the weight holds for one milestone."""
    return getattr(weight, "served", False)


def _is_number(weight: Any) -> bool:
    return np.dtype(tf.as_dtype(weight.dtype).as_numpy_dtype).kind in "fiu"


def refuse_thawed(model: Any, weights: Sequence[Any]) -> None:
    """Refuse a Keras model whose layers were frozen or unfrozen since it was captured.

    Parameters
    ----------
    model : keras.Model
    weights : sequence of keras.Variable
        What `synchronised` returned then.

    Raises
    ------
    CaptureError
    """
    now = {w.path for w in synchronised(model)}
    then = {w.path for w in weights}
    if now != then:
        raise CaptureError(
            f"The weights of model {model.name!r} that training changes are others than when it "
            f"was captured, {_first(now ^ then)} among them: layers were frozen or unfrozen. "
            "Compile the model, capture it and make a session again."
        )


def refuse_assigned(function: Any, weights: Sequence[Any]) -> None:
    """Refuse a step that changes weights of frozen layers, which would be lost.

    Parameters
    ----------
    function : ConcreteFunction
        The traced step.
    weights : sequence of keras.Variable
        The frozen ones.

    Raises
    ------
    UnsupportedProgram
    """
    changed = set(map(id, assigned(function, [w.value for w in weights])))
    names = [w.path for w in weights if id(w.value) in changed]
    if names:
        raise UnsupportedProgram(
            f"Training changes {_first(names)}, of a layer with trainable=False. What is frozen is "
            "not exchanged, so the change would be lost: set the layer's trainable to True, or "
            "leave its weights alone."
        )


def _first(names: Iterable[str]) -> str:
    first, *others = sorted(names)
    return f"{first!r}{f' and {len(others)} more' if others else ''}"


def assigned(function: Any, variables: Iterable[tf.Variable]) -> list[tf.Variable]:
    """Return those of some variables that a traced function may assign.

    Parameters
    ----------
    function : ConcreteFunction
    variables : iterable of tf.Variable
    """
    graph = function.graph
    only_read = {graph.inputs[i].name for i in get_read_only_resource_input_indices_graph(graph)}
    written = {id(outer) for outer, inner in graph.captures if inner.name not in only_read}
    return [variable for variable in variables if id(variable.handle) in written]


def digest(variables: Iterable[tf.Variable]) -> str:
    """Return a digest of variables' values; empty for no variables."""
    found, count = hashlib.sha256(), 0
    for count, variable in enumerate(variables, 1):  # noqa: B007
        value = variable.numpy()
        if variable.dtype == tf.string:
            value = np.frombuffer(tf.io.serialize_tensor(value).numpy(), np.uint8)
        found.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return found.hexdigest() if count else ""
