"""Blocks: records as columns, one array for each feed, in the data's own dtype."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..common.arrays import Array, as_strings, dtype_of, is_text, name_of
from ..errors import ShapeMismatch
from .sparse import SparseRows, join

Columns = tuple[Array, ...]
"""One array for each feed, all with the same first dimension."""

BLOCK_ROWS = 1000

NUMERIC = "biufc"
"""Kinds of numpy dtypes that can be fed."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Dtype of a column, its shape without the row dimension, and its name where it has one."""

    dtype: str
    shape: tuple[int, ...]
    name: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


def describe(columns: Columns) -> tuple[ColumnSpec, ...]:
    """Return the spec of each column."""
    return tuple(ColumnSpec(name_of(column.dtype), column.shape[1:]) for column in columns)


def is_castable(found: npt.DTypeLike, expected: npt.DTypeLike, casting: Any) -> bool:
    """Tell whether `found` may become `expected`; integers may always become floats."""
    source, target = dtype_of(found), dtype_of(expected)
    if "O" in (source.kind, target.kind):
        return source == target
    return np.can_cast(source, target, casting) or (source.kind in "iu" and target.kind == "f")


def stack_records(
    records: Iterable[Any],
    rows: int = BLOCK_ROWS,
    where: str = "",
    expected: tuple[ColumnSpec, ...] | None = None,
) -> Iterator[Columns]:
    """Turn records into blocks.

    Parameters
    ----------
    records : iterable of tuple
        ``(feature, label)`` or longer. A value is a numpy array or scalar, a Python number, a
        (nested) list of numbers, text, or anything with ``toArray``, such as Spark's vectors.
        Python floats become float32, Python integers int64; arrays keep their dtype.
    rows : int
        Rows in a block; the last one may have fewer.
    where : str
        Where the records come from, for error messages.
    expected : tuple of ColumnSpec, optional
        What every record must fit; the first record's own dtypes and shapes by default.

    Yields
    ------
    tuple of ndarray
        Freshly allocated; nothing for no records.

    Raises
    ------
    ShapeMismatch
        A record that is not a tuple of numbers or text, or differs from the first in arity or
        shape, or in a dtype that cannot be cast safely.
    """
    source = f"{where}: " if where else ""
    numbered = enumerate(records)
    while batch := list(itertools.islice(numbered, rows)):
        if expected is None:
            _check_record(*batch[0], None, source)
            arrays = [_as_array(v, batch[0][0], f, source) for f, v in enumerate(batch[0][1])]
            expected = tuple(ColumnSpec(name_of(array.dtype), array.shape) for array in arrays)
        block = tuple(
            np.empty((len(batch), *spec.shape), dtype_of(spec.dtype)) for spec in expected
        )
        for row, (index, record) in enumerate(batch):
            _check_record(index, record, len(expected), source)
            for field, (column, value) in enumerate(zip(block, record, strict=True)):
                if type(value) is not np.ndarray or is_text(value):
                    value = _as_array(value, index, field, source)
                if value.dtype != column.dtype or value.shape != column.shape[1:]:
                    _check_value(value, expected[field], index, field, source)
                # Without the index an object of no dimension would be an array in an array.
                column[row] = value[()]
        yield block


def _check_record(index: int, record: Any, arity: int | None, source: str) -> None:
    if not isinstance(record, tuple) or not record:
        raise ShapeMismatch(
            f"{source}record {index}: expected a tuple (feature, label) or longer, "
            f"got {_name(record)}. Map the records to tuples."
        )
    if arity is not None and len(record) != arity:
        raise ShapeMismatch(
            f"{source}record {index}: expected {arity} fields as in the first record, "
            f"got {len(record)}."
        )


def _as_array(value: Any, index: int, field: int, source: str) -> Array:
    try:
        array = np.asarray(value.toArray() if hasattr(value, "toArray") else value)
    except ValueError:
        _refuse_value(value, index, field, source)
    if is_text(array):
        try:
            # numpy's own dtype of bytes drops zeros at the end.
            return as_strings(array if value is array else np.array(value, object))
        except TypeError:
            _refuse_value(value, index, field, source)
    if array.dtype.kind not in NUMERIC:
        _refuse_value(value, index, field, source)
    # np.float64 is a float as well, but its dtype was the user's choice.
    plain = isinstance(value, (float, list, tuple)) and not isinstance(value, np.generic)
    return array.astype(np.float32) if plain and array.dtype == np.float64 else array


def _check_value(value: Array, spec: ColumnSpec, index: int, field: int, source: str) -> None:
    if value.dtype.kind not in NUMERIC + "O":
        _refuse_value(value, index, field, source)
    if value.shape != spec.shape or not is_castable(value.dtype, spec.dtype, "safe"):
        raise ShapeMismatch(
            f"{source}record {index}, field {field}: expected {spec} as in the first record, "
            f"got {name_of(value.dtype)} of shape {value.shape}. Give all records one shape and "
            "dtype."
        )


def _refuse_value(value: Any, index: int, field: int, source: str) -> NoReturn:
    raise ShapeMismatch(
        f"{source}record {index}, field {field}: expected numbers or text in a rectangular "
        f"array, got {_name(value)}."
    )


def _name(value: Any) -> str:
    kind = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
    size = f" of length {len(value)}" if isinstance(value, (tuple, list)) else ""
    return f"{type(value).__name__}{kind}{size}"


def concatenate(blocks: list[Columns]) -> Columns:
    """Join blocks into one, emptying the list as it goes.

    Each block's column is released once copied, so that the data is held once, plus what
    is left of one column.

    Parameters
    ----------
    blocks : list of tuple of ndarray
        Blocks of equal specs; empty afterwards.

    Returns
    -------
    tuple of ndarray
        The only block itself, without a copy; empty for no blocks.
    """
    if len(blocks) == 1:
        return blocks.pop()
    columns = [list(parts) for parts in zip(*blocks, strict=True)]
    blocks.clear()
    return tuple(_join(parts) for parts in columns)


def _join(parts: list[Any]) -> Any:
    if isinstance(parts[0], SparseRows):
        return join(parts)
    joined = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    end = len(joined)
    while parts:
        part = parts.pop()
        joined[end - len(part) : end] = part
        end -= len(part)
    return joined


def epoch_order(
    rows: int, seed: int, epoch: int, partition: int, shuffle: bool
) -> npt.NDArray[np.int64]:
    """Return the order in which a partition's rows are fed in one epoch.

    A pure function of its arguments, so that a retried task feeds the same batches.

    Parameters
    ----------
    rows : int
        Rows in the partition.
    seed, epoch, partition : int
        At least 0.
    shuffle : bool
        False for the rows' own order.

    Returns
    -------
    ndarray, shape (rows,), int64
    """
    if not shuffle:
        return np.arange(rows, dtype=np.int64)
    bits = np.random.PCG64(np.random.SeedSequence((seed, epoch, partition)))
    return np.random.Generator(bits).permutation(rows)


def in_content_order(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Yield all rows of blocks as one, in `content_order`; nothing for no blocks."""
    columns = concatenate(list(blocks))
    if columns:
        order = content_order(columns)
        yield tuple(column[order] for column in columns)


def content_order(columns: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Return an order that depends on what the rows are, not on the order in which they came.

    Parameters
    ----------
    columns : sequence of ndarray, shape (rows, ...)

    Returns
    -------
    ndarray, shape (rows,), int64
    """
    order = np.arange(len(columns[0]))
    for column in reversed(columns):
        size = math.prod(column.shape[1:])
        if not size:
            continue
        if isinstance(column, SparseRows):
            order = order[np.argsort(column[order].keys(), kind="stable")]
            continue
        if column.dtype.kind == "O":
            for values in reversed(column.reshape(len(order), size).T):
                order = order[np.argsort(values[order], kind="stable")]
            continue
        rows = np.ascontiguousarray(column[order]).reshape(len(order), size)
        # As bytes: any order will do as long as it is always the same.
        keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * size))).reshape(-1)
        order = order[np.argsort(keys, kind="stable")]
    return order
