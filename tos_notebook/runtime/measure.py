"""Load a program that measures rows: TensorFlow's side of evaluation on an executor."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..blocks.sparse import dense
from ..common.arrays import Array
from .import_guard import without_keras
from .muted import quiet
from .runner import as_tensor

with without_keras():
    import tensorflow as tf

from .eager import eagerly


class Measure:
    """Adds up loss and metrics.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.measuring` packed.
    """

    def __init__(self, archive: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="tos-measure-") as folder:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            with eagerly(), quiet("absl"):
                self._loaded = tf.saved_model.load(folder)
                self._initial = [variable.numpy() for variable in self._loaded.state]

    def __call__(self, blocks: Iterable[Sequence[Array]], batch_size: int) -> list[Array] | None:
        """Return the sums over all rows; None if there are none.

        Parameters
        ----------
        blocks : iterable of sequence of ndarray, shape (rows, ...)
        batch_size : int
        """
        rows = 0
        with eagerly():
            for variable, value in zip(self._loaded.state, self._initial, strict=True):
                variable.assign(value)
        for block in blocks:
            rows += len(block[0])
            for start in range(0, len(block[0]), batch_size):
                batch = [dense(column[start : start + batch_size]) for column in block]
                with eagerly():
                    self._loaded.measure(*map(as_tensor, batch))
        if not rows:
            return None
        with eagerly():
            return [np.array(variable.numpy()) for variable in self._loaded.state]
