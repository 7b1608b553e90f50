"""Call a SavedModel with Python's values, by the names of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..archive.spec import Port, read_signature
from ..errors import DataError, ShapeMismatch
from ..readable import summary
from .import_guard import without_keras
from .saved import load_saved

with without_keras():
    import tensorflow as tf

from .eager import eagerly


class NamedForward:
    """Computes rows of Python's values, of whatever types the model takes.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.export.serving` packed.
    """

    def __init__(self, archive: Path) -> None:
        signature = read_signature(archive)
        self._ports = {port.name: port for port in signature.inputs}
        # Signatures do not keep what they belong to alive.
        self._loaded = load_saved(archive)
        self._call = self._loaded.signatures[signature.entry]

    def __call__(
        self, columns: Mapping[str, Sequence[Any]], outputs: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """Return a tuple of the outputs' values for each row.

        Parameters
        ----------
        columns : mapping of str to sequence
            By the inputs' names, a value for each row; at least one row.
        outputs : sequence of str
            Those that are wanted, in order.

        Raises
        ------
        DataError
            Values that an input does not take.
        ShapeMismatch
            An output does not have a value for each row.
        """
        with eagerly():
            fed = {
                self._ports[name].key: _tensor(self._ports[name], values)
                for name, values in columns.items()
            }
            found = self._call(**fed)
        rows = len(next(iter(columns.values())))
        arrays = [found[name].numpy() for name in outputs]
        for name, array in zip(outputs, arrays, strict=True):
            if array.shape[:1] != (rows,):
                raise ShapeMismatch(
                    f"Output {name!r}: expected a value for each of {rows} rows, got shape "
                    f"{array.shape}."
                )
        return list(zip(*map(_python, arrays), strict=True))


def _tensor(port: Port, values: Sequence[Any]) -> tf.Tensor:
    """Return a batch; flat rows get the input's shape, as Spark's arrays know no shapes."""
    try:
        tensor = tf.constant(values, port.dtype)
    except (TypeError, ValueError) as error:
        nulls = [row for row, value in enumerate(values) if value is None]
        found = f"a null in row {nulls[0]} of the batch" if nulls else summary(error)
        raise DataError(
            f"Input {port.name!r}: expected values of {_text(port)} for each row, all of one "
            f"length within a batch; got {found}."
        ) from None
    shape = port.shape
    if shape is None or tf.TensorShape(shape).is_compatible_with(tensor.shape[1:]):
        return tensor
    try:
        return tf.reshape(tensor, [len(values), *(-1 if n is None else n for n in shape)])
    except (ValueError, tf.errors.InvalidArgumentError):
        raise DataError(
            f"Input {port.name!r}: expected values of {_text(port)} for each row, got shape "
            f"{tuple(tensor.shape[1:])}."
        ) from None


def _text(port: Port) -> str:
    return f"{port.dtype} of shape {port.shape}"


def _python(array: Any) -> list[Any]:
    # Spark does not know half precision, nor does Python.
    half = array.dtype.name in ("float16", "bfloat16")
    values: list[Any] = (array.astype(np.float32) if half else array).tolist()
    return values
