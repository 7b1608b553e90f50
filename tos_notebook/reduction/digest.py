"""A number by which ranks notice that their vectors differ."""

from __future__ import annotations

import zlib

from ..common.arrays import Array


def digest(vector: Array) -> int:
    """Return 32 bits that differ, but for chance, where two vectors do.

    It proves nothing against intent. 100 MB take some 30 ms.

    Parameters
    ----------
    vector : ndarray
        Contiguous, of any dtype.

    Returns
    -------
    int
        CRC-32 of its bytes.
    """
    return zlib.crc32(vector.reshape(-1).view("uint8").data)
