"""Load what predicts or measures rows: TensorFlow's side of inference on an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..archive.spec import read_signature
from ..blocks.sparse import at_once, dense_batches
from ..common.arrays import Array
from ..common.served import ServedTable
from ..errors import DataError, ShapeMismatch
from .import_guard import without_keras
from .saved import SavedFunction, as_tensor, load_saved

with without_keras():
    import tensorflow as tf

from .eager import eagerly

Find = Callable[[int, Array], Array]
"""Takes the number of a served table, and ids; returns rows, shape (k, columns)."""


class ServedRows:
    """Gives a model the rows of served tables that a batch needs.

    Parameters
    ----------
    loaded : object
        The model; see `tos_notebook.program.export.served.add_served`.
    tables : sequence of ServedTable
    find : callable, optional
        By default rows are as they begin.
    """

    def __init__(
        self, loaded: Any, tables: Sequence[ServedTable], find: Find | None = None
    ) -> None:
        self._tables = tables
        self._find = find
        self._ids = SavedFunction(loaded.served_ids)
        self._place = SavedFunction(loaded.place_rows)

    def __call__(self, tensors: Sequence[tf.Tensor]) -> None:
        """Put the rows of a batch in place."""
        ids = [np.asarray(each) for each in self._ids(*tensors)]
        rows = [self._rows(number, each) for number, each in enumerate(ids)]
        self._place(*map(tf.constant, (*ids, *rows)))

    def _rows(self, number: int, ids: Array) -> Array:
        table = self._tables[number]
        if len(ids) and (ids[0] < 0 or ids[-1] >= table.rows):
            wrong = ids[0] if ids[0] < 0 else ids[-1]
            raise DataError(
                f"ServedEmbedding {table.name!r}: expected ids from 0 to {table.rows - 1}, got "
                f"{wrong}."
            )
        rows = table.begin(ids) if self._find is None else self._find(number, ids)
        return rows[:, : table.width]


class Forward:
    """Predicts rows.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.serving` packed.
    find : callable, optional
        Finds rows of served tables; by default they are as they begin.
    """

    def __init__(self, archive: Path, find: Find | None = None) -> None:
        self.signature = read_signature(archive)
        # Signatures do not keep what they belong to alive.
        self._loaded = load_saved(archive)
        self._call = self._loaded.signatures[self.signature.entry]
        tables = self.signature.served
        self._rows = ServedRows(self._loaded, tables, find) if tables else None

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
            if self._rows is not None:
                self._rows(list(fed.values()))
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
    find : callable, optional
        See `Forward`.
    """

    def __init__(self, archive: Path, find: Find | None = None) -> None:
        self._loaded = load_saved(archive)
        self._measure = SavedFunction(self._loaded.measure)
        tables = read_signature(archive).served
        self._served = ServedRows(self._loaded, tables, find) if tables else None
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
                    tensors = [*map(as_tensor, batch)]
                    if self._served is not None:
                        self._served(tensors)
                    self._measure(*tensors)
        if not rows:
            return None
        with eagerly():
            return [np.array(variable.numpy()) for variable in self._loaded.state]
