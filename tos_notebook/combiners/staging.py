"""Ask a user's combiner about every tensor, and check all it says before any is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array
from ..errors import CombinerError, NonFiniteUpdate
from .arithmetic import round_to
from .base import Combiner, PushInfo


@dataclass(frozen=True, slots=True)
class Proposal:
    """A checked new value of one tensor, and what the worker adopts."""

    center: Array
    reply: Array
    rule: Combiner
    """The rule, with the state that it has after the push."""


def stage(
    rules: Mapping[str, Combiner],
    centers: Mapping[str, Array],
    updates: Mapping[str, Array],
    push: PushInfo,
) -> dict[str, Proposal]:
    """Return what a combiner makes of a push, without changing anything.

    Parameters
    ----------
    rules : mapping of name to Combiner
        What `Combiner.begin` returned for each parameter.
    centers, updates : mapping of name to ndarray
        The server's parameters and the push, in the parameters' shapes and dtypes. What is
        returned is in them, too, and finite.
    push : PushInfo

    Raises
    ------
    CombinerError
        The combiner raised (its exception is the cause), or returned another shape or
        something that is not a real number.
    NonFiniteUpdate
        It returned NaN or infinity, or a value too large for the dtype.
    """
    return {
        name: _propose(rules[name], name, center, updates[name], push)
        for name, center in centers.items()
    }


def count_non_finite(array: Array) -> int:
    """Return how many elements are NaN or infinite."""
    return array.size - int(np.count_nonzero(np.isfinite(array)))


def _propose(rule: Combiner, name: str, center: Array, update: Array, push: PushInfo) -> Proposal:
    label = f"Combiner {rule.name}, parameter {name!r}"
    try:
        rule = rule.fork()
        new, reply = rule.propose(name, center, update, push)
    except Exception as error:
        raise CombinerError(
            f"{label}: raised {type(error).__name__}: {error}. The push was not merged."
        ) from error
    checked = _checked(label, new, center)
    reply = checked if reply is new else _checked(label, reply, center)
    return Proposal(checked, reply, rule)


def _checked(label: str, value: npt.ArrayLike, like: Array) -> Array:
    """Return a copy of `value` in the dtype of `like`, after all checks."""
    expected = f"expected shape {like.shape} of {like.dtype}"
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise CombinerError(f"{label}: {expected}, got {value!r} ({error}).") from error
    if array.shape != like.shape or array.dtype.kind not in "fiu":
        raise CombinerError(
            f"{label}: {expected}, got shape {array.shape} of {array.dtype}. "
            "Return the tensor's new value. The push was not merged."
        )
    result = _cast(array, like.dtype) if not count_non_finite(array) else array
    bad = count_non_finite(result)
    if bad:
        raise NonFiniteUpdate(
            f"{label}: {expected}, all finite; got {bad} of {array.size} values that are NaN, "
            "infinite or too large for the dtype. The push was not merged."
        )
    return result


def _cast(array: Array, dtype: np.dtype[np.generic]) -> Array:
    if dtype.kind != "f" and array.dtype != dtype:
        return round_to(array.astype(np.float64), dtype)
    with np.errstate(over="ignore"):  # an overflow is reported as what it is, an infinity
        return array.astype(dtype)
