"""Python's lists as arrays of numbers or text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ..blocks.block import NUMERIC
from ..common.arrays import Array, as_strings
from ..errors import DataError, ShapeMismatch

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""From which times are counted, as those of a DataFrame are."""


def as_array(values: Sequence[Any], what: str) -> Array:
    """Return a list of rows, each a number, a text, or a list of them, as an array.

    Decimals become doubles, dates and times seconds since 1970.

    Parameters
    ----------
    values : list or tuple
    what : str
        Begins messages, such as ``"Column 'age'"``.

    Raises
    ------
    ShapeMismatch
        Lists that differ in length.
    DataError
        A value is missing, or neither a number nor text.
    """
    try:
        array = np.array(values)
    except ValueError:
        raise ShapeMismatch(f"{what}: {_ragged(values)}") from None
    if array.dtype.kind in NUMERIC:
        return array
    if array.dtype.kind == "M":
        _refuse_missing(array, np.isnat(array), what)
        return array.astype("datetime64[us]").astype(np.int64) / 1e6
    # Numpy makes text of numbers that stand beside text.
    objects = np.array(values, object)
    if _all_are(objects, Decimal | datetime.date):
        # Only what is missing, such as NaT of pandas', differs from itself.
        _refuse_missing(objects, objects != objects, what)
        numbers = [_number(value) for value in objects.reshape(-1).tolist()]
        return np.array(numbers, np.float64).reshape(objects.shape)
    try:
        return as_strings(objects)
    except TypeError:
        raise DataError(f"{what}: {_misfit(objects)}") from None


def _all_are(objects: Array, kinds: Any) -> bool:
    return bool(objects.size) and all(isinstance(one, kinds) for one in objects.reshape(-1))


def _refuse_missing(values: Array, missing: Array, what: str) -> None:
    if missing.any():
        row = int(np.argwhere(missing)[0, 0])
        raise DataError(
            f"{what}: expected a value in each row, got {values.reshape(-1)[missing.argmax()]} in "
            f"row {row}. Fill such values, or leave those rows out."
        )


def _number(value: Any) -> float:
    if isinstance(value, datetime.date):
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time(), datetime.UTC)
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return float((aware - EPOCH).total_seconds())
    return float(value)


def _misfit(objects: Array) -> str:
    """Return what is wrong with the first value that is not of the kind of most."""
    flat = objects.reshape(len(objects), -1)
    text = sum(isinstance(one, str | bytes) for one in flat[:, 0].tolist()) * 2 >= len(flat)
    kinds: Any = (str, bytes) if text else (bool, int, float, np.number, np.bool_)
    wanted = "text" if text else "numbers or text"
    for row, values in enumerate(flat.tolist()):
        for value in values:
            if not isinstance(value, kinds):
                given = "None" if value is None else f"{value!r:.40} ({type(value).__name__})"
                return (
                    f"expected {wanted} in each row, got {given} in row {row}. Fill such values, "
                    "convert them, or leave those rows out."
                )
    return f"expected {wanted}, got integers that do not fit into 64 bits. Use smaller numbers."


def _ragged(values: Sequence[Any]) -> str:
    """Return how the rows differ, and what to do."""
    shapes = [_shape(value) for value in values]
    row = next((n for n, shape in enumerate(shapes) if shape != shapes[0]), None)
    if row is None:
        found = "lists inside that differ in length"
    else:
        found = f"{_text(shapes[0])} in row 0 and {_text(shapes[row])} in row {row}"
    if isinstance(values[0], tuple):
        return (
            "expected the rows of one field, got tuples of several. Give a tuple of fields, each "
            "with all of its rows: (x, y), such as tuple(map(list, zip(*records)))."
        )
    return (
        f"expected rows of one shape, got {found}. Fill shorter lists up, such as with "
        "keras.utils.pad_sequences(rows, padding='post'). If these are not rows but several "
        "fields, give a tuple: (x, y)."
    )


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return tuple(np.shape(value))
    except ValueError:
        return None


def _text(shape: tuple[int, ...] | None) -> str:
    if shape is None:
        return "lists that differ in length"
    if not shape:
        return "a single value"
    return f"{shape[0]} values" if len(shape) == 1 else f"shape {shape}"
