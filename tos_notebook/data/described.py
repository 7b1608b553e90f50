"""Data that are neither arrays nor an RDD: what users say of them, and how they are recognised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..blocks.feeds import Feed
from ..blocks.naming import Field
from ..blocks.source import DataSource


class DataDescription(ABC):
    """Data that the user has described, such as with `tos_notebook.columns`."""

    @abstractmethod
    def source(self, sc: Any, feeds: Sequence[Feed]) -> DataSource:
        """Return them as a source for a program.

        Parameters
        ----------
        sc : SparkContext
        feeds : sequence of Feed
            The program's.
        """

    @property
    def labelled(self) -> bool:
        """Whether they have labels, as far as the description says."""
        return True

    def labelled_for(self, ports: Sequence[Field]) -> bool:
        """Return whether they have labels, for a program that is fed at these ports.

        Parameters
        ----------
        ports : sequence of Field
        """
        return self.labelled

    def unlooked(self) -> DataDescription:
        """Return the same, without a look at rows before the run if the program says enough.

        Such a look is a Spark job. Other runs may hold the slot that it needs.
        """
        return self


@dataclass(frozen=True, slots=True)
class DatasetContext:
    """Which part of the data a dataset is to have.

    Parameters
    ----------
    partition : int
        From 0.
    partitions : int
        How many there are.
    epoch : int
        From 0.
    seed : int
        The run's.
    """

    partition: int
    partitions: int
    epoch: int
    seed: int


Make = Callable[[DatasetContext], Any]
"""Returns a `tf.data.Dataset` of records."""


def is_frame(value: Any) -> bool:
    """Whether a value is a DataFrame of Spark, whatever its session, or of pandas-on-Spark."""
    # Compared by name: an import of pyspark.sql takes a while.
    where, name = type(value).__module__, type(value).__name__
    return where.startswith(("pyspark.sql.", "pyspark.pandas.")) and name == "DataFrame"


def as_frame(value: Any) -> Any:
    """Return a DataFrame of pandas-on-Spark as one of Spark, and any other value as it is."""
    # One of Spark Connect takes every attribute for a column.
    return value.to_spark() if type(value).__module__.startswith("pyspark.pandas.") else value
