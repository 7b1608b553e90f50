"""Make a source of whatever a user gives as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..blocks.feeds import Feed
from ..blocks.source import DataSource
from ..errors import DataError, ShapeMismatch
from .chosen import chosen
from .datasets import dataset_source, is_dataset, rows_of
from .described import DataDescription
from .held import held
from .parts import named_arrays, parts_of, width
from .rdd import RddSource, is_rdd
from .stream import StreamSource
from .tables import TableColumns


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
    ShapeMismatch
        Arrays of different lengths; records that are not tuples of numbers.
    """
    if isinstance(data, DataSource):
        return data
    data = chosen(data)
    if isinstance(data, DataDescription) and not isinstance(data, TableColumns):
        return data.source(sc, feeds)
    if is_dataset(data):
        return dataset_source(sc, data, partitions, feeds)
    if callable(data):
        return StreamSource(data, partitions, feeds)
    if is_rdd(data):
        if data.context is not sc:
            raise DataError(
                "The RDD belongs to another Spark context than the session's. With Spark Connect "
                "there are none: give a DataFrame."
            )
        return RddSource(data, feeds)
    return held(sc, as_arrays(data, feeds, use), partitions, feeds)


def as_arrays(data: Any, feeds: Sequence[Feed], use: str = "") -> Sequence[Any]:
    """Return rows that the driver holds as arrays, one for each feed; these stay what they are.

    Parameters
    ----------
    data, feeds, use
        As in `as_source`.

    Raises
    ------
    DataError, ShapeMismatch
        They are no such rows, or cannot be made arrays of.
    """
    data = chosen(data)
    made = data.arrays(feeds) if isinstance(data, TableColumns) else named_arrays(data, feeds)
    if isinstance(made, (tuple, list)) and made and all(hasattr(a, "__array__") for a in made):
        return made
    raise _refused(made, use)


def is_held(data: Any) -> bool:
    """Return whether data are rows that the driver holds, or no data at all."""
    data = chosen(data)
    if isinstance(data, TableColumns):
        return True
    others = isinstance(data, DataSource | DataDescription) or is_dataset(data) or is_rdd(data)
    return not others and not callable(data)


def _refused(data: Any, use: str) -> DataError:
    wanted, function = "Expected training data", ", or a function that returns a tf.data.Dataset"
    if use:
        wanted, function = "Expected rows", ""
    return DataError(
        f"{wanted} as a DataFrame with features=... and label=..., an RDD of (feature, label) "
        f"tuples, arrays or lists such as (x, y), a tf.data.Dataset{function}; got {_text(data)}."
    )


def require_rows(data: Any, use: str) -> None:
    """Refuse what holds no rows, before anything asks for Spark.

    Parameters
    ----------
    data : object
    use : str
        What for; errors begin with it.

    Raises
    ------
    DataError
    """
    if data is None or isinstance(data, str | bytes | int | float):
        with about(use):
            raise _refused(data, use)


def has_labels(data: Any, feeds: Sequence[Feed]) -> bool:
    """Return whether records have more than inputs, as far as can be seen without a look at rows.

    Parameters
    ----------
    data : object
        As `as_source` takes it, or what it has returned, which knows better.
    feeds : sequence of Feed
        The program's.
    """
    data = chosen(data)
    if isinstance(data, DataDescription):
        return data.labelled_for(feeds)
    inputs = sum(feed.part == "inputs" for feed in feeds)
    if isinstance(data, DataSource):
        return len(data.columns) > inputs
    if is_dataset(data):
        data = data.element_spec
    parts = parts_of(data)
    if not isinstance(parts, tuple | list):
        return True
    fields = 0
    for part in parts:
        fields += width(part, feeds[fields:])
    return fields > inputs


@contextmanager
def about(use: str) -> Iterator[None]:
    """Let errors about data begin with what these are for."""
    try:
        yield
    except (DataError, ShapeMismatch) as error:
        text = str(error)
        error.args = (f"{use}: {text[:1].lower()}{text[1:]}",)
        raise


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
    if is_dataset(data):
        data = rows_of(data, feeds)
    made = callable(data) and not isinstance(data, DataSource | DataDescription)
    with about(use):
        source = None if made else as_source(sc, data, partitions, feeds, use)
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
