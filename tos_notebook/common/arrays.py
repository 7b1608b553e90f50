"""Arrays: their names in annotations, aligned memory, and whether all values are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Arrays = Sequence[Array]

Buffer = npt.NDArray[np.uint8]
"""Bytes, which may be viewed as arrays of any dtype."""

ALIGNMENT = 64
"""Bytes. TensorFlow adopts a numpy array without a copy only at this alignment."""


def aligned_empty(nbytes: int) -> Buffer:
    """Return uninitialised bytes whose address is a multiple of `ALIGNMENT`."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


_PIECE = 1 << 15


def is_finite(array: Array) -> bool:
    """Return whether no element of a contiguous array is NaN or infinite."""
    if array.dtype.kind != "f":
        return True
    flat = array.reshape(-1)
    if flat.size <= _PIECE:
        return bool(np.isfinite(flat).all())
    # Piece by piece: the results of one stay in the fastest cache, and need no new pages.
    pieces = range(0, flat.size, _PIECE)
    return all(np.isfinite(flat[start : start + _PIECE]).all() for start in pieces)
