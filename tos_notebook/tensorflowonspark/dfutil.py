"""DataFrames as TFRecord files of ``tf.train.Example``, and back; needs no jar of TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..cluster.jobs import spoken
from ..data.tfrecord_files import read_records, write_records
from ..errors import DataError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructType

FIRST = 100
"""Records by which the columns are found."""

loadedDF: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Where each DataFrame of `loadTFRecords` came from."""


def isLoadedDF(df: Any) -> bool:
    """Tell whether a DataFrame is one that `loadTFRecords` has returned, and not one made of it.

    Parameters
    ----------
    df : DataFrame
    """
    return df in loadedDF


def saveAsTFRecords(df: DataFrame, output_dir: str) -> None:
    """Save a DataFrame as TFRecord files, one for each partition.

    Parameters
    ----------
    df : DataFrame
        Of numbers, booleans, strings, bytes, arrays of these, or vectors of Spark ML. What is
        double becomes float32. A null becomes a feature that TensorFlow takes for missing.
    output_dir : str
        On any Hadoop file system; there must be none of this name.

    Raises
    ------
    DataError
        A column is of another type, or an array has a null in it.
    ConfigError
        There is such a folder.
    """
    write_records(df.rdd.mapPartitions(toTFExample(df.dtypes)), output_dir)


def loadTFRecords(
    sc: SparkContext, input_dir: str, binary_features: Sequence[str] = ()
) -> DataFrame:
    """Return TFRecord files as a DataFrame: a partition for each file, in order.

    Parameters
    ----------
    sc : SparkContext
    input_dir : str
        A file, a folder or a glob on any Hadoop file system; gzipped files end with ``.gz``.
    binary_features : sequence of str
        Features of bytes that are not text.

    Returns
    -------
    DataFrame
        A column for each feature, sorted by name: bigint, double, string or binary, and an array
        of it where one of the first 100 records has several values. Rows are read when they are
        needed; a damaged record, or one that does not fit those, is an error then.

    Raises
    ------
    DataError
        There are no such files, or no records in them; or the first ones are not
        ``tf.train.Example``.
    """
    from pyspark.sql import SparkSession

    from ..data.examples import Decoder, kinds_of, parsed, schema_of

    records = read_records(sc, input_dir)
    with spoken():
        first = records.take(FIRST)
    if not first:
        raise DataError(
            f"Expected at least one record in {input_dir}, found none: the columns are found by "
            "the first ones."
        )
    kinds, binary = kinds_of(map(parsed, first)), frozenset(binary_features)
    rows = records.mapPartitions(Decoder(kinds, binary))
    schema = schema_of(kinds, binary)
    df = SparkSession.builder.getOrCreate().createDataFrame(rows, schema, verifySchema=False)
    loadedDF[df] = input_dir
    return df


def toTFExample(
    dtypes: Sequence[tuple[str, str]],
) -> Callable[[Iterable[Row]], Iterator[tuple[bytearray, None]]]:
    """Return a function for ``mapPartitions`` that makes serialised examples of rows.

    Parameters
    ----------
    dtypes : sequence of (str, str)
        A DataFrame's ``dtypes``.

    Returns
    -------
    callable
        Takes rows, and yields pairs of a ``tf.train.Example`` in bytes and None.

    Raises
    ------
    DataError
        A column's type cannot be a feature.
    """
    from ..data.examples import encoder

    return encoder(dtypes)


def fromTFExample(
    iter: Iterable[tuple[Any, Any]], binary_features: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield rows of serialised examples, for ``mapPartitions``.

    Parameters
    ----------
    iter : iterable of (bytes-like, object)
    binary_features : sequence of str
        Features of bytes that are not text.

    Yields
    ------
    Row
        A value for each feature, sorted by name: a list where there are several, None where there
        is none.

    Raises
    ------
    DataError
        A record is no ``tf.train.Example``, or has bytes that are no text.
    """
    from pyspark.sql import Row

    from ..data.examples import parsed, single, values_of

    for record in iter:
        features = sorted(parsed(record).features.feature.items())
        yield Row(**{name: single(values_of(name, f, binary_features)) for name, f in features})


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> StructType:
    """Return the schema of a DataFrame for one ``tf.train.Example``.

    Parameters
    ----------
    example : tf.train.Example
    binary_features : sequence of str
        Features of bytes that are not text.

    Returns
    -------
    StructType
        Columns sorted by name: bigint, double, string or binary, and an array of it for several
        values. A missing feature is a string.
    """
    from ..data.examples import kinds_of, schema_of

    return schema_of(kinds_of([example]), binary_features)
