"""The data that is trained on: the demo's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tos_notebook.common.arrays import Array
from tos_notebook.demo import MNIST_DIR, bundled_digits
from tos_notebook.demo import mnist as read_mnist
from tos_notebook.errors import DataError

Labelled = tuple[Array, Array]


def mnist() -> tuple[Labelled, Labelled]:
    """Return MNIST to train and to test on, images as uint8 of shape (rows, 784).

    Raises
    ------
    DataError
        `TOS_MNIST_DIR` does not name a folder that has it.
    """
    folder = os.environ.get(MNIST_DIR)
    if not folder:
        raise DataError(f"Set {MNIST_DIR} to the folder of MNIST's four IDX files.")
    found = read_mnist(Path(folder))
    return found.train, found.test


def digits() -> tuple[Labelled, Labelled]:
    """Return scikit-learn's digits to train and to test on, as float32 from 0 to 1."""
    found = bundled_digits()
    (x, y), (x_test, y_test) = found.train, found.test
    white = np.float32(found.white)
    return (x / white, y), (x_test / white, y_test)
