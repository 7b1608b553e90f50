"""TFRecord files, checked and parsed by TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..blocks.block import BLOCK_ROWS, Columns, ColumnSpec
from ..blocks.naming import Field
from ..common import temporary
from ..errors import DataError
from ..runtime.eager import eagerly
from ..runtime.runner import configure_threads
from .tf_datasets import columns_in, ordered

Parse = Callable[[Any], Any]

Unparsed = Callable[[int, str], None]
"""Takes the number of a record that cannot be parsed, from 0, and why."""

Numbered = tuple[npt.NDArray[np.int64], Columns]
"""Records, and which of the file's they are."""


def columns_of_records(
    parse: Parse, feeds: Sequence[Field]
) -> tuple[tuple[ColumnSpec, ...], Parse]:
    """Return what a parsed record is made of, and what parses it in that order.

    Raises
    ------
    DataError
        It is not made of numbers of a known shape.
    ShapeMismatch
        A dictionary that it returns has other keys than the feeds' names.
    """
    with eagerly():
        spec = tf.data.Dataset.from_tensors(tf.constant(b"")).map(parse).element_spec
        columns, order = columns_in(spec, feeds)
    return columns, lambda record: ordered(parse(record), order)


def read_records(
    uri: str, content: bytes, parse: Parse, cores: int, unparsed: Unparsed
) -> Iterator[Numbered]:
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
    unparsed : callable
        Called for each record that cannot be parsed; if it returns, the record is left out.

    Raises
    ------
    DataError
        The file is damaged.
    """
    configure_threads(cores)
    with temporary.directory("tos-records-") as folder:
        # TensorFlow's reader checks the records' sums, but takes files only, and not those of
        # every file system that Spark can read.
        file = Path(folder, "records")
        file.write_bytes(content)
        try:
            yield from _blocks(str(file), parse, unparsed)
        except tf.errors.DataLossError as error:
            raise DataError(f"{uri} is damaged: {error.message} Write it again.") from None


def _blocks(file: str, parse: Parse, unparsed: Unparsed) -> Iterator[Numbered]:
    first = 0
    found = _parsed(file, first, parse)
    while True:
        block, reason = _next(found)
        if reason:
            # One of this block cannot be parsed: TensorFlow does not say which.
            yield from _one_by_one(file, first, parse, unparsed)
            found = _parsed(file, first + BLOCK_ROWS, parse)
        elif block is None:
            return
        else:
            columns = tuple(tf.nest.flatten(block))
            yield np.arange(first, first + len(columns[0])), columns
        first += BLOCK_ROWS


def _parsed(file: str, first: int, parse: Parse) -> Iterator[Any]:
    """Return the blocks from a record on."""
    with eagerly():
        records = _records(file, first).map(parse).batch(BLOCK_ROWS)
        return iter(records.as_numpy_iterator())


def _one_by_one(file: str, first: int, parse: Parse, unparsed: Unparsed) -> Iterator[Numbered]:
    """Yield the records of one block that can be parsed."""
    numbers: list[int] = []
    rows: list[list[Any]] = []
    with eagerly():
        found = iter(_records(file, first).take(BLOCK_ROWS).map(parse).as_numpy_iterator())
    for number in itertools.count(first):
        row, reason = _next(found)
        if reason:
            unparsed(number, f"cannot be parsed: {reason}")
        elif row is None:
            break
        else:
            numbers.append(number)
            rows.append(tf.nest.flatten(row))
    if rows:
        yield np.array(numbers), tuple(map(np.stack, zip(*rows, strict=True)))


def _next(found: Iterator[Any]) -> tuple[Any, str]:
    """Return the next record, None at the end, and what is wrong with it."""
    try:
        with eagerly():
            return next(found, None), ""
    except tf.errors.InvalidArgumentError as error:
        # The iterator continues with the record after it.
        return None, str(error.message)


def _records(file: str, first: int) -> Any:
    options = tf.data.Options()
    options.deterministic = True
    return tf.data.TFRecordDataset(file).skip(first).with_options(options)
