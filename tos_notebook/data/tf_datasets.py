"""Datasets of TensorFlow's, made by a function of the user's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..blocks.block import NUMERIC, Columns, ColumnSpec
from ..blocks.naming import Field, flattened
from ..errors import DataError
from ..runtime.eager import eagerly
from .described import DatasetContext, Make

Order = tuple[int, ...]
"""The place of each column among a record's tensors, as TensorFlow flattens them."""


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
    if not known or np.dtype(spec.dtype.as_numpy_dtype).kind not in NUMERIC:
        raise DataError(
            f"Expected a dataset of records, tensors of numbers of a known shape, got {spec}. Do "
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
    dataset = make(context)
    if not isinstance(dataset, tf.data.Dataset):
        raise DataError(
            f"Expected the function to return a tf.data.Dataset, got {type(dataset).__name__}."
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise DataError(
            "Expected a dataset with an end, which ends the epoch: leave repeat() out, or take(n)."
        )
    return dataset
