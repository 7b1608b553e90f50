"""What training needs of its data, whatever kind it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from tos_notebook.cluster.remote import refuse_remote
from tos_notebook.errors import DataError, ShapeMismatch

from ..blocks.block import Columns, ColumnSpec
from ..blocks.feeds import Feed, check_values
from ..blocks.naming import Field, flattened
from ..blocks.partitioners import AnyPartitioner
from ..blocks.skips import Skipped
from .arrays import ArraySource
from .described import Described, is_frame
from .rdd import RddSource, is_rdd
from .stream import StreamSource


@runtime_checkable
class DataSource(Protocol):
    """One layout of the training data: which rows each partition holds.

    Attributes
    ----------
    columns : tuple of ColumnSpec
        One for each feed, known from the arrays or the first record.
    partitions : int
        Number of partitions.
    samples : int or None
        Number of rows; None where only a pass over the data would tell.
    remedy : str
        What to do if a partition comes with other rows than before.
    """

    columns: tuple[ColumnSpec, ...]
    partitions: int
    samples: int | None
    remedy: str

    def repartition(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> DataSource:
        """Return a new layout of the same data.

        A pure function of the data's first layout and the arguments, so that lineage does not
        grow with the number of repartitions. Within a partition the rows keep the order of
        their source.

        Parameters
        ----------
        partitions : int
            Number of new partitions.
        partitioner : Partitioner or LabelPartitioner
            Assigns the rows of each of the *first* layout's partitions; or deals out all rows of
            the first layout, sorted by label. The label is the last column.
        epoch : int
            The epoch the layout is for.

        Raises
        ------
        ConfigError
            The partitioner is for another number of partitions, or names one out of range, or
            there are too few rows for it (for an RDD the latter two within the job).
        DataError
            It goes by labels and there are none (for an RDD: their values, within the job).
        """

    def dealt(self, partitions: int, seed: int) -> DataSource:
        """Return the same rows, dealt out at random, as another first layout.

        A pure function of this layout and the arguments. Data that deal themselves return
        themselves.

        Parameters
        ----------
        partitions : int
            Number of partitions of the new layout.
        seed : int
            Another seed gives another layout.
        """

    def persist(self) -> None:
        """Let Spark compute the rows once for all jobs, until every layout is closed.

        Rows that nobody computes are left as they are.
        """

    def tasks(self, sc: Any) -> Any:
        """Return an RDD of exactly `partitions` partitions.

        Partition p's iterator yields its blocks, or nothing where `rows` has them.

        Parameters
        ----------
        sc : SparkContext
        """

    def rows(self, partition: int) -> Columns | None:
        """Return a partition's rows if the driver holds them, else None."""

    def number(self, partition: int, row: int) -> int | None:
        """Return which row of the arrays a partition's row is; None if there is none."""

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out so far because it cannot be trained on."""

    def close(self) -> None:
        """Release what this layout persisted; harmless when repeated."""


def as_source(
    sc: Any, data: Any, partitions: int, feeds: Sequence[Feed] = (), use: str = ""
) -> DataSource:
    """Return what the user gave as training data as a source.

    Parameters
    ----------
    sc : SparkContext
        The context of the training.
    data : RDD, sequence of array_like, Described, callable, or DataSource
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
        Arrays of different lengths; records that are no tuples of numbers.
    """
    if isinstance(data, DataSource):
        return data
    if isinstance(data, Described):
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
    if isinstance(data, (tuple, list)) and data and all(map(_is_array, data)):
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


def named_arrays(data: Any, ports: Sequence[Field]) -> Any:
    """Return arrays in the order of the ports, if there are dictionaries of arrays among them.

    Parameters
    ----------
    data : object
        A dictionary, a tuple or list with some, such as ``({"left": x1, "right": x2}, y)``; all
        else is returned as it is.
    ports : sequence of Field

    Raises
    ------
    ShapeMismatch
        The keys are not the ports' names.
    """
    parts = (data,) if isinstance(data, Mapping) else data
    if not isinstance(parts, tuple | list) or not any(isinstance(p, Mapping) for p in parts):
        return data
    return tuple(flattened(parts, ports, lambda array: [array]))


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
    made = callable(data) and not isinstance(data, DataSource | Described)
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


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__")


def _text(data: Any) -> str:
    if not isinstance(data, (tuple, list)):
        return type(data).__name__
    return f"{type(data).__name__} of {sorted({type(item).__name__ for item in data})}"
