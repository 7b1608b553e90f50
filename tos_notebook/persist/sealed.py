"""The file format of checkpoints: JSON and arrays, sealed so that any damage shows.

::

    header   magic, format version, lengths of the three parts that follow
    summary  JSON: what a list of runs shows
    seal     SHA-256 of all before it, so that a summary can be read by itself
    state    JSON: "arrays", a list of (dtype, shape), and "value"
    body     the arrays' bytes, one after the other, in C order, little-endian
    seal     SHA-256 of all before it

A file that was cut off, extended or changed in any bit is refused. The seals tell damage, not
malice: who can write to the directory can write a valid file. Nothing is pickled, and nothing is
allocated by a length that the file does not bear out.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..common.arrays import Array
from ..errors import CheckpointError

MAGIC = b"\x89TOS-CP\n"
"""The first byte is not text, the last a line break: what mangles either is found out."""

VERSION = 3

HEAD = 1 << 16
"""Bytes at a file's beginning that hold its summary, if that is not unusually long."""

_HEADER = struct.Struct("<8sIIQQ")
_SEAL = hashlib.sha256().digest_size

_DTYPES = {
    np.dtype(c).newbyteorder("<").str: np.dtype(c).newbyteorder("<") for c in "?bBhHiIqQefdg"
}
"""By their names in a file, which numpy would read far too freely."""

_CHUNK = 1 << 22


class Sealed(NamedTuple):
    """What a file holds."""

    summary: dict[str, Any]
    value: Any
    """Plain JSON."""
    arrays: list[Array]
    """Read-only views of the file's bytes."""


class Streamed(NamedTuple):
    """An array that is never whole in memory: it is made while it is written."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[Array]
    """Its elements in C order, in arrays of its dtype and any length."""

    @property
    def nbytes(self) -> int:
        """Its length."""
        return math.prod(self.shape) * self.dtype.itemsize


def write(
    path: Path, summary: dict[str, Any], value: Any = None, arrays: Sequence[Array] = ()
) -> None:
    """Write a sealed file of plain JSON values, and of arrays of numbers or bool."""
    with path.open("wb") as file:
        file.writelines(pieces(summary, value, arrays))


def encode(summary: dict[str, Any], value: Any = None, arrays: Sequence[Array] = ()) -> bytes:
    """Return a sealed file's content; see `write`."""
    return b"".join(pieces(summary, value, arrays))


def pieces(
    summary: dict[str, Any], value: Any = None, arrays: Sequence[Array | Streamed] = ()
) -> Iterator[bytes | memoryview]:
    """Yield a sealed file piece by piece; the last one is its seal. See `write`.

    Raises
    ------
    CheckpointError
        A streamed array has another length than it says.
    """
    digest = hashlib.sha256()
    for piece in _pieces(summary, value, arrays):
        part = digest.digest() if piece is None else piece
        digest.update(part)
        yield part


def _pieces(
    summary: dict[str, Any], value: Any, arrays: Sequence[Array | Streamed]
) -> Iterator[bytes | memoryview | None]:
    """Yield a file piece by piece; None stands for a seal."""
    shapes = [[a.dtype.newbyteorder("<").str, list(a.shape)] for a in arrays]
    head = json.dumps(summary).encode()
    state = json.dumps({"arrays": shapes, "value": value}).encode()
    body = sum(array.nbytes for array in arrays)
    yield _HEADER.pack(MAGIC, VERSION, len(head), len(state), body)
    yield head
    yield None
    yield state
    for array in arrays:
        left = array.nbytes
        for part in array.pieces if isinstance(array, Streamed) else (array,):
            native = np.ascontiguousarray(part, array.dtype.newbyteorder("<"))
            data = native.reshape(-1).view(np.uint8).data
            left -= len(data)
            # In pieces: threads that wait for the interpreter get it in between.
            yield from (data[start : start + _CHUNK] for start in range(0, len(data), _CHUNK))
        if left:
            raise CheckpointError(
                f"Expected an array of {array.nbytes} bytes to write, got {array.nbytes - left}."
            )
    yield None


def decode(data: bytes, name: str) -> Sealed:
    """Return what a sealed file holds, whose name is for messages.

    Raises
    ------
    CheckpointError
        It is another kind of file, or not as it was written.
    """
    head, state, body = _lengths(data, name)
    expected = _HEADER.size + head + _SEAL + state + body + _SEAL
    if len(data) != expected:
        word = "was cut off" if len(data) < expected else "has something behind its end"
        raise CheckpointError(
            f"{name} {word}: expected {expected} bytes, got {len(data)}. Use the one before it."
        )
    view = memoryview(data)
    if hashlib.sha256(view[:-_SEAL]).digest() != view[-_SEAL:]:
        raise CheckpointError(
            f"{name} is damaged: expected content of SHA-256 {view[-_SEAL:].hex()[:12]}..., got "
            "another. Use the one before it."
        )
    start = _HEADER.size + head + _SEAL
    summary = _object(view[_HEADER.size : _HEADER.size + head], name)
    parsed = _object(view[start : start + state], name)
    try:
        arrays = _arrays(parsed["arrays"], view[start + state : -_SEAL])
        return Sealed(summary, parsed["value"], arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _nonsense(name, error) from None


def read_summary(data: bytes, name: str) -> dict[str, Any] | int:
    """Return a file's summary from its beginning; or how many bytes more than `data` that takes.

    Raises
    ------
    CheckpointError
        It is another kind of file, or its beginning is not as it was written.
    """
    head, _, _ = _lengths(data, name)
    end = _HEADER.size + head
    if len(data) < end + _SEAL:
        return end + _SEAL
    if hashlib.sha256(data[:end]).digest() != data[end : end + _SEAL]:
        raise CheckpointError(f"{name} is damaged: its summary is not as it was written.")
    return _object(memoryview(data)[_HEADER.size : end], name)


def _lengths(data: bytes, name: str) -> tuple[int, int, int]:
    """Return how long summary, state and body are, as the header has it."""
    if len(data) < _HEADER.size:
        raise CheckpointError(
            f"{name} was cut off: expected a header of {_HEADER.size} bytes, got {len(data)}."
        )
    magic, version, head, state, body = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CheckpointError(f"{name} is not a checkpoint: expected it to begin with {MAGIC!r}.")
    if version != VERSION:
        raise CheckpointError(
            f"{name}: expected format version {VERSION}, got {version}. Read it with the release "
            "of tos_notebook that wrote it."
        )
    return head, state, body


def _object(text: memoryview, name: str) -> dict[str, Any]:
    try:
        value = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise _nonsense(name, error) from None
    if not isinstance(value, dict):
        raise _nonsense(name, TypeError(f"expected an object, got {type(value).__name__}"))
    return value


def _arrays(shapes: Any, body: memoryview) -> list[Array]:
    arrays, start = [], 0
    for text, shape in shapes:
        dtype = _DTYPES[text]
        if not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"expected lengths of at least 0, got shape {shape!r}")
        count = math.prod(shape)
        if count * dtype.itemsize > len(body) - start:
            raise ValueError(f"an array of {dtype} of shape {shape} is longer than the file")
        flat = np.frombuffer(body, dtype, count, start) if count else np.zeros(0, dtype)
        arrays.append(flat.reshape(shape))
        start += flat.nbytes
    if start != len(body):
        raise ValueError(f"expected arrays of {len(body)} bytes, got {start}")
    return arrays


def _nonsense(name: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{name} is sealed, but not as this release writes it: {error}.")
