"""IDX files for tests."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
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


def write_stripes(folder: Path, train: int = 2000, test: int = 300) -> None:
    """Write the four files of a small MNIST, under MNIST's names.

    Ten bright stripes, one for each class, over noise: any working training finds them.
    """
    rng = np.random.default_rng(0)
    for kind, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count, np.uint8)
        images = rng.integers(0, 25, (count, 28, 28), np.uint8)
        images[np.arange(count), labels * 2 + 3] += 150
        write_part(folder, kind, images, labels)


def write_part(
    folder: Path, kind: str, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]
) -> None:
    """Write two files under MNIST's names, of kind ``train`` or ``t10k``."""
    _write(folder / f"{kind}-images-idx3-ubyte.gz", images)
    _write(folder / f"{kind}-labels-idx1-ubyte.gz", labels)


def _write(path: Path, values: npt.NDArray[Any]) -> None:
    path.write_bytes(gzip.compress(idx_bytes(values), 1))
