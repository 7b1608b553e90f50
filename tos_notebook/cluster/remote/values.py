"""What a Spark Connect server may return: numbers, texts, arrays, and records of this package.

A pickle can call whatever can be imported. This process trusts a server with its data, not with
that.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from ...errors import ConnectError

_ARRAYS = (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))

PLAIN = frozenset(
    [("builtins", name) for name in ("bytearray", "complex", "frozenset", "range", "set", "slice")]
    + [("collections", name) for name in ("Counter", "OrderedDict", "defaultdict")]
    + [("numpy", "dtype"), ("numpy", "ndarray")]
    # NumPy has renamed its core.
    + [(f"numpy.{core}.{inner}", name) for core in ("core", "_core") for inner, name in _ARRAYS]
)
"""Modules and names of what makes plain values, and does nothing else."""

_PACKAGE = __name__.partition(".")[0]


class _Values(pickle.Unpickler):
    def __init__(self, content: Any) -> None:
        super().__init__(io.BytesIO(content))
        self._before: dict[type, dict[str, Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        own = module.partition(".")[0] == _PACKAGE
        if (module, name) in PLAIN or own:
            found = super().find_class(module, name)
            if not own or _is_record(found):
                if isinstance(found, type):
                    self._before.setdefault(found, dict(vars(found)))
                return found
        raise _refused(f"{module}.{name}")

    def restore(self) -> type | None:
        """Undo what a pickle has changed of a class itself; return such a class, if there is one.

        To give an object its state, a pickle may name a class in the object's place.
        """
        changed = None
        for found, before in self._before.items():
            for name in {*before, *vars(found)}:
                if name not in before:
                    delattr(found, name)
                elif vars(found).get(name) is not before[name]:
                    setattr(found, name, before[name])
                else:
                    continue
                changed = found
        return changed


def _refused(what: str) -> ConnectError:
    return ConnectError(
        "The Spark Connect server returned something other than numbers, texts, arrays and records "
        f"of this package: {what}. It was not read. Check who controls this server and its "
        "executors."
    )


def _is_record(found: Any) -> bool:
    """Whether this is a class of this package whose instances only hold values."""
    if not isinstance(found, type) or found.__module__.partition(".")[0] != _PACKAGE:
        return False
    return is_dataclass(found) or issubclass(found, (tuple, Enum))


def read(content: Any) -> Any:
    """Return the value that a task has returned.

    Parameters
    ----------
    content : bytes-like
        Its pickle.

    Raises
    ------
    ConnectError
        It would make, call or change anything else.
    """
    values = _Values(content)
    try:
        found = values.load()
    finally:
        changed = values.restore()
    if changed is not None:
        raise _refused(f"another {changed.__name__}")
    return found
