"""Make a Keras model one that only predicts, and make models of files and of copied weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...blocks.block import ColumnSpec
from ...common.arrays import Array
from ...errors import CaptureError
from ...runtime.eager import eagerly
from ..export.serving import serve, specs_of
from ..export.symbolic import graph_only
from .served import ServedLayers
from .structure import as_fit_does, functional, leaves, named_plainly, pack, require_call


def serve_keras(
    model: Any,
    struct: Any,
    columns: Sequence[ColumnSpec],
    target: Path,
    preprocess: Callable[[Any], Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> None:
    """Pack a Keras model; see `serve`.

    Parameters
    ----------
    model : keras.Model
    struct : nested FeedSpec
        What it takes.
    columns : sequence of ColumnSpec
        One for each input.
    target : Path
    preprocess : callable, optional
        Makes its input of what is fed.
    finish : callable, optional
        Makes the outputs of what it returns.
    """
    require_call(model, "predict_step", "predict with one of its parts: tos.load_model(part)")

    layers = ServedLayers(model)

    def inputs(*batch: tf.Tensor) -> Any:
        if preprocess is None:
            return pack(struct, as_fit_does(model, batch, leaves(struct)))
        return preprocessed(model, preprocess, pack(struct, batch))

    served = layers.serving(inputs)

    def predict(*batch: tf.Tensor) -> Mapping[str, tf.Tensor]:
        x = inputs(*batch)
        with layers.looking_up(served.variables) if served else nullcontext():
            found = model.predict_step((x,))
        found = found if finish is None else finish(found)
        if isinstance(found, Mapping):
            return _as_defined(model, found)
        flat = keras.tree.flatten(found)
        return dict(zip(_names_of(model, len(flat)), flat, strict=True))

    names = [feed.name for feed in leaves(struct)]
    with eagerly(), named_plainly(model), graph_only(f"the predict step of model {model.name!r}"):
        specs = zip(names, specs_of(columns), strict=True)
        weights = [weight.value for weight in model.weights]
        serve(predict, list(specs), weights, target, served)


def preprocessed(model: Any, preprocess: Callable[[Any], Any], x: Any) -> Any:
    """Return a model's input of what is fed, as the user's function makes it.

    Raises
    ------
    UnsupportedProgram
        The function uses Python on tensors.
    """
    with graph_only(f"preprocess= of model {model.name!r}"):
        return preprocess(x)


def _as_defined(model: Any, found: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return outputs in the order in which the model was defined."""
    struct = getattr(functional(model), "_outputs_struct", None)
    keys = struct if isinstance(struct, Mapping) and struct.keys() == found.keys() else found
    return {key: found[key] for key in keys}


def _names_of(model: Any, count: int) -> list[str]:
    names = list(getattr(model, "output_names", None) or [])
    return names if len(set(names)) == count else [f"output_{i}" for i in range(count)]


def read_keras(file: Path) -> Any:
    """Return the model in a ``.keras`` file, which is not compiled.

    Raises
    ------
    CaptureError
        It cannot be read.
    """
    try:
        with eagerly():
            return keras.models.load_model(file, compile=False)
    except (ValueError, TypeError) as error:
        raise CaptureError(
            f"{file.name} cannot be read as a Keras model. For custom layers, give the model "
            "itself: tos.load_model(keras.models.load_model(path, custom_objects=...)). Or put "
            "@keras.saving.register_keras_serializable() above their classes. Keras says: "
            f"{_cause(error)}"
        ) from error


def read_compiled(file: Path, own: Mapping[str, Any] | None = None) -> Any:
    """Return the model in a ``.keras`` file, compiled as it was when it was written.

    Parameters
    ----------
    file : Path
    own : mapping of str to object, optional
        What `own_objects` found of the model that this process has written to the file.

    Raises
    ------
    CaptureError
        It cannot be read, such as for layers of the user's own that Keras does not know.
    """
    try:
        with eagerly():
            return keras.models.load_model(file, custom_objects=own)
    except (ValueError, TypeError) as error:
        raise CaptureError(
            "The Keras model cannot be read back from its file. Custom layers, losses and "
            "metrics need get_config if their __init__ takes arguments, and "
            "@keras.saving.register_keras_serializable(), here and before the file is read. Keras "
            f"says: {_cause(error)}"
        ) from error


def _cause(error: Exception) -> str:
    """Return what Keras says without configurations, which come before and after."""
    cause = str(error).rpartition("Exception encountered: ")[2]
    return cause.partition("Full object config:")[0].strip()


def values_of(model: Any) -> list[Array]:
    """Return a copy of all weights."""
    with eagerly():
        return [np.array(weight.value.numpy()) for weight in model.weights]


def set_values(model: Any, values: list[Array]) -> None:
    """Set all weights, as `values_of` returned them.

    Raises
    ------
    CaptureError
        The model has other weights.
    """
    try:
        with eagerly():
            model.set_weights(values)
    except ValueError as error:
        raise CaptureError(
            f"model: expected a function that returns the same model each time; {error}"
        ) from error
