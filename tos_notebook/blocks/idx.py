"""Read IDX files, the format MNIST is published in, plain or gzipped.

The format is defined at the end of http://yann.lecun.com/exdb/mnist/: two zero bytes, a
dtype code, the number of dimensions, each dimension as a big-endian uint32, then the values
in row-major order, big-endian.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from typing import Any

import numpy as np

from ..common.arrays import Array
from ..errors import DataError

GZIP_MAGIC = b"\x1f\x8b"

DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def parse_idx(data: bytes, name: str) -> Array:
    """Decode the content of one IDX file.

    Parameters
    ----------
    data : bytes
        The whole file; gzip is recognised by its first two bytes.
    name : str
        What to call the file in an error message.

    Returns
    -------
    ndarray
        In native byte order. Of uint8 and int8 it is a read-only view of the bytes.

    Raises
    ------
    DataError
        No bytes, a damaged gzip stream, a wrong magic number, or fewer or more bytes than the
        header announces.
    """
    if not data:
        raise DataError(f"{name}: expected an IDX file, got an empty one.")
    content = _decompress(data, name) if data.startswith(GZIP_MAGIC) else data
    dtype, shape, start = _parse_header(content, name)
    expected = math.prod(shape) * dtype.itemsize
    found = len(content) - start
    if found != expected:
        raise DataError(
            f"{name}: the header announces shape {shape} of {dtype.name}, {expected} bytes, "
            f"but {found} follow; the file is {'truncated' if found < expected else 'too long'}."
        )
    values = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _decompress(data: bytes, name: str) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: the gzip stream is damaged ({error}).") from error


def _parse_header(content: bytes, name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape and the offset of the first value."""
    code, dimensions = (content[2], content[3]) if len(content) >= 4 else (0, 0)
    if content[:2] != b"\x00\x00" or code not in DTYPES or not dimensions:
        raise DataError(
            f"{name}: expected the magic number of an IDX file (two zero bytes, a dtype code, "
            f"the number of dimensions), got 0x{content[:4].hex()}."
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(
            f"{name}: the header of {dimensions} dimensions takes {start} bytes, "
            f"but the file has {len(content)}; it is truncated."
        )
    return np.dtype(DTYPES[code]), struct.unpack_from(f">{dimensions}I", content, 4), start
