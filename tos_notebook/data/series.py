"""Columns of pandas' as arrays of numbers or text, whatever their dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..blocks.block import NUMERIC
from ..common.arrays import Array, is_text
from ..errors import DataError
from .lists import as_array

REFUSED = ("period", "interval", "complex")
"""Dtypes, by how their names begin."""


def is_pandas(value: Any) -> bool:
    """Whether a value is a DataFrame, a Series or an Index of pandas."""
    # Compared by name: an import of pandas takes a while.
    return type(value).__module__.startswith("pandas.core.")


def is_pandas_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return is_pandas(value) and type(value).__name__ == "DataFrame"


def names_in(frame: Any) -> dict[str, Any]:
    """Return the columns of a DataFrame by their names as text.

    Raises
    ------
    DataError
        Two have the same.
    """
    names = {str(name): name for name in frame.columns}
    if len(names) < len(frame.columns):
        raise DataError("Expected columns of different names. Rename those that are the same.")
    return names


def values_of(series: Any, what: str) -> Array:
    """Return a column's values.

    Numbers keep their dtype. Categories are what they stand for; dates and times seconds since
    1970, durations seconds; objects text, numbers or arrays of one shape.

    Parameters
    ----------
    series : pandas.Series or pandas.Index
    what : str
        Begins messages, such as ``"Column 'age'"``.

    Raises
    ------
    DataError
        Values are missing, other than NaN among floats, or can be no numbers or text.
    ShapeMismatch
        Arrays that differ in shape.
    """
    dtype = series.dtype
    name, kind = str(dtype), getattr(dtype, "kind", "O")
    if name.startswith(REFUSED):
        raise DataError(
            f"{what}: expected numbers, times or text, got {name}. Convert it, such as with "
            "series.astype(str), or leave it out."
        )
    if name.startswith("Sparse"):
        return values_of(series.sparse.to_dense(), what)
    if kind != "f":
        _refuse_missing(series, what, name)
    if name == "category":
        known = values_of(series.cat.categories, what)
        values: Array = known[series.cat.codes.to_numpy()]
        return values
    if kind in "Mm":
        unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
        micros: Array = series.to_numpy(dtype=unit).astype(np.int64)
        return micros / 1e6
    if kind in NUMERIC:
        # Dtypes of extensions say which one of numpy's they are like.
        plain = getattr(dtype, "numpy_dtype", dtype)
        missing = {"na_value": np.nan} if plain is not dtype and kind == "f" else {}
        found: Array = series.to_numpy(dtype=plain, **missing)
        return found
    return as_array(series.tolist(), what)


def _refuse_missing(series: Any, what: str, name: str) -> None:
    missing = np.asarray(series.isna())
    if missing.any():
        raise DataError(
            f"{what}, {name}: expected a value in each row, got none in {int(missing.sum())} of "
            f"{len(missing)}, the first of which is row {int(missing.argmax())}. Fill them with "
            "series.fillna(...), or leave these rows out with frame.dropna()."
        )


def stacked(columns: Mapping[str, Array]) -> Array:
    """Return several columns of one value each as one array, a row of it for each of theirs.

    Parameters
    ----------
    columns : mapping of str to ndarray
        By name. An only one may hold arrays.

    Raises
    ------
    DataError
        One of several has arrays, or some have numbers and others text.
    """
    first = next(iter(columns.values()), None)
    if first is None:
        raise DataError("Expected at least one column, got a DataFrame without.")
    if len(columns) == 1 and first.ndim > 1:
        return first
    for name, column in columns.items():
        if column.ndim > 1:
            raise DataError(
                f"Column {name!r} has arrays of shape {column.shape[1:]}: expected single values, "
                "to be fed with others in one input. Feed it in a separate input."
            )
    text = [name for name, column in columns.items() if is_text(column)]
    if 0 < len(text) < len(columns):
        raise DataError(
            f"Column {text[0]!r} has text: expected numbers, as the others that are to be fed with "
            "it in one input. Feed text in a separate input, such as with features="
            f"{{'name': {text[0]!r}, ...}}."
        )
    return np.stack(list(columns.values()), axis=1)
