"""Predictions in Spark 4.0, whose functions take series of pandas and no arrays of Arrow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa


def over_series(
    task: Callable[[Iterable[Sequence[Any]]], Iterator[Any]],
    inputs: Sequence[Any],
    returned: Any,
) -> Any:
    """Return a function of Spark over columns.

    Parameters
    ----------
    task : callable
        Takes batches of Arrow arrays, one for each column, and yields an Arrow array for each.
    inputs : sequence of DataType
        Of the columns.
    returned : DataType
    """
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import to_arrow_type

    kinds = [to_arrow_type(kind) for kind in inputs]

    def predict(batches: Iterator[Any]) -> Iterator[Any]:
        together = ((batch,) if len(kinds) == 1 else batch for batch in batches)
        return map(as_series, task(map(as_arrays, together)))

    def as_arrays(batch: Sequence[Any]) -> list[Any]:
        return [as_array(column, kind) for column, kind in zip(batch, kinds, strict=True)]

    with warnings.catch_warnings():
        # Hints would name classes of pandas, which executors import when Spark needs them.
        warnings.simplefilter("ignore", UserWarning)
        return functions.pandas_udf(predict, returned, functions.PandasUDFType.SCALAR_ITER)


def as_array(column: Any, kind: Any) -> Any:
    """Return a series as an Arrow array; a struct comes as a DataFrame of pandas."""
    rows = column.to_dict("records") if hasattr(column, "columns") else column
    return pa.array(rows, kind, from_pandas=True)


def as_series(array: Any) -> Any:
    """Return an Arrow array as a series, or a struct array as a DataFrame of pandas."""
    if pa.types.is_struct(array.type):
        return pa.RecordBatch.from_struct_array(array).to_pandas()
    return array.to_pandas()
