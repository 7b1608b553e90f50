"""What a model's output is as a column of a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..archive.signature import Port
from ..common.arrays import Array
from ..errors import UnsupportedProgram

WIDENED = {
    "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "int16", "uint16": "int32", "uint32": "int64",
    "float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64",
}  # fmt: skip
"""Spark has no unsigned integers and no half precision."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column.

    Parameters
    ----------
    dtype : str
        One that Spark has: a value of `WIDENED`.
    depth : int
        How often its arrays are nested.
    """

    dtype: str
    depth: int

    @property
    def arrow(self) -> Any:
        """As Arrow's type."""
        kind = pa.from_numpy_dtype(np.dtype(self.dtype))
        for _ in range(self.depth):
            kind = pa.list_(kind)
        return kind

    @property
    def spark(self) -> Any:
        """As Spark's type."""
        from pyspark.sql.pandas.types import from_arrow_type

        return from_arrow_type(self.arrow)


def kind_of(port: Port) -> Kind:
    """Return the type of an output's column; one number for each row is a number.

    Raises
    ------
    UnsupportedProgram
        It is of a dtype that no column has.
    """
    if port.dtype not in WIDENED or port.shape is None:
        raise UnsupportedProgram(
            f"Output {port.name!r} is {port.dtype} of shape {port.shape}: expected numbers or "
            f"booleans ({', '.join(WIDENED)}) with a fixed number of dimensions."
        )
    depth = 0 if port.shape == (1,) else len(port.shape)
    return Kind(WIDENED[port.dtype], depth)


def as_arrow(array: Array, kind: Kind) -> Any:
    """Return rows as an Arrow array.

    Parameters
    ----------
    array : ndarray, shape (rows, ...)
    kind : Kind
    """
    flat = np.ascontiguousarray(array, np.dtype(kind.dtype)).reshape(-1)
    column = pa.array(flat)
    for axis in range(kind.depth, 0, -1):
        count, length = int(np.prod(array.shape[:axis])), array.shape[axis]
        offsets = np.arange(count + 1, dtype=np.int32) * length
        column = pa.ListArray.from_arrays(pa.array(offsets), column)
    return column
