"""The codecs' kernels in C, where this package was installed with a C compiler at hand.

They take a fifth of numpy's time. What they decode is equal to the bit, so that one end of a
connection may have them and the other not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

extension: ModuleType | None = None
"""The module of all kernels, None where it was not built, or cannot be loaded from a zip file."""

with suppress(ImportError):
    extension = import_module("._kernels", __package__)


class Kernels(NamedTuple):
    """What one codec does with a piece; vectors are of float32, codes of bytes."""

    encode: Callable[..., float]
    """Of values, known ones to subtract (or None), scales, codes, and what the codec needs more:
    fills scales and codes, returns the largest magnitude of a bucket."""
    decode: Callable[..., None]
    """Of codes, scales, out: writes there."""
    add: Callable[..., None]
    """Of codes, scales, out: adds there."""
    residual: Callable[..., None]
    """Of codes, scales, out, values: writes there what the codes miss of the values."""


def kernels_of(family: str) -> Kernels | None:
    """Return the kernels of a codec's family, None without any."""
    found: list[Any] = [getattr(extension, f"{do}_{family}", None) for do in Kernels._fields]
    return None if None in found else Kernels(*found)
