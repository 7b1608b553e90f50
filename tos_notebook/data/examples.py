"""Rows of a DataFrame as ``tf.train.Example``, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from ..errors import DataError
from ..runtime.import_guard import without_keras

with without_keras():
    import tensorflow as tf

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

FLOATS, INTEGERS, BYTES = "float_list", "int64_list", "bytes_list"
"""The lists that a feature may be, as TensorFlow names them."""

Record = tuple[bytearray, None]
"""As Spark's Hadoop formats take and give it."""

_LISTS = {
    **dict.fromkeys(("float", "double"), FLOATS),
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int", "bigint", "long"), INTEGERS),
    **dict.fromkeys(("binary", "string"), BYTES),
}
"""Spark's types of one value."""

_VECTOR = "vector"
"""What Spark calls the column of a vector of Spark ML."""


@dataclass(frozen=True)
class Column:
    """How one column becomes a feature.

    Parameters
    ----------
    name : str
    dtype : str
        Spark's, such as ``array<float>``.

    Raises
    ------
    DataError
        It cannot be one.
    """

    name: str
    dtype: str

    def __post_init__(self) -> None:
        if self._element not in _LISTS:
            raise DataError(
                f"Column {self.name!r}: expected numbers, booleans, strings, bytes, arrays of them "
                f"or vectors, got {self.dtype}. Cast it, or select other columns."
            )

    @property
    def _element(self) -> str:
        if self.dtype == _VECTOR:
            return "double"
        return self.dtype.removeprefix("array<").removesuffix(">")

    def feature(self, value: Any) -> Any:
        """Return a value as a ``tf.train.Feature``; a null as one that counts as missing.

        Raises
        ------
        DataError
            There is a null in an array.
        """
        if value is None:
            return tf.train.Feature()
        if self.dtype == _VECTOR:
            value = value.toArray().tolist()
        values = value if self.dtype != self._element else [value]
        if any(one is None for one in values):
            raise DataError(
                f"Column {self.name!r}: a list of TensorFlow's has no nulls, got one in {value!r}. "
                "Fill it, or drop the row."
            )
        kind = _LISTS[self._element]
        if kind == FLOATS:
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        if kind == INTEGERS:
            return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
        texts = [one.encode() if isinstance(one, str) else bytes(one) for one in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


@dataclass(frozen=True)
class Encoder:
    """Makes serialised examples of rows, inside a Spark task."""

    columns: tuple[Column, ...]

    def __call__(self, rows: Iterable[Any]) -> Iterator[Record]:
        """Yield an example for each row."""
        for row in rows:
            feature = {column.name: column.feature(row[column.name]) for column in self.columns}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            yield bytearray(example.SerializeToString()), None


def encoder(dtypes: Sequence[tuple[str, str]]) -> Encoder:
    """Return what makes examples of rows whose columns have these names and types of Spark's.

    Raises
    ------
    DataError
        A column cannot be a feature, or two have one name.
    """
    names = [name for name, _ in dtypes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Expected columns of different names, got {', '.join(twice)} twice.")
    return Encoder(tuple(Column(name, dtype) for name, dtype in dtypes))


def parsed(record: tuple[Any, Any]) -> Any:
    """Return the ``tf.train.Example`` in a record.

    Raises
    ------
    DataError
        It is none.
    """
    data = bytes(record[0])
    try:
        return tf.train.Example.FromString(data)
    except DecodeError as error:
        raise DataError(
            f"Expected records that are tf.train.Example, got one of {len(data)} bytes that is "
            f"not ({error}). Read them with tos_notebook.tfrecords and a function of yours."
        ) from None


@dataclass(frozen=True)
class Kind:
    """What is known of a feature.

    Parameters
    ----------
    list : str or None
        `FLOATS`, `INTEGERS` or `BYTES`; None where it was missing.
    many : bool
        Whether it had several values.
    """

    list: str | None
    many: bool

    def merged(self, other: Kind, name: str) -> Kind:
        """Return what is known with another record.

        Raises
        ------
        DataError
            Their lists are of different kinds.
        """
        if self.list and other.list and self.list != other.list:
            raise DataError(
                f"Feature {name!r}: expected one kind of list in all records, got {self.list} and "
                f"{other.list}."
            )
        return Kind(self.list or other.list, self.many or other.many)


def kinds_of(examples: Iterable[Any]) -> dict[str, Kind]:
    """Return what is known of the features of some ``tf.train.Example``, sorted by name.

    Raises
    ------
    DataError
        A feature has lists of different kinds.
    """
    kinds: dict[str, Kind] = {}
    for example in examples:
        for name, feature in example.features.feature.items():
            kind = feature.WhichOneof("kind")
            found = Kind(kind, kind is not None and len(getattr(feature, kind).value) > 1)
            kinds[name] = kinds[name].merged(found, name) if name in kinds else found
    return dict(sorted(kinds.items()))


def schema_of(kinds: Mapping[str, Kind], binary: Collection[str]) -> StructType:
    """Return the schema of a DataFrame for features.

    Parameters
    ----------
    kinds : mapping of str to Kind
    binary : collection of str
        Features of bytes that are not text.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(n, _type(k, n in binary), True) for n, k in kinds.items()])


def _type(kind: Kind, binary: bool) -> DataType:
    from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StringType

    text = BinaryType() if binary else StringType()
    one = {INTEGERS: LongType(), FLOATS: DoubleType()}.get(kind.list or BYTES, text)
    return ArrayType(one) if kind.many else one


def values_of(name: str, feature: Any, binary: Collection[str]) -> list[Any] | None:
    """Return a feature's values; None where it is missing.

    Raises
    ------
    DataError
        Bytes that are not named in `binary` are no text.
    """
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    values = list(getattr(feature, kind).value)
    if kind != BYTES:
        return values
    if name in binary:
        return [bytearray(value) for value in values]
    try:
        return [value.decode() for value in values]
    except UnicodeDecodeError:
        raise DataError(
            f"Feature {name!r}: expected text in UTF-8, got other bytes. Name it among the binary "
            f"ones: binary_features=[{name!r}]."
        ) from None


def single(values: list[Any] | None) -> Any:
    """Return several values as a list, one as itself, none as None."""
    return values if values and len(values) > 1 else next(iter(values or ()), None)


@dataclass(frozen=True)
class Decoder:
    """Makes rows of records, inside a Spark task, for a DataFrame whose columns are known.

    Parameters
    ----------
    kinds : mapping of str to Kind
        Of the first records; in the order of the columns.
    binary : frozenset of str
        Features of bytes that are not text.
    """

    kinds: Mapping[str, Kind]
    binary: frozenset[str]

    def __call__(self, records: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, ...]]:
        """Yield the values of a row for each record.

        Raises
        ------
        DataError
            A record is no example, or unlike the first ones.
        """
        for number, record in enumerate(records):
            features = parsed(record).features.feature
            for name in features:
                if name not in self.kinds:
                    raise _unlike(number, name, "no such feature", "one")
            yield tuple(self._value(number, name, features) for name in self.kinds)

    def _value(self, number: int, name: str, features: Any) -> Any:
        # To look up what is not there would add it.
        values = values_of(name, features[name], self.binary) if name in features else None
        if values is None:
            return None
        expected, found = self.kinds[name].list or BYTES, features[name].WhichOneof("kind")
        if found != expected:
            raise _unlike(number, name, f"a {expected}", f"a {found}")
        if self.kinds[name].many:
            return values
        if len(values) > 1:
            raise _unlike(number, name, "one value at most", f"{len(values)} values")
        return single(values)


def _unlike(number: int, name: str, expected: str, found: str) -> DataError:
    return DataError(
        f"Record {number} of its file, feature {name!r}: expected {expected}, as in the records "
        f"that the columns were found by, the first ones; got {found}. Read such files with "
        "tos_notebook.tfrecords and a function of yours."
    )
