"""Load what predicts or measures rows: TensorFlow's side of inference on an executor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..archive.spec import read_signature
from ..blocks.sparse import at_once, dense_batches
from ..common.arrays import Array
from ..errors import ShapeMismatch
from .import_guard import without_keras
from .saved import SavedFunction, as_tensor, load_saved

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
        # Signatures do not keep what they belong to alive.
        self._loaded = load_saved(archive)
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
        parts = map(self._batch, dense_batches(columns, size))
        return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def _batch(self, columns: Sequence[Array]) -> list[Array]:
        with eagerly():
            fed = {}
            for port, tensor in zip(self.signature.inputs, map(as_tensor, columns), strict=True):
                cast = port.dtype is not None and tensor.dtype.name != port.dtype
                fed[port.key] = tf.cast(tensor, port.dtype) if cast else tensor
            found = self._call(**fed)
        arrays = [np.asarray(found[port.key]) for port in self.signature.outputs]
        for port, array in zip(self.signature.outputs, arrays, strict=True):
            if array.shape[:1] != columns[0].shape[:1]:
                raise ShapeMismatch(
                    f"Output {port.name!r}: expected a row for each of {len(columns[0])} rows, got "
                    f"shape {array.shape}."
                )
        return arrays


class Measure:
    """Adds up loss and metrics.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.serving` packed.
    """

    def __init__(self, archive: Path) -> None:
        self._loaded = load_saved(archive)
        self._measure = SavedFunction(self._loaded.measure)
        with eagerly():
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
            for batch in dense_batches(block, batch_size):
                with eagerly():
                    self._measure(*map(as_tensor, batch))
        if not rows:
            return None
        with eagerly():
            return [np.array(variable.numpy()) for variable in self._loaded.state]
