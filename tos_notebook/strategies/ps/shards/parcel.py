"""A value and arrays in one buffer, to be sent between the driver and a shard; nothing is pickled.

::

    length of the head u64 | head: JSON of value, dtypes and shapes | the arrays' bytes, aligned
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....common.arrays import ALIGNMENT, Array, Buffer, aligned_empty
from ....errors import RemoteProtocolError
from ....transport.base import BytesLike

_LENGTH = struct.Struct(">Q")


def pack(value: Any, arrays: Sequence[Array] = ()) -> Buffer:
    """Return a buffer that holds a value of JSON, and copies of arrays of plain dtypes."""
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    head = json.dumps([value, shapes]).encode()
    start = _aligned(_LENGTH.size + len(head))
    places = list(_places(start, [array.nbytes for array in arrays]))
    buffer = aligned_empty(places[-1] if places else start)
    _LENGTH.pack_into(buffer.data, 0, len(head))
    buffer[_LENGTH.size : _LENGTH.size + len(head)] = np.frombuffer(head, np.uint8)
    for array, place in zip(arrays, places, strict=False):
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer[place : place + len(flat)] = flat
    return buffer


def unpack(buffer: BytesLike | None) -> tuple[Any, list[Array]]:
    """Return what was packed; the arrays are views of the buffer.

    Raises
    ------
    RemoteProtocolError
        It is no such buffer.
    """
    data = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
    try:
        (length,) = _LENGTH.unpack_from(data.data, 0)
        value, shapes = json.loads(bytes(data[_LENGTH.size : _LENGTH.size + length]))
        kinds = [(_dtype(text), tuple(_count(n) for n in shape)) for text, shape in shapes]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in kinds]
        places = _places(_aligned(_LENGTH.size + length), sizes)
        both = zip(kinds, sizes, places, strict=False)
        return value, [
            data[place : place + size].view(dtype).reshape(shape)
            for (dtype, shape), size, place in both
        ]
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise RemoteProtocolError(
            f"Expected a value and arrays, got {len(data)} other bytes: {error}."
        ) from error


def _dtype(text: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(text)
    if not isinstance(text, str) or dtype.kind not in "biuf":
        raise ValueError(f"an array of {text!r}")
    return dtype


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"a length of {number!r}")
    return number


def _places(start: int, sizes: Sequence[int]) -> Iterator[int]:
    """Yield where each array begins, and then where the buffer ends."""
    for size in sizes:
        yield start
        start = _aligned(start + size)
    yield start


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
