"""What a module program is made of: functions, what they take, and variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...errors import CaptureError, ShapeMismatch, UnsupportedProgram
from ..export.cut import value_of

Function = Callable[..., Any]

VARIABLES = (tf.Variable, keras.Variable)


def as_function(name: str, function: Any, feeds: int) -> Function:
    """Return a function of a batch as one that TensorFlow traces, Python's ``if`` and loops too.

    Parameters
    ----------
    name : str
        What it computes, for messages.
    function : callable
    feeds : int
        How many arguments it must take.

    Raises
    ------
    CaptureError
        It is not a function, or takes other arguments.
    """
    # Keras' metrics are callable, but compare labels with what was predicted already.
    if not callable(function) or isinstance(function, keras.metrics.Metric | type):
        raise CaptureError(
            f"{name}: expected a function of a batch, such as lambda x, y: "
            f"tf.reduce_mean((module(x) - y) ** 2); got {function!r}."
        )
    try:
        inspect.signature(_python(function)).bind(*[None] * feeds)
    except TypeError as error:
        raise CaptureError(
            f"{name}: expected a function of {feeds} arguments, one for each feed; got one that "
            f"does not take them ({error})."
        ) from None
    if _python(function) is not function:
        return function
    # A lambda has nothing to translate, and its source is often not to be found.
    plain = getattr(function, "__name__", "") == "<lambda>"
    return tf.function(function, autograph=not plain)


def _python(function: Any) -> Any:
    """Return the Python function of a `tf.function`; others as they are."""
    return getattr(function, "python_function", function)


def feed_specs(feeds: Any, loss: Any) -> tuple[FeedSpec, ...]:
    """Return a program's feeds. Those without a name have that of the loss' argument.

    Parameters
    ----------
    feeds : sequence of tf.TensorSpec
    loss : callable

    Raises
    ------
    CaptureError
        They are something else.
    ShapeMismatch
        One has no batch dimension, or a fixed one.
    """
    known = isinstance(feeds, list | tuple) and len(feeds) > 0
    if not known or not all(isinstance(feed, tf.TensorSpec) for feed in feeds):
        raise CaptureError(
            "feeds: expected a list of tf.TensorSpec, one for each field of a record, such as "
            f"[tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int64)]; got {feeds!r}."
        )
    names = arguments(loss)
    return tuple(
        _feed(feed, feed.name or (names[i] if i < len(names) else f"x{i}"))
        for i, feed in enumerate(feeds)
    )


def _feed(feed: Any, name: str) -> FeedSpec:
    shape = None if feed.shape.rank is None else tuple(feed.shape.as_list())
    if shape is not None and shape[:1] != (None,):
        raise ShapeMismatch(
            f"Feed {name!r} has shape {shape}: expected None as its first dimension, the rows of a "
            "batch, since the last batch of a partition may be smaller."
        )
    return FeedSpec(name, feed.dtype.name, None if shape is None else shape[1:])


def arguments(function: Any) -> Sequence[str]:
    """Return the names of what a function takes by position; none for what is not a function."""
    if not callable(function):
        return ()
    parameters = inspect.signature(_python(function)).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def mean_of(name: str, value: Any) -> tf.Tensor:
    """Return the mean over a batch of what a function returned, as a scalar.

    Raises
    ------
    ShapeMismatch
        It is neither a scalar nor a number for each row.
    """
    try:
        tensor = tf.convert_to_tensor(value)
    except (ValueError, TypeError):
        tensor = None
    if tensor is None or tensor.dtype == tf.string or (tensor.shape.rank or 0) > 1:
        raise ShapeMismatch(
            f"{name}: expected a scalar, or one number for each row, got {value!r}. Reduce it with "
            "tf.reduce_mean."
        )
    return tf.reduce_mean(tensor if tensor.dtype.is_floating else tf.cast(tensor, tf.float32))


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
        It has none, or a Keras layer in it none yet; or its class has not called the constructor
        of its base.
    UnsupportedProgram
        None of them is trainable.
    """
    module = [module] if isinstance(module, VARIABLES) else module
    chosen = isinstance(module, list | tuple)
    if not chosen and not hasattr(module, "name"):
        kind = type(module).__name__
        raise CaptureError(
            f"{kind}: expected an __init__ that calls super().__init__() first, got one that does "
            "not. TensorFlow and Keras find its variables by what that sets up. Add the call, and "
            "make the module again."
        )
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
