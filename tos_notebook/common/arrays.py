"""Arrays: names in annotations and of dtypes, text, aligned memory, whether values are finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Arrays = Sequence[Array]

Buffer = npt.NDArray[np.uint8]
"""Bytes, which may be viewed as arrays of any dtype."""

STRING = "string"
"""What TensorFlow calls the dtype of text. Arrays of it hold objects, each of type `bytes`."""

ALIGNMENT = 64
"""Bytes. TensorFlow adopts a numpy array without a copy only at this alignment."""


def aligned_empty(nbytes: int) -> Buffer:
    """Return uninitialised bytes whose address is a multiple of `ALIGNMENT`."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def dtype_of(name: npt.DTypeLike) -> np.dtype[Any]:
    """Return numpy's dtype for the name of one, or `STRING`."""
    return np.dtype(object if isinstance(name, str) and name == STRING else name)


def name_of(dtype: npt.DTypeLike) -> str:
    """Return the name of a dtype: `STRING` for objects."""
    found = dtype_of(dtype)
    return STRING if found.kind == "O" else found.name


def is_text(array: Array) -> bool:
    """Whether an array may hold text: of fixed width, of numpy's own strings, or objects."""
    return array.dtype.kind in "OSTU"


def as_strings(array: Array) -> Array:
    """Return text as UTF-8.

    Parameters
    ----------
    array : ndarray, of `str` or `bytes`

    Returns
    -------
    ndarray, of the same shape, object
        Equal values are one object.

    Raises
    ------
    TypeError
        A value is neither `str` nor `bytes`.
    """
    known: dict[Any, bytes] = {}
    made = np.empty(array.shape, object)
    made.reshape(-1)[:] = [
        known[value] if value in known else known.setdefault(value, _utf8(value))
        for value in array.reshape(-1).tolist()
    ]
    return made


def _utf8(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"expected text, got {type(value).__name__}")


def nbytes_of(column: Any) -> int:
    """Return the memory that a column takes; of text, as if no value were there twice."""
    if column.dtype.kind != "O":
        return int(column.nbytes)
    return int(column.nbytes) + sum(map(len, column.reshape(-1).tolist()))


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
