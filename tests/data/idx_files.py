"""IDX files for tests."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(values: npt.NDArray[Any]) -> bytes:
    """Encode an array as an IDX file."""
    code = CODES[values.dtype.str[1:]]
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
    return header + values.astype(values.dtype.newbyteorder(">")).tobytes()


def pixels(rows: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Return `rows` random images of 4 by 3 pixels."""
    return np.random.default_rng(seed).integers(0, 256, (rows, 4, 3), np.uint8)
