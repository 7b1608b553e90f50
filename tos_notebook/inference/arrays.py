"""Arrays that are evaluated or predicted in this process, held against what a program takes."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..blocks.block import describe
from ..blocks.feeds import Feed, check_columns, check_values
from ..errors import ConfigError, DataError, ShapeMismatch


def check_rows(arrays: Sequence[Any], use: str) -> None:
    """Refuse arrays that have not as many rows each.

    Parameters
    ----------
    arrays : sequence of ndarray
    use : str
        What for; errors begin with it.

    Raises
    ------
    ShapeMismatch
    """
    single = any(array.ndim == 0 for array in arrays)
    if single or len({len(array) for array in arrays}) != 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        hint = " The number of rows at once is batch_size=..., by its name." * single
        raise ShapeMismatch(
            f"{use}: expected arrays with as many rows each, got shapes {shapes}.{hint}"
        )


def evaluable(data: Sequence[Any], feeds: Sequence[Feed]) -> tuple[Any, ...]:
    """Return what is evaluated as arrays, one for each feed.

    Raises
    ------
    DataError, ShapeMismatch
        They do not fit the feeds, or have no rows.
    """
    arrays = tuple(_array(part) for part in data)
    dense = [array for array in arrays if isinstance(array, np.ndarray)]
    if dense:
        check_rows(dense, "evaluate")
    check_columns(describe(arrays), feeds)
    if not len(arrays[0]):
        raise DataError("evaluate: expected at least one row, got none.")
    check_values(arrays, feeds)
    return arrays


def _array(part: Any) -> Any:
    # Rows that are held as sparse ones have a dtype, too.
    return part if isinstance(getattr(part, "dtype", None), np.dtype) else np.asarray(part)


def check_names(features: Any) -> None:
    """Refuse arrays in the place of the names of columns.

    Raises
    ------
    ConfigError
        Such as labels, which a prediction does not take.
    """
    values = features.values() if isinstance(features, Mapping) else features
    values = list(values) if isinstance(values, list | tuple) else [values]
    wrong = next((value for value in values if _is_data(value)), None)
    if wrong is not None:
        shape = np.shape(features)
        kind = f"an array of shape {shape}" if shape else repr(features)
        raise ConfigError(
            f"features: expected names of columns of a DataFrame, got {kind}. Leave labels out: "
            "predict(x). Give several inputs as one tuple: predict((x1, x2))."
        )


def _is_data(value: Any) -> bool:
    # A column of Spark says that it has whatever it is asked for.
    named = isinstance(value, str) or type(value).__module__.startswith("pyspark.")
    return not named and (hasattr(value, "__array__") or isinstance(value, numbers.Number | list))
