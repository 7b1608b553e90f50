"""Make a source of whatever a user gives as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..blocks.block import NUMERIC
from ..blocks.feeds import Feed, check_values
from ..blocks.naming import Field, flattened
from ..blocks.source import DataSource
from ..cluster.connect import refuse_remote
from ..common.arrays import as_strings, is_text
from ..errors import DataError, ShapeMismatch
from .arrays import ArraySource, checked_arrays
from .described import DataDescription, is_frame
from .rdd import RddSource, is_rdd
from .stream import StreamSource


def as_source(
    sc: Any, data: Any, partitions: int, feeds: Sequence[Feed] = (), use: str = ""
) -> DataSource:
    """Return what the user gave as training data as a source.

    Parameters
    ----------
    sc : SparkContext
        The context of the training.
    data : RDD, sequence of array_like, DataDescription, callable, or DataSource
        An RDD of tuples keeps its partitions; a source is returned as it is; a callable makes each
        partition's `tf.data.Dataset`. Dictionaries of arrays go by the names of inputs and outputs.
    partitions : int
        Number of partitions for arrays and callables.
    feeds : sequence of Feed
        The program's.
    use : str
        What for, if not to train.

    Raises
    ------
    DataError
        Data of another kind, an RDD of another Spark context, or no rows; an array's label that is
        none of the classes, or an integer that does not fit.
    ConnectError
        Data of a Spark Connect session.
    ShapeMismatch
        Arrays of different lengths; records that are not tuples of numbers.
    """
    if isinstance(data, DataSource):
        return data
    if isinstance(data, DataDescription):
        return data.source(sc, feeds)
    if callable(data):
        return StreamSource(data, partitions, feeds)
    if is_frame(data):
        refuse_remote(data)
        raise DataError(
            f"Say which columns of the DataFrame to train on: tos.columns(df, features=[...], "
            f"label=...). It has {', '.join(data.columns)}."
        )
    if is_rdd(data):
        if data.context is not sc:
            raise DataError("The RDD belongs to another Spark context than the session's.")
        return RddSource(data, feeds)
    data = named_arrays(data, feeds)
    if isinstance(data, (tuple, list)) and data and all(hasattr(a, "__array__") for a in data):
        if any(is_text(np.asarray(a)) for a in data):
            return RddSource.of_arrays(sc, checked_arrays(data, NUMERIC + "O"), partitions)
        source = ArraySource(data, partitions)
        if len(source.columns) == len(feeds):
            check_values(source.arrays, feeds, "Row")
        return source
    wanted, function = "Expected training data", ", or a function that returns a tf.data.Dataset"
    if use:
        wanted, function = "Expected rows", ""
    raise DataError(
        f"{wanted} as columns of a DataFrame, tos.columns(df, ...), an RDD of (feature, label) "
        f"tuples, numpy arrays with one array for each feed, such as (x, y){function}; got "
        f"{_text(data)}."
    )


def has_labels(data: Any, feeds: Sequence[Feed]) -> bool:
    """Return whether records have more than inputs, as far as can be seen without a look at rows.

    Parameters
    ----------
    data : object
        As `as_source` takes it, or what it has returned, which knows better.
    feeds : sequence of Feed
        The program's.
    """
    if isinstance(data, DataDescription):
        return data.labelled
    inputs = sum(feed.part == "inputs" for feed in feeds)
    if isinstance(data, DataSource):
        return len(data.columns) > inputs
    parts = (data,) if isinstance(data, Mapping | np.ndarray) else data
    if not isinstance(parts, tuple | list):
        return True
    return sum(len(part) if isinstance(part, Mapping) else 1 for part in parts) > inputs


def named_arrays(data: Any, ports: Sequence[Field]) -> Any:
    """Return arrays in the order of the ports, text among them as `bytes`.

    Parameters
    ----------
    data : object
        One array for the only port, a dictionary, or a tuple or list with some, such as
        ``({"left": x1, "right": x2}, y)``; all else is returned as it is.
    ports : sequence of Field

    Raises
    ------
    ShapeMismatch
        The keys are not the ports' names.
    DataError
        An array of objects holds something else than text.
    """
    parts = (data,) if isinstance(data, Mapping | np.ndarray) else data
    if not isinstance(parts, tuple | list):
        return data
    if any(isinstance(part, Mapping) for part in parts):
        parts = tuple(flattened(parts, ports, lambda array: [array]))
    if not any(isinstance(part, np.ndarray) and is_text(part) for part in parts):
        return parts
    return tuple(_encoded(part) if isinstance(part, np.ndarray) else part for part in parts)


def _encoded(array: Any) -> Any:
    try:
        return as_strings(array) if is_text(array) else array
    except TypeError as error:
        raise DataError(f"Arrays: {error}, in an array of {array.dtype}.") from None


def as_rows(
    sc: Any, data: Any, partitions: int, feeds: Sequence[Feed] = (), *, use: str
) -> DataSource:
    """Return data that can be counted and looked at more than once, for other use than training.

    Parameters
    ----------
    sc, data, partitions, feeds
        Those of `as_source`.
    use : str
        What for; errors begin with it.

    Raises
    ------
    DataError
        It is a function that returns datasets; or as in `as_source`.
    ConnectError, ShapeMismatch
        As in `as_source`.
    """
    made = callable(data) and not isinstance(data, DataSource | DataDescription)
    try:
        source = None if made else as_source(sc, data, partitions, feeds, use)
    except (DataError, ShapeMismatch) as error:
        text = str(error)
        error.args = (f"{use}: {text[:1].lower()}{text[1:]}",)
        raise
    if source is None or isinstance(source, StreamSource):
        raise DataError(
            f"{use}: expected rows, got a function that returns datasets, which is for training "
            "only. Give arrays, an RDD or columns of a DataFrame."
        )
    return source


def _text(data: Any) -> str:
    if not isinstance(data, (tuple, list)):
        return type(data).__name__
    return f"{type(data).__name__} of {sorted({type(item).__name__ for item in data})}"
