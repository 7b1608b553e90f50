"""TFRecord files, checked and parsed by TensorFlow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from ..data.blocks import BLOCK_ROWS, Columns, ColumnSpec
from ..errors import DataError
from .datasets import column_of
from .eager import eagerly
from .runner import configure_threads

Parse = Callable[[Any], Any]


def columns_of_records(parse: Parse) -> tuple[ColumnSpec, ...]:
    """Return what a parsed record is made of.

    Raises
    ------
    DataError
        It is not made of numbers of a known shape.
    """
    with eagerly():
        spec = tf.data.Dataset.from_tensors(tf.constant(b"")).map(parse).element_spec
    return tuple(map(column_of, tf.nest.flatten(spec)))


def read_records(uri: str, content: bytes, parse: Parse, cores: int) -> Iterator[Columns]:
    """Yield a file's records as blocks.

    Parameters
    ----------
    uri : str
        For messages.
    content : bytes
        The whole file.
    parse : callable
    cores : int
        For TensorFlow, if this is the first that it is used for.

    Raises
    ------
    DataError
        The file is damaged, or a record cannot be parsed.
    """
    configure_threads(cores)
    with tempfile.TemporaryDirectory(prefix="tos-records-") as folder:
        # TensorFlow's reader checks the records' sums, but takes files only, and not those of
        # every file system that Spark can read.
        file = Path(folder, "records")
        file.write_bytes(content)
        with eagerly():
            options = tf.data.Options()
            options.deterministic = True
            records = tf.data.TFRecordDataset(str(file)).map(parse).batch(BLOCK_ROWS)
            found = iter(records.with_options(options).as_numpy_iterator())
        while (block := _next(found, uri)) is not None:
            yield tuple(tf.nest.flatten(block))


def _next(found: Iterator[Any], uri: str) -> Any:
    try:
        with eagerly():
            return next(found, None)
    except tf.errors.DataLossError as error:
        raise DataError(f"{uri} is damaged: {error.message} Write it again.") from None
    except tf.errors.InvalidArgumentError as error:
        raise DataError(f"{uri}: a record cannot be parsed: {error.message}") from None
