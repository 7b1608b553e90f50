"""The types of columns: which can be fed, and as what."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types

from ...common.checks import did_you_mean
from ...errors import DataError

DTYPES = {
    types.BooleanType: "bool",
    types.ByteType: "int8",
    types.ShortType: "int16",
    types.IntegerType: "int32",
    types.LongType: "int64",
    types.FloatType: "float32",
    types.DoubleType: "float64",
}


def check_known(frame: Any, name: str) -> None:
    """Refuse a name that is not that of one column."""
    count = frame.columns.count(name)
    if count == 1:
        return
    if count:
        raise DataError(f"Column {name!r}: the DataFrame has {count} of that name; rename them.")
    hint = did_you_mean(name, frame.columns)
    raise DataError(
        f"The DataFrame has no column {name!r}.{hint} It has {', '.join(frame.columns)}."
    )


def check_type(name: str, kind: Any, shaped: bool) -> None:
    """Refuse a column whose values cannot be fed."""
    if isinstance(kind, types.BinaryType):
        if not shaped:
            raise DataError(
                f"Column {name!r} is binary: expected the shape of its raw bytes, such as "
                f"shapes={{{name!r}: (28, 28, 1)}}. Encoded images must be decoded before."
            )
    elif dtype_of(kind) is None:
        raise DataError(
            f"Column {name!r} is {kind.simpleString()}: expected numbers, booleans, arrays of "
            "them, vectors, or raw bytes. Cast it, or index strings with a StringIndexer."
        )


def check_flat(name: str, kind: Any) -> None:
    """Refuse to fill up a column that does not hold arrays of numbers."""
    if not isinstance(kind, types.ArrayType) or type(kind.elementType) not in DTYPES:
        raise DataError(
            f"pad: expected a column of arrays of numbers, got {name!r}, which is "
            f"{kind.simpleString()}."
        )


def dtype_of(kind: Any) -> Any:
    """Return the dtype of what a column holds; None if it cannot be fed."""
    if is_vector(kind):
        return "float64"
    if isinstance(kind, types.BinaryType):
        return "uint8"
    while isinstance(kind, types.ArrayType):
        kind = kind.elementType
    return DTYPES.get(type(kind))


def depth_of(kind: Any) -> int:
    """Return how often a column's arrays are nested."""
    if isinstance(kind, types.ArrayType):
        return 1 + depth_of(kind.elementType)
    return int(is_vector(kind))


def is_vector(kind: Any) -> bool:
    """Tell whether a column holds vectors of Spark ML."""
    # Of pyspark.ml or of pyspark.mllib, which are not imported for nothing.
    return type(kind).__name__ == "VectorUDT"
