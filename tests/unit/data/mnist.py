"""The digits that the original's program is tested with: MNIST where it is, else small images."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from tests.unit.data.idx_files import write_stripes
from tos_notebook.demo import MNIST_DIR


@dataclass(frozen=True)
class Digits:
    """Images as IDX files, and how to train on them."""

    folder: Path
    rows: int
    tested: int
    batch_size: int


def digits(folder: Path) -> Digits:
    """Return MNIST; where it is missing, small images in `folder`, and say so."""
    named = os.environ.get(MNIST_DIR)
    if named:
        return Digits(Path(named), 60_000, 10_000, 100)
    warnings.warn(f"{MNIST_DIR} is not set: small images stand in for MNIST.", stacklevel=2)
    write_stripes(folder)
    return Digits(folder, 2000, 300, 50)
