"""Load a served model and predict with it: TensorFlow's side of inference on an executor."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..archive.signature import read_signature
from ..blocks.sparse import at_once, dense
from ..common.arrays import Array
from ..errors import ShapeMismatch
from .import_guard import without_keras
from .muted import quiet
from .runner import as_tensor

with without_keras():
    import tensorflow as tf

from .eager import eagerly


class Forward:
    """Predicts rows.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.serving` packed.
    """

    def __init__(self, archive: Path) -> None:
        self.signature = read_signature(archive)
        with tempfile.TemporaryDirectory(prefix="tos-served-") as folder:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
            with eagerly(), quiet("absl"):
                # Signatures do not keep what they belong to alive.
                self._loaded = tf.saved_model.load(folder)
        self._call = self._loaded.signatures[self.signature.entry]

    def __call__(self, columns: Sequence[Array], batch_size: int) -> tuple[Array, ...]:
        """Return the outputs, in the signature's order.

        Parameters
        ----------
        columns : sequence of ndarray, one per input, shape (rows, ...)
            At least one row.
        batch_size : int
            Rows that are predicted at once.

        Returns
        -------
        tuple of ndarray, one per output, shape (rows, ...)

        Raises
        ------
        ShapeMismatch
            An output does not have a row for each row.
        """
        size = at_once(columns, batch_size)
        parts = [
            self._batch([dense(column[start : start + size]) for column in columns])
            for start in range(0, len(columns[0]), size)
        ]
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def _batch(self, columns: Sequence[Array]) -> list[Array]:
        with eagerly():
            fed = {
                port.key: self._fed(column, port.dtype)
                for port, column in zip(self.signature.inputs, columns, strict=True)
            }
            found = self._call(**fed)
        arrays = [np.asarray(found[port.key]) for port in self.signature.outputs]
        for port, array in zip(self.signature.outputs, arrays, strict=True):
            if array.shape[:1] != columns[0].shape[:1]:
                raise ShapeMismatch(
                    f"Output {port.name!r}: expected a row for each of {len(columns[0])} rows, got "
                    f"shape {array.shape}."
                )
        return arrays

    def _fed(self, column: Array, dtype: str | None) -> tf.Tensor:
        tensor = as_tensor(column)
        return tensor if dtype is None or tensor.dtype.name == dtype else tf.cast(tensor, dtype)
