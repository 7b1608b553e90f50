"""Datasets that a function of the user's makes, and TFRecord files, as TensorFlow reads them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ..blocks.block import BLOCK_ROWS, NUMERIC, Columns, ColumnSpec
from ..blocks.naming import Field, flattened
from ..common import temporary
from ..errors import DataError
from ..runtime.eager import eagerly
from ..runtime.runner import configure_threads
from .dataset_end import require_end
from .described import DatasetContext, Make

Order = tuple[int, ...]
"""The place of each column among a record's tensors, as TensorFlow flattens them."""

Parse = Callable[[Any], Any]

Unparsed = Callable[[int, str], None]
"""Takes the number of a record that cannot be parsed, from 0, and why."""

Numbered = tuple[npt.NDArray[np.int64], Columns]
"""Records, and which of the file's they are."""


def columns_of(
    make: Make, context: DatasetContext, feeds: Sequence[Field]
) -> tuple[tuple[ColumnSpec, ...], Order]:
    """Return what a record of a function's datasets is made of, in the order of the feeds.

    Raises
    ------
    DataError
        What it returns is not a dataset, has no end, or yields no numbers of a known shape.
    ShapeMismatch
        A dictionary of the record has other keys than the feeds' names.
    """
    with eagerly():
        return columns_in(_make(make, context).element_spec, feeds)


def columns_in(spec: Any, feeds: Sequence[Field]) -> tuple[tuple[ColumnSpec, ...], Order]:
    """Return what records of a specification are made of; raises as `columns_of` does."""
    specs = tf.nest.flatten(spec)
    # TensorFlow sorts a dictionary's keys.
    places = tf.nest.pack_sequence_as(spec, list(range(len(specs))))
    parts = places if isinstance(places, tuple) else (places,)
    order = tuple(flattened(parts, feeds, tf.nest.flatten))
    return tuple(column_of(specs[place]) for place in order), order


def ordered(record: Any, order: Order) -> Columns:
    """Return a record's, or a batch's, tensors in the order of the columns."""
    found = tf.nest.flatten(record)
    return tuple(found[place] for place in order)


def column_of(spec: Any) -> ColumnSpec:
    """Return what a tensor of a record is as a column.

    Raises
    ------
    DataError
        It is not a tensor of numbers of a known shape.
    """
    known = isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined()
    if not known or np.dtype(spec.dtype.as_numpy_dtype).kind not in NUMERIC + "O":
        raise DataError(
            f"Expected records of tensors of numbers or text, of known shapes, got {spec}. Do "
            "not batch it, the session does that; decode, pad or set_shape what varies."
        )
    return ColumnSpec(spec.dtype.name, tuple(spec.shape))


def batches(
    make: Make,
    context: DatasetContext,
    columns: tuple[ColumnSpec, ...],
    order: Order,
    batch_size: int,
) -> Iterator[Columns]:
    """Yield the batches of a function's dataset; the last one may be smaller.

    Parameters
    ----------
    make : callable
    context : DatasetContext
    columns : tuple of ColumnSpec
        What it must yield.
    order : tuple of int
        Where each of them is among a record's tensors.
    batch_size : int

    Raises
    ------
    DataError
        It yields something else.
    """
    with eagerly():
        # What draws without a seed of its own draws the same when the task is tried again.
        seed = np.random.SeedSequence((context.seed, context.epoch, context.partition))
        tf.random.set_seed(int(seed.generate_state(1)[0]))
        dataset = _make(make, context)
        found = tuple(map(column_of, tf.nest.flatten(dataset.element_spec)))
        if len(found) == len(order):
            found = tuple(found[place] for place in order)
        if found != columns:
            raise DataError(
                f"Partition {context.partition}, epoch {context.epoch + 1}: expected a dataset of "
                f"{_text(columns)}, as in the driver; got {_text(found)}."
            )
        options = tf.data.Options()
        options.deterministic = True
        elements = iter(dataset.with_options(options).batch(batch_size).as_numpy_iterator())
    while True:
        with eagerly():
            element = next(elements, None)
        if element is None:
            return
        yield ordered(element, order)


def _text(columns: tuple[ColumnSpec, ...]) -> str:
    return ", ".join(map(str, columns))


def _make(make: Make, context: DatasetContext) -> Any:
    _require_argument(make)
    dataset = make(context)
    if not isinstance(dataset, tf.data.Dataset):
        raise DataError(
            f"Expected the function to return a tf.data.Dataset, got {type(dataset).__name__}."
        )
    require_end(dataset)
    return dataset


def _require_argument(make: Make) -> None:
    try:
        inspect.signature(make).bind(None)
    except TypeError:
        raise DataError(
            "Expected a function of one argument, which says for what partition the dataset is: "
            f"def data(ctx): ...; got {getattr(make, '__name__', make)}{inspect.signature(make)}."
        ) from None
    except ValueError:
        # Of what is not written in Python the arguments are unknown.
        return


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
