"""The types of columns: which can be fed, as what, and as Spark is to send them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions, types

from ...blocks.feeds import Feed
from ...cluster.remote.context import is_remote
from ...common.arrays import STRING
from ...common.checks import did_you_mean
from ...errors import DataError
from ..images import SPARKS

Shape = tuple[int, ...]

DTYPES = {
    types.BooleanType: "bool",
    types.ByteType: "int8",
    types.ShortType: "int16",
    types.IntegerType: "int32",
    types.LongType: "int64",
    types.FloatType: "float32",
    types.DoubleType: "float64",
}

TEXT = (types.StringType, types.CharType, types.VarcharType)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is fed, as numbers or text.

    Parameters
    ----------
    name : str
    value : pyspark.sql.Column
    kind : pyspark.sql.types.DataType
        Of `value`.
    """

    name: str
    value: Any
    kind: Any

    @property
    def is_text(self) -> bool:
        """Whether it holds text, or arrays of it."""
        return bool(dtype_of(self.kind) == STRING)


def found(frame: Any, given: Any) -> Column:
    """Return a column of a frame, its decimals and times as doubles.

    Parameters
    ----------
    frame : DataFrame
    given : str or pyspark.sql.Column
        A name as Spark resolves it, such as ``"a"``, ``"A"`` or ``"inner.a"``, or an expression. A
        struct of numbers is one array of them.

    Raises
    ------
    DataError
        There is no such column, or its values cannot be fed.
    """
    if isinstance(given, str):
        name, value = given, _named(frame, given)
    else:
        name, value = "", given
    fields = frame.select(value).schema.fields
    if len(fields) != 1:
        raise DataError(
            f"Expected one column, got {given}, which are {len(fields)}. Name each: "
            f"features=[{', '.join(repr(field.name) for field in fields[:3])}, ...]."
        )
    (field,) = fields
    name = name or field.name
    if is_sparks_image(field.dataType):
        return Column(name, value, field.dataType)
    if isinstance(field.dataType, types.StructType) and field.dataType.names:
        parts = [value.getField(part).alias(part) for part in field.dataType.names]
        columns = [found(frame, part) for part in parts]
        for column in columns:
            if depth_of(column.kind):
                raise DataError(
                    f"Column {name!r} is a struct in which {column.name!r} is not a single value. "
                    f"Name what is to be fed, such as {name + '.' + field.dataType.names[0]!r}."
                )
        return replace(stacked(columns), name=name)
    kind, value = _as_numbers(value, field.dataType)
    column = Column(name, value, kind)
    check_type(column)
    return column


def stacked(columns: Sequence[Column]) -> Column:
    """Return several columns of one number, or one string, each as one of arrays.

    Raises
    ------
    DataError
        One of them has neither, or some have numbers and others text.
    """
    are_text = [isinstance(column.kind, TEXT) for column in columns]
    for column, is_text in zip(columns, are_text, strict=True):
        if not is_text and type(column.kind) not in DTYPES:
            raise DataError(
                f"Column {column.name!r} is {column.kind.simpleString()}: expected a number, a "
                "boolean or a string, to be fed with others in one input. Join them in Spark, "
                "such as with a VectorAssembler."
            )
    if len(set(are_text)) > 1:
        text = next(column.name for column in columns if isinstance(column.kind, TEXT))
        raise DataError(
            f"Column {text!r} is a string: expected numbers, as the others that are to be fed with "
            "it in one input. Feed strings in a separate input."
        )
    kinds = {type(column.kind) for column in columns}
    one = columns[0].kind if len(kinds) == 1 else types.DoubleType()
    value = functions.array(*(column.value.cast(one) for column in columns))
    return Column(", ".join(column.name for column in columns), value, types.ArrayType(one))


def _named(frame: Any, name: str) -> Any:
    count = frame.columns.count(name)
    if count == 1:
        return frame[quoted(name)]
    if count:
        raise DataError(f"Column {name!r}: the DataFrame has {count} of that name; rename them.")
    try:
        value = functions.col(name)
        # Spark knows only now whether there is one: of another case, or inside of a struct.
        frame.select(value).schema  # noqa: B018
    except AnalysisException:
        hint = did_you_mean(name, frame.columns)
        raise DataError(
            f"The DataFrame has no column {name!r}.{hint} It has {', '.join(frame.columns)}."
        ) from None
    return value


def _as_numbers(value: Any, kind: Any) -> tuple[Any, Any]:
    """Return decimals, dates (seconds since 1970, in the session's time zone) as doubles."""
    if isinstance(kind, types.DateType | types.TimestampNTZType):
        kind, value = types.TimestampType(), value.cast("timestamp")
    if isinstance(kind, types.TimestampType | types.DecimalType):
        return types.DoubleType(), value.cast("double")
    if isinstance(kind, types.ArrayType) and isinstance(kind.elementType, types.DecimalType):
        return types.ArrayType(types.DoubleType()), value.cast("array<double>")
    return kind, value


def are_same(one: Any, other: Any) -> bool:
    """Tell whether two columns are the same expression."""
    if is_remote(one):
        return repr(one) == repr(other)
    return bool(one._jc.equals(other._jc))


def check_type(column: Column) -> None:
    """Refuse a column whose values cannot be fed."""
    name, kind = column.name, column.kind
    if dtype_of(kind) is None:
        raise DataError(
            f"Column {name!r} is {kind.simpleString()}: expected numbers, booleans, times, text, "
            f"arrays of them, vectors, images, or raw bytes. {_remedy(name, kind)}"
        )


def _remedy(name: str, kind: Any) -> str:
    if isinstance(kind, types.MapType):
        return f'Take values by their keys, such as F.element_at("{name}", "key").'
    return "Cast it, or select what is in it."


def check_flat(column: Column) -> None:
    """Refuse to fill up a column that does not hold arrays of numbers or text."""
    name, kind = column.name, column.kind
    if not isinstance(kind, types.ArrayType) or depth_of(kind) > 1 or dtype_of(kind) is None:
        raise DataError(
            f"pad: expected a column of arrays of numbers or text, got {name!r}, which is "
            f"{kind.simpleString()}."
        )


def dtype_of(kind: Any) -> Any:
    """Return the dtype of what a column holds; None if it cannot be fed."""
    if is_vector(kind):
        return "float64"
    if is_bytes(kind):
        return "uint8"
    while isinstance(kind, types.ArrayType):
        kind = kind.elementType
    return STRING if isinstance(kind, TEXT) else DTYPES.get(type(kind))


def depth_of(kind: Any) -> int:
    """Return how often a column's arrays are nested."""
    if isinstance(kind, types.ArrayType):
        return 1 + depth_of(kind.elementType)
    return int(is_vector(kind))


def is_vector(kind: Any) -> bool:
    """Tell whether a column holds vectors of Spark ML."""
    # Of pyspark.ml or of pyspark.mllib, which are not imported for nothing.
    return type(kind).__name__ == "VectorUDT"


def is_bytes(kind: Any) -> bool:
    """Tell whether a column holds bytes: raw ones, or of images."""
    return isinstance(kind, types.BinaryType) or is_sparks_image(kind)


def is_sparks_image(kind: Any) -> bool:
    """Tell whether a column holds images as ``spark.read.format("image")`` reads them."""
    return isinstance(kind, types.StructType) and set(kind.names) >= SPARKS


def expression(given: Column, feed: Feed | None) -> Any:
    """Return a column as Spark is to send it: a vector or an image in parts."""
    column, kind = given.value, given.kind
    if is_vector(kind):
        parts = _parts(column, feed is not None and feed.dtype == "float32")
        # Without the condition a null would have parts, too.
        return functions.when(column.isNotNull(), parts)
    if is_sparks_image(kind):
        return functions.when(column.isNotNull(), functions.struct(*map(column.getField, SPARKS)))
    return column


def _parts(vector: Any, single: bool) -> Any:
    """Return what a vector is made of; a dense one has values alone.

    An array of all its numbers takes a thousand times the memory if nearly all are zero.
    """
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
    columns = [(frame[quoted(name)], frame.schema[name].dataType) for name in frame.columns]
    whole = reduce(and_, (column.isNotNull() for column, _ in columns))
    sizes = (functions.array(*_sizes(column, kind)).cast("array<int>") for column, kind in columns)
    row = frame.where(whole).select(*sizes).first()
    return None if row is None else [tuple(max(0, n or 0) for n in lengths) for lengths in row]


def _sizes(column: Any, kind: Any) -> Iterator[Any]:
    if isinstance(kind, types.StructType) and not is_sparks_image(kind):
        yield functions.coalesce(column["size"], functions.size(column["values"]))
    while isinstance(kind, types.ArrayType):
        yield functions.size(column)
        column, kind = functions.get(column, functions.lit(0)), kind.elementType


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
