"""A number by which ranks notice that their vectors differ."""

from __future__ import annotations

import zlib

from ..common.arrays import Array


def digest(vector: Array) -> int:
    """Return 64 bits that differ, but for chance, where two vectors do.

    It proves nothing against intent. 100 MB take some 50 ms.

    Parameters
    ----------
    vector : ndarray
        Contiguous, of any dtype.

    Returns
    -------
    int
        CRC-32 and Adler-32 of its bytes.
    """
    data = vector.reshape(-1).view("uint8").data
    return zlib.crc32(data) << 32 | zlib.adler32(data)
