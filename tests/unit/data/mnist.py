"""The digits that the original's program is tested with: MNIST where it is, else small images."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.unit.data.idx_files import write_part, write_stripes
from tos_notebook.demo import MNIST_DIR, mnist


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


def half_of_digits(folder: Path) -> Digits:
    """Return half of MNIST, written to `folder`; where it is missing, all of the small images.

    It takes half of the time, and each worker still has two milestones in an epoch.
    """
    whole = digits(folder)
    if whole.folder == folder:
        return whole
    found = mnist(whole.folder)
    for kind, (images, labels) in (("train", found.train), ("t10k", found.test)):
        rows = len(labels) // 2
        bright = images[:rows].reshape(rows, 28, 28)
        write_part(folder, kind, bright, labels[:rows].astype(np.uint8))
    return Digits(folder, whole.rows // 2, whole.tested // 2, whole.batch_size)
