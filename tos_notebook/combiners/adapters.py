"""Users' own combiners: objects with a ``compute``, and plain functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from ..common.arrays import Array
from ..errors import CombinerError
from ..persist.values import Persistent, put_back
from .base import Combiner, PushInfo, TensorCombiner


class ComputeCombiner(TensorCombiner):
    """Any object with the original's ``compute``, whatever its class.

    Parameters
    ----------
    target : object
        With ``compute(origin_weight, new_weight, worker_id, name)``, called with
        positional arguments; ``new_weight`` is always what the worker has, never a change.
    """

    def __init__(self, target: Any) -> None:
        _check_call(target.compute, 4, "compute(origin_weight, new_weight, worker_id, name)")
        self.target = target
        self.name = type(target).__name__

    def compute(
        self, origin_weight: Array, new_weight: Array, worker_id: int = -1, name: str | None = None
    ) -> npt.ArrayLike:
        """Ask the wrapped object; see `TensorCombiner.compute`."""
        value: npt.ArrayLike = self.target.compute(origin_weight, new_weight, worker_id, name)
        return value

    def dump(self) -> Mapping[str, Any]:
        """Return what the object dumps, or all its attributes; see `Combiner.dump`."""
        if isinstance(self.target, Persistent):
            return self.target.dump()
        return dict(getattr(self.target, "__dict__", {}))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give the object its state back; see `Combiner.restore`."""
        if isinstance(self.target, Persistent):
            self.target.restore(state)
        else:
            put_back(self.target, state)


class FunctionCombiner(Combiner):
    """A plain function ``f(center, update, push)`` that returns a tensor's new value.

    Parameters
    ----------
    function : callable
        Gets copies of one tensor of the center and of the update, and a `PushInfo`. Its
        attribute ``pushes``, if it has one, says what workers push; ``"delta"`` by default.
    """

    def __init__(self, function: Callable[[Array, Array, PushInfo], npt.ArrayLike]) -> None:
        _check_call(function, 3, "f(center, update, push)")
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.pushes = getattr(function, "pushes", "delta")

    def __repr__(self) -> str:
        return self.name

    def merge(self, center: Array, update: Array, push: PushInfo) -> None:
        """Merge one tensor in place; see `Combiner.merge`."""
        center[...] = self.propose("", center, update, push)[0]
        update[...] = center

    def propose(
        self, name: str, center: Array, update: Array, push: PushInfo
    ) -> tuple[npt.ArrayLike, npt.ArrayLike]:
        """Return what the function makes of copies of one tensor, as center and as reply."""
        value = self.function(center.copy(), update.copy(), push)
        return value, value


def _check_call(function: Callable[..., Any], arguments: int, expected: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins may have no signature to look at
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        label = getattr(function, "__qualname__", repr(function))
        raise CombinerError(
            f"Combiner {label}: expected a call as {expected}, got {label}{signature}: {error}."
        ) from error
