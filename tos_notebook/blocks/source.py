"""What training needs of its data, whatever kind it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from ..common.content import Content, content_of
from ..errors import ConfigError
from .block import Columns, ColumnSpec, concatenate
from .partitioners import AnyPartitioner
from .skips import Skipped

SPLIT = 0x5917
"""Makes the random numbers of a split others than those of an order by the same seed."""


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
    notes : tuple of str
        What users are told of them.
    """

    columns: tuple[ColumnSpec, ...]
    partitions: int
    samples: int | None
    remedy: str
    notes: tuple[str, ...] = ()

    @abstractmethod
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
            It goes by labels, which the data lack (for an RDD: their values, within the job).
        """

    @abstractmethod
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

    def split(self, share: float, seed: int) -> tuple[DataSource, DataSource]:
        """Return two parts of the rows: those that stay, and a share that is drawn at random.

        A pure function of this layout, which is the first, and the arguments. Each row is in one
        of the parts, and keeps its partition and its place among the others there.

        Parameters
        ----------
        share : float
            Above 0 and below 1, of the second part.
        seed : int
            Another seed draws other rows.

        Raises
        ------
        ConfigError
            There are no rows to draw from, or too few.
        """
        raise ConfigError(
            "validation_split: expected arrays, an RDD or columns of a DataFrame, got a function "
            "that returns datasets. Give validation_data=... instead."
        )

    def persist(self) -> None:
        """Let Spark compute the rows once for all jobs, until every layout is closed.

        Rows that need no computing are left as they are.
        """
        return

    @abstractmethod
    def tasks(self, sc: Any) -> Any:
        """Return an RDD of exactly `partitions` partitions.

        Partition p's iterator yields its blocks, or nothing where `rows` has them.

        Parameters
        ----------
        sc : SparkContext

        Returns
        -------
        RDD of tuple of ndarray
            A block has one array for each column.
        """

    def rows(self, partition: int) -> Columns | None:
        """Return a partition's rows if the driver holds them.

        Parameters
        ----------
        partition : int
            From 0.

        Returns
        -------
        tuple of ndarray, or None
            One for each column, shape (rows, ...); None if `tasks` yields them.
        """
        return None

    def contents(self, sc: Any, partitions: Sequence[int]) -> list[Content]:
        """Return what the rows of some partitions are; executors make those that `tasks` yields.

        Parameters
        ----------
        sc : SparkContext
        partitions : sequence of int
            At least one.
        """
        if self.rows(partitions[0]) is not None:
            return [content_of(self.rows(partition) or ()) for partition in partitions]
        found: list[Content] = sc.runJob(self.tasks(sc), _content, partitions)
        return found

    def number(self, partition: int, row: int) -> int | None:
        """Return which row of the user's arrays a partition's row is.

        Parameters
        ----------
        partition, row : int
            Both from 0.

        Returns
        -------
        int or None
            From 0; None if the data are not arrays.
        """
        return None

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What was left out so far because it cannot be trained on."""
        return ()

    def check_skipped(self) -> None:
        """Refuse that so many rows were left out; see `check_limit`."""
        return

    def close(self) -> None:
        """Release what this layout persisted; harmless when repeated."""
        return


def _content(blocks: Iterable[Columns]) -> Iterator[Content]:
    yield content_of(concatenate(list(blocks)))
