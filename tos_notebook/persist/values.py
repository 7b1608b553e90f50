"""Python values as JSON beside a list of arrays, and back: what a combiner keeps, without pickle.

Numbers, text, None, arrays, and lists, tuples, sets, dicts, deques and counters of them. An
object that `dump`s itself is saved as what it returns, and put back by its own `restore`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, get_type_hints, runtime_checkable

import numpy as np

from ..common.arrays import Array
from ..errors import CheckpointError


@runtime_checkable
class Persistent(Protocol):
    """An object with state of its own, which it dumps and restores."""

    def dump(self) -> Mapping[str, Any]:
        """Return the state by name, as values that can be saved.

        Returns
        -------
        mapping of str
            See `Combiner.dump` for what can be in it.
        """

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state.

        Parameters
        ----------
        state : mapping of str
            What `dump` returned, of an object made by the same parameters.
        """


class SavedState(NamedTuple):
    """What an object dumped: to be restored by the object that stands in its place."""

    state: dict[str, Any]
    kind: str
    """Its class."""


_PLAIN: dict[Any, tuple[type, ...]] = {
    int: (int,),
    int | None: (int, type(None)),
    float: (float, int),
    float | None: (float, int, type(None)),
    str: (str,),
    bool: (bool,),
}
_hints = cache(get_type_hints)


def require_plain(kind: type, fields: Mapping[str, Any]) -> None:
    """Raise TypeError for a number, text or truth value of a class that is something else."""
    for name, hint in _hints(kind).items():
        if name in fields and type(fields[name]) not in _PLAIN.get(hint, (type(fields[name]),)):
            raise TypeError(f"expected {kind.__name__}.{name} of {hint}, got {fields[name]!r:.80}")


def revive(target: Any, saved: SavedState) -> None:
    """Let an object take over what one of the same class dumped.

    Raises
    ------
    CheckpointError
        It is of another class, or of another make.
    """
    kind = type(target).__name__
    if saved.kind != kind:
        raise CheckpointError(f"Expected the state of {kind}, got that of {saved.kind}.")
    target.restore(saved.state)


def put_back(target: Any, state: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> None:
    """Set an object's attributes from what was dumped of them.

    Parameters
    ----------
    target : object
    state : mapping of str
    known : mapping of str, optional
        What it dumps now: it has no other state. By default it may.

    Raises
    ------
    CheckpointError
        There is more state than it has; nothing was changed.
    """
    if known is not None and not state.keys() <= known.keys():
        raise CheckpointError(
            f"{type(target).__name__}: expected the state {', '.join(known) or 'none'}; got "
            f"{', '.join(state)}. A combiner must set its state in reset()."
        )
    for name, value in state.items():
        if isinstance(value, SavedState):
            revive(getattr(target, name), value)
        else:
            setattr(target, name, value)


def encode(value: Any, arrays: list[Array], where: str = "") -> Any:
    """Return a value as plain JSON; its arrays are copied and added to `arrays`.

    Parameters
    ----------
    value : object
    arrays : list of ndarray
    where : str
        What it is, for messages.

    Raises
    ------
    CheckpointError
        It, or something in it, is of another kind than can be saved.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        arrays.append(np.array(value))
        kind = "array" if isinstance(value, np.ndarray) else "number"
        return {kind: len(arrays) - 1}
    if isinstance(value, Persistent):
        return {"kept": _pairs(value.dump(), arrays, where), "class": type(value).__name__}
    container = _CONTAINERS.get(type(value))
    if container == "list":
        return [encode(item, arrays, where) for item in value]
    if container in ("dict", "counter"):
        return {container: _pairs(value, arrays, where)}
    if container is None:
        raise CheckpointError(
            f"{where} cannot be saved: expected numbers, text, arrays, or lists and dicts of them, "
            f"got {type(value).__name__}. Give the class dump(), which returns such values by "
            "name, and restore(state)."
        )
    items = [encode(item, arrays, where) for item in value]
    return {container: items} | ({"maxlen": value.maxlen} if container == "deque" else {})


_CONTAINERS: dict[type, str] = {
    list: "list", dict: "dict", Counter: "counter", tuple: "tuple", set: "set", deque: "deque",
}  # fmt: skip


def _pairs(value: Mapping[Any, Any], arrays: list[Array], where: str) -> list[Any]:
    # In their order: what is summed up over a dict depends on it.
    return [
        [encode(key, arrays, where), encode(item, arrays, f"{where}.{key}" if where else str(key))]
        for key, item in value.items()
    ]


def transfer(value: Any, arrays: Sequence[Array], to: list[Array]) -> Any:
    """Return what `encode` returned, for the same arrays in another list.

    Parameters
    ----------
    value : object
    arrays : sequence of ndarray
        To which it refers.
    to : list of ndarray
        To which those that it needs are added.
    """
    if isinstance(value, list):
        return [transfer(item, arrays, to) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    if kind in ("array", "number"):
        to.append(arrays[value[kind]])
        return {kind: len(to) - 1}
    return {**value, kind: transfer(value[kind], arrays, to)}


def decode(value: Any, arrays: Sequence[Array]) -> Any:
    """Return what `encode` was given: arrays as writeable copies, objects as `SavedState`.

    Raises
    ------
    CheckpointError
        `encode` returns no such thing.
    """
    try:
        return _decode(value, arrays)
    except (TypeError, ValueError, LookupError, RecursionError, AttributeError) as error:
        raise CheckpointError(f"Expected a saved value, got something else: {error}.") from None


def _decode(value: Any, arrays: Sequence[Array]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    items = value[kind]
    if kind in ("array", "number"):
        array = arrays[items]
        return array.copy() if kind == "array" else array[()]
    found = [_decode(item, arrays) for item in items]
    if kind == "deque":
        return deque(found, value["maxlen"])
    if kind == "kept":
        return SavedState(dict(map(tuple, found)), value["class"])
    return _MAKERS[kind](found)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "dict": lambda found: dict(map(tuple, found)),
    "counter": lambda found: Counter(dict(map(tuple, found))),
    "tuple": tuple,
    "set": set,
}
