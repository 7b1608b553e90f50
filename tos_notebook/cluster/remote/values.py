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
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in PLAIN:
            return super().find_class(module, name)
        if module.partition(".")[0] == _PACKAGE:
            found = super().find_class(module, name)
            if _is_record(found):
                return found
        raise ConnectError(
            f"The Spark Connect server returned something other than numbers, texts, arrays and "
            f"records of this package: {module}.{name}. It was not read. Check who controls this "
            "server and its executors."
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
        It would make, or call, anything else.
    """
    return _Values(io.BytesIO(content)).load()
