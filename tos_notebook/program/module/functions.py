"""The functions of a module program, and what they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...errors import CaptureError, ShapeMismatch

Function = Callable[..., Any]


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
