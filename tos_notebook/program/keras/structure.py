"""What a Keras model takes and returns, and whether it is ready to be captured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...errors import CaptureError, UnsupportedProgram

_INSIDE = re.compile(r"[A-Za-z0-9_.\\/>-]*")
_OUTSIDE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""The latter for what is inside of nothing else."""


def functional(model: Any) -> Any:
    """Return what of a model knows the structure of its inputs and outputs."""
    return getattr(model, "_functional", None) or model


def inputs_of(model: Any) -> Any:
    """Return the structure of a model's inputs, with a `FeedSpec` for each."""
    struct = getattr(functional(model), "_inputs_struct", None)
    if struct is not None:
        names = _names(struct, "x", lambda tensor: tensor.name)
        feeds = (
            FeedSpec(name, tensor.dtype, tuple(tensor.shape[1:]))
            for name, tensor in zip(names, leaves(struct), strict=True)
        )
        return _filled(struct, iter(feeds))
    # A subclass knows only the shapes it was built with, by argument.
    shapes = list((model._build_shapes_dict or {}).values())
    if len(shapes) != 1 or _is_shape(shapes[0]):
        return FeedSpec("x", None, None)
    built = keras.tree.map_shape_structure(lambda _: None, shapes[0])
    names = _keys(built) or [f"x{i}" for i in range(len(leaves(built)))]
    return _filled(built, (FeedSpec(name, None, None) for name in names))


def rows_of_batch(model: Any) -> int | None:
    """Return how many rows each batch must have: those for which layers keep a state."""
    struct = getattr(functional(model), "_inputs_struct", None)
    # Any model has the rows of its first call as its input's, and takes others all the same.
    if struct is None or not any(getattr(p, "stateful", False) for p in model._flatten_layers()):
        return None
    return next((tensor.shape[0] for tensor in leaves(struct) if tensor.shape[0]), None)


def outputs_of(model: Any) -> Any:
    """Return the structure of what labels are for: of outputs by name, those that have a loss."""
    struct: Any = getattr(functional(model), "_outputs_struct", None)
    named = _keys(struct) if isinstance(model.loss, dict) else []
    if not named or not set(model.loss) <= set(named):
        return struct
    return {name: output for name, output in struct.items() if name in model.loss}


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(d, int | None) for d in value)


def labels_of(model: Any, count: int) -> list[str]:
    """Return the names of a model's labels, those of its outputs where each has one."""
    struct = outputs_of(model)
    if count and struct is not None and len(leaves(struct)) == count:
        return _names(struct, "y", lambda tensor: _layer(tensor).name)
    return ["y"] if count == 1 else [f"y{i}" for i in range(count)]


def _names(struct: Any, alone: str, name_of: Callable[[Any], str]) -> list[str]:
    """Return a name for each tensor: its key, what the user called it, or `alone`."""
    tensors = leaves(struct)
    names = _keys(struct) or [_given(name_of(t)) or _layer(t).name for t in tensors]
    if len(names) == 1 and not isinstance(struct, dict) and _is_numbered(tensors[0], names[0]):
        return [alone]
    unique = len(set(names)) == len(names)
    return names if unique else [f"{alone}{i}" for i in range(len(names))]


def _layer(tensor: Any) -> Any:
    return tensor._keras_history.operation


def _given(name: str) -> str:
    """Return the name of a tensor, nothing if Keras made it up."""
    return "" if re.fullmatch(r"keras_tensor(_\d+)?", name) else name


def _is_numbered(tensor: Any, name: str) -> bool:
    """Whether a layer has the name that Keras makes of its class."""
    kind = type(_layer(tensor)).__name__
    return re.sub(r"_\d+$", "", name).replace("_", "") == kind.lower()


def _keys(struct: Any) -> list[str]:
    """Return the keys of a plain dictionary."""
    plain = isinstance(struct, dict) and len(leaves(struct)) == len(struct)
    return [str(key) for key in struct] if plain else []


def leaves(struct: Any) -> list[Any]:
    """Return what a structure holds, in the order in which it was written.

    Keras sorts the keys of dictionaries.
    """
    if not isinstance(struct, dict | list | tuple):
        return [struct]
    parts = struct.values() if isinstance(struct, dict) else struct
    return [leaf for part in parts for leaf in leaves(part)]


def _filled(struct: Any, values: Iterator[Any]) -> Any:
    """Return a structure with other values, in the order of `leaves`."""
    if isinstance(struct, dict):
        return {key: _filled(part, values) for key, part in struct.items()}
    if isinstance(struct, list | tuple):
        filled = [_filled(part, values) for part in struct]
        return filled if isinstance(struct, list) else tuple(filled)
    return next(values)


def as_logs(model: Any, method: str, logs: Any) -> dict[str, Any]:
    """Return what a model's own method has returned, by name."""
    if not isinstance(logs, Mapping):
        raise CaptureError(
            f"The {method} of model {model.name!r} must return a dict of scalars by "
            f"name, such as {{'loss': loss}}; got {logs!r}."
        )
    found: dict[str, Any] = {}
    for name, value in logs.items():
        # The result of all metrics that a model is compiled with is such, under one name.
        found |= value if isinstance(value, Mapping) else {name: value}
    return found


def adapted(model: Any) -> tuple[Any, ...]:
    """Return what the layers of a model were adapted to, to be compared with what they are later.

    A program holds it as constants, and each layer has new ones when it is adapted again.
    """
    found: list[Any] = []
    for layer in model._flatten_layers(include_self=False):
        # A new table for each vocabulary.
        found.append(getattr(layer, "lookup_table", None))
        bounds = getattr(layer, "bin_boundaries", None)
        found.append(() if bounds is None else tuple(map(float, bounds)))
        found += [
            np.asarray(value).tobytes()
            for name in ("mean", "variance", "idf_weights_const")
            if tf.is_tensor(value := getattr(layer, name, None)) and hasattr(value, "numpy")
        ]
    return tuple(found)


def is_built(model: Any) -> bool:
    """Whether a model, or all it is made of (where it is never called itself), is built."""
    parts = list(model._flatten_layers(include_self=False, recursive=False))
    return model.built or (bool(parts) and all(part.built for part in parts))


def as_fit_does(
    model: Any, tensors: Sequence[tf.Tensor], feeds: Sequence[FeedSpec]
) -> list[tf.Tensor]:
    """Return doubles as Keras' ``fit`` makes them, where the model does not say what it takes.

    A model of doubles gets them as they are.
    """
    if any(weight.dtype == "float64" for weight in model.weights):
        return list(tensors)
    return [
        tf.cast(tensor, keras.config.floatx())
        if tensor.dtype == tf.float64 and feed.dtype is None
        else tensor
        for tensor, feed in zip(tensors, feeds, strict=False)
    ]


def pack(struct: Any, tensors: Sequence[Any]) -> Any:
    """Return tensors in a structure; one alone stays bare, as users feed it."""
    if not tensors:
        return None
    if len(tensors) == 1 and not isinstance(struct, dict):
        return tensors[0]
    if len(leaves(struct)) != len(tensors):
        return list(tensors)
    return _filled(struct, iter(tensors))


def classes_of(model: Any, count: int) -> list[int | None]:
    """Return, for each label, how many classes the output tells apart, where labels are numbers.

    Parameters
    ----------
    model : keras.Model
    count : int
        How many labels there are.
    """
    struct = outputs_of(model)
    tensors = [] if struct is None else leaves(struct)
    if len(tensors) != count:
        return [None] * count
    losses = _losses(model.loss, struct)
    return [_classes(losses.get(id(tensor)), tuple(tensor.shape)) for tensor in tensors]


def _losses(loss: Any, struct: Any) -> dict[int, Any]:
    """Return the loss of each output, by the tensor's id."""
    tensors = leaves(struct)
    if isinstance(loss, dict):
        names = _keys(struct) or [_layer(tensor).name for tensor in tensors]
        found = [loss.get(name) for name in names]
    elif isinstance(loss, list | tuple):
        # Keras takes a list in its own order, in which keys are sorted.
        tensors, found = keras.tree.flatten(struct), keras.tree.flatten(loss)
    else:
        found = [loss] * len(tensors)
    return {id(tensor): one for tensor, one in zip(tensors, found, strict=False)}


def _classes(given: Any, shape: tuple[int | None, ...]) -> int | None:
    loss = keras.losses.get(given)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        config = loss.get_config()
        # A class to ignore may lie out of range on purpose.
        known = config.get("ignore_class") is None and config.get("axis", -1) == -1
    else:
        known = loss is keras.losses.sparse_categorical_crossentropy
    return shape[-1] if known else None


def require_call(model: Any, step: str, parts: str) -> None:
    """Refuse to do what calls a model that has neither a call nor a step of its own for that.

    Parameters
    ----------
    model : keras.Model
    step : {"predict_step", "test_step"}
    parts : str
        What to do instead.

    Raises
    ------
    UnsupportedProgram
    """
    own = [getattr(type(model), name) is not getattr(keras.Model, name) for name in ("call", step)]
    if not any(own):
        raise UnsupportedProgram(
            f"Model {model.name!r} has no call and no {step}, which Keras would need. Add one of "
            f"them to {type(model).__name__}, or {parts}."
        )


def needs_labels(model: Any) -> bool:
    """Return whether a model trains by a loss that compares with labels."""
    own = any(
        getattr(type(model), name) is not getattr(keras.Model, name)
        for name in ("train_step", "compute_loss")
    )
    return model.loss is not None and not own


def has_own_values(model: Any) -> bool:
    """Return whether a model says itself what its steps return."""
    names = ("train_step", "test_step", "compute_metrics", "get_metrics_result")
    return any(getattr(type(model), name) is not getattr(keras.Model, name) for name in names)


def compiled_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of a model's loss and metrics, as it was compiled; None if unknown.

    Keras names those of several outputs, weighted ones, and those of layers, when it has seen rows.
    """
    compiled = getattr(model, "_compile_metrics", None)
    given = getattr(compiled, "_user_metrics", None) or ()
    apart = (compiled, getattr(model, "_loss_tracker", None))
    others = [m for m in model.metrics if m not in (*apart, *getattr(compiled, "metrics", ()))]
    outputs = outputs_of(model)
    single = outputs is not None and len(leaves(outputs)) == 1 and isinstance(given, list | tuple)
    weighted = getattr(compiled, "_user_weighted_metrics", None)
    if has_own_values(model) or others or weighted or not single:
        return None
    names = [getattr(m, "name", getattr(m, "__name__", m)) for m in given]
    # Of a class, which Keras calls, the metric has a name of its own.
    unknown = any(isinstance(m, type) for m in given)
    if unknown or not all(isinstance(n, str) for n in names) or len({*names}) < len(names):
        return None
    return ("loss", *names)


def check_model(model: Any) -> None:
    """Refuse a model that cannot be trained elsewhere as it is.

    Parameters
    ----------
    model : keras.Model

    Raises
    ------
    CaptureError
        It is not built or not compiled, or Keras runs on another backend.
    UnsupportedProgram
        It has nothing to train, or needs this process to train it.
    """
    if keras.backend.backend() != "tensorflow":
        raise CaptureError(
            f"Keras runs on backend {keras.backend.backend()!r}; expected 'tensorflow'. Set "
            "KERAS_BACKEND=tensorflow before importing keras."
        )
    if not is_built(model):
        raise CaptureError(
            f"Model {model.name!r} has no weights yet. Give it a keras.Input, or call it once on "
            "a batch. tos.fit and a session make them by the data of their first run."
        )
    if not model.compiled:
        raise CaptureError(
            f"Model {model.name!r} is not compiled: call model.compile(optimizer, loss) first."
        )
    if not model.trainable_variables:
        raise UnsupportedProgram(f"Model {model.name!r} has nothing to train: no trainable weight.")
    if model.run_eagerly:
        raise UnsupportedProgram(
            f"Model {model.name!r} is compiled with run_eagerly=True: its Python code would have "
            "to run on the executors. Compile it without."
        )


@contextmanager
def named_plainly(model: Any) -> Iterator[None]:
    """Say which name it is, if TensorFlow refuses one of a model's inside.

    Raises
    ------
    CaptureError
        The name of a layer, a metric, the optimizer or the model does not suit TensorFlow.
    """
    from keras.src.backend.common import global_state

    # Keras stays in a scope that TensorFlow refuses to enter: each later model would be in it.
    scopes = global_state.get_global_attribute("name_scope_stack", [], set_to_default=True)
    depth = len(scopes)
    try:
        yield
    except ValueError as error:
        del scopes[depth:]
        for what, name in _unfit(model):
            # What TensorFlow says of a name with a colon does not have the name in it.
            if name in str(error) or ":" in name:
                raise CaptureError(
                    f"TensorFlow cannot use the name of {what} {name!r}. Expected letters from A "
                    "to Z, digits, '_', '-' and '.', with a letter or a digit first: give it "
                    f"another name. TensorFlow says: {error}"
                ) from error
        raise


def _unfit(model: Any) -> Iterator[tuple[str, str]]:
    for layer in model._flatten_layers(include_self=False):
        if not _INSIDE.fullmatch(layer.name):
            yield "layer", layer.name
    # What compile was given is inside of one metric.
    metrics = [inner for metric in model.metrics for inner in getattr(metric, "metrics", [metric])]
    others = {"metric": metrics, "optimizer": [model.optimizer], "model": [model]}
    for what, owners in others.items():
        for owner in owners:
            name = getattr(owner, "name", None)
            if name is not None and not _OUTSIDE.fullmatch(name):
                yield what, name
