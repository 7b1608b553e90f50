"""What a user names of a graph: feeds, constants, loss, metrics and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ...archive.spec import FeedSpec
from ...common.arrays import Array
from ...errors import CaptureError, ShapeMismatch
from .rebuild import REFERENCES


class Elements:
    """Finds tensors and operations of a session's graph, and refuses what does not fit.

    Parameters
    ----------
    session : tf.compat.v1.Session
    """

    def __init__(self, session: Any) -> None:
        self.graph: Any = getattr(session, "graph", None)
        if not isinstance(self.graph, tf.Graph):
            raise CaptureError(
                f"session: expected a tf.compat.v1.Session, got {session!r} of type "
                f"{type(session).__name__}."
            )

    def element(self, value: Any, role: str) -> Any:
        """Return a tensor or operation of the graph."""
        try:
            return self.graph.as_graph_element(value)
        except (ValueError, KeyError, TypeError) as error:
            raise CaptureError(
                f"The {role} {value!r} is not in the session's graph. Name a tensor or operation "
                "that was created in the same graph as the session."
            ) from error

    def feeds(self, given: Any) -> list[Any]:
        """Return the placeholders of a record's fields, of which there must be one."""
        if not isinstance(given, list | tuple) or not given:
            raise CaptureError(
                "feeds: expected a list of placeholders, one for each field of a record; got "
                f"{given!r}."
            )
        return [self.placeholder(feed) for feed in given]

    def placeholder(self, value: Any, batched: bool = True) -> Any:
        """Return a tensor that can be fed: a record's field, or a constant."""
        tensor = self.element(value, "feed")
        if not isinstance(tensor, tf.Tensor):
            raise CaptureError(
                f"The feed {value!r} is an operation; expected a tensor such as {value}:0."
            )
        shape = _shape(tensor)
        if batched and shape == ():
            raise ShapeMismatch(
                f"Feed {tensor.name!r} is a scalar; records need a batch dimension. Give scalars "
                "through feed_dict."
            )
        if batched and shape is not None and shape[0] is not None:
            raise ShapeMismatch(
                f"Feed {tensor.name!r} has shape {shape}: expected None as its first dimension, "
                "since the last batch of a partition may be smaller."
            )
        return tensor

    def fixed(self, feed_dict: Mapping[Any, Any]) -> dict[Any, Array]:
        """Return the constants of a `feed_dict` as arrays."""
        fixed = {}
        for key, value in feed_dict.items():
            tensor = self.placeholder(key, batched=False)
            array = np.asarray(value, tensor.dtype.as_numpy_dtype)
            if not tensor.shape.is_compatible_with(array.shape):
                raise ShapeMismatch(
                    f"feed_dict: {tensor.name!r} has shape {_shape(tensor)}, got a value of shape "
                    f"{array.shape}."
                )
            fixed[tensor] = array
        return fixed

    def replaced(
        self, feed_dict: Mapping[Any, Any], constants: Mapping[Any, Array]
    ) -> dict[Any, Array]:
        """Return the constants that replace others."""
        fixed = self.fixed(feed_dict)
        for tensor in fixed:
            if tensor not in constants:
                raise CaptureError(
                    f"test_feed_dict: {tensor.name!r} is not in feed_dict, whose values it "
                    "replaces."
                )
        return fixed

    def named(self, predictions: Any) -> dict[str, Any]:
        """Return what is predicted, by name: that of its operation where none is given."""
        if predictions is None:
            return {}
        if isinstance(predictions, Mapping):
            return {k: self._read(self.element(v, "prediction")) for k, v in predictions.items()}
        several = predictions if isinstance(predictions, list | tuple) else [predictions]
        tensors = [self._read(self.element(value, "prediction")) for value in several]
        return {tensor.name.split(":")[0]: tensor for tensor in tensors}

    def scalars(self, loss: Any, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the loss and the metrics, by name."""
        named = ({} if loss is None else {"loss": loss}) | dict(metrics)
        found = {name: self._read(self.element(v, name)) for name, v in named.items()}
        for name, tensor in found.items():
            if not isinstance(tensor, tf.Tensor) or tensor.shape.rank not in (0, None):
                shape = getattr(tensor, "shape", "no shape: it is an operation")
                raise ShapeMismatch(
                    f"{name} {tensor.name!r} must be a scalar, got shape {shape}. Reduce it with "
                    "tf.reduce_mean."
                )
        return found

    def _read(self, element: Any) -> Any:
        """Return the value of what may be a reference variable."""
        if isinstance(element, tf.Tensor) and element.op.type in REFERENCES:
            return self.graph.get_tensor_by_name(f"{element.op.name}/read:0")
        return element


def _shape(tensor: Any) -> tuple[int | None, ...] | None:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())


def feed_spec(tensor: Any) -> FeedSpec:
    """Return what a placeholder takes of a record."""
    shape = _shape(tensor)
    return FeedSpec(tensor.name, tensor.dtype.base_dtype.name, None if shape is None else shape[1:])
