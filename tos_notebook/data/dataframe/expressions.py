"""Spark expressions of columns, and a query of the first row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import types

from ...blocks.feeds import Feed
from .kinds import is_vector

Shape = tuple[int, ...]


def expression(frame: Any, name: str, pad: int | None, feed: Feed | None) -> Any:
    """Return a column as Spark is to send it: a vector in parts, an array filled up."""
    from pyspark.sql import functions

    column, kind = _quoted(frame, name), frame.schema[name].dataType
    if is_vector(kind):
        parts = _parts(column, feed is not None and feed.dtype == "float32")
        # Without the condition a null would have parts, too.
        column = functions.when(column.isNotNull(), parts).alias(name)
    elif pad is None:
        return column
    else:
        zero = functions.lit(0).cast(kind.elementType)
        filled = functions.concat(
            column, functions.array_repeat(zero, functions.lit(pad) - functions.size(column))
        )
        column = functions.when(functions.size(column) < pad, filled).otherwise(column).alias(name)
    return column


def _parts(vector: Any, single: bool) -> Any:
    """Return what a vector is made of; a dense one has values alone.

    An array of all its numbers takes a thousand times the memory if nearly all are zero.
    """
    from pyspark.sql import functions

    parts = functions.unwrap_udt(vector)
    values = parts["values"].cast("array<float>") if single else parts["values"]
    return functions.struct(
        parts["size"].alias("size"), parts["indices"].alias("indices"), values.alias("values")
    )


def first_lengths(frame: Any) -> list[Shape] | None:
    """Return, for the first row without a null, the lengths of each column's arrays.

    The query never leaves Java. Spark takes the first row of few partitions, but all of their
    Arrow batches.
    """
    from pyspark.sql import functions

    columns = [(_quoted(frame, name), frame.schema[name].dataType) for name in frame.columns]
    whole = reduce(and_, (column.isNotNull() for column, _ in columns))
    sizes = (functions.array(*_sizes(column, kind)).cast("array<int>") for column, kind in columns)
    row = frame.where(whole).select(*sizes).first()
    return None if row is None else [tuple(max(0, n or 0) for n in lengths) for lengths in row]


def _sizes(column: Any, kind: Any) -> Iterator[Any]:
    from pyspark.sql import functions

    if isinstance(kind, types.StructType):
        yield functions.coalesce(column["size"], functions.size(column["values"]))
    while isinstance(kind, types.ArrayType):
        yield functions.size(column)
        column, kind = functions.get(column, functions.lit(0)), kind.elementType


def _quoted(frame: Any, name: str) -> Any:
    return frame["`" + name.replace("`", "``") + "`"]
