"""Values that Spark holds in partitions, as an RDD does, in a DataFrame of Spark Connect."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Protocol

from .tasks import LANE, NOTE, VALUE, Call, Folded, counted, for_each, in_arrow


class Runs(Protocol):
    """Runs jobs over rows; see `RemoteContext`."""

    def run(self, frame: Any) -> Iterator[Any]:
        """Run a job; yield the values that it returns, in the order of the partitions.

        Parameters
        ----------
        frame : DataFrame
            Of packed values.
        """


class RemoteRows:
    """Has what this package uses of an RDD; lazy like one.

    Parameters
    ----------
    context : RemoteContext
    frame : DataFrame
        Its partitions are those of the values.
    calls : sequence of callable
        What is made of its rows.
    packed : bool
        Whether its rows are pickled values; else the first call takes Arrow batches.
    partitions : int, optional
        How many there are; by default Spark is asked.
    """

    is_cached = False

    def __init__(
        self,
        context: Runs,
        frame: Any,
        calls: Sequence[Call] = (),
        *,
        packed: bool = False,
        partitions: int | None = None,
    ) -> None:
        self.context = context
        self._frame, self._calls, self._packed = frame, tuple(calls), packed
        self._partitions = partitions
        self._stored = False
        self._origin: RemoteRows | None = None

    def mapPartitionsWithIndex(self, call: Call) -> RemoteRows:  # noqa: N802
        """See ``RDD.mapPartitionsWithIndex``."""
        calls = (*self._calls, call)
        partitions = self._partitions
        rows = self.context, self._frame, calls
        return RemoteRows(*rows, packed=self._packed, partitions=partitions)

    def mapPartitions(self, call: Callable[[Iterable[Any]], Iterable[Any]]) -> RemoteRows:  # noqa: N802
        """See ``RDD.mapPartitions``."""
        return self.mapPartitionsWithIndex(for_each(call))

    def map(self, call: Callable[[Any], Any]) -> RemoteRows:
        """See ``RDD.map``."""
        return self.mapPartitions(lambda values: map(call, values))

    def flatMap(self, call: Callable[[Any], Iterable[Any]]) -> RemoteRows:  # noqa: N802
        """See ``RDD.flatMap``."""
        return self.mapPartitions(lambda values: itertools.chain.from_iterable(map(call, values)))

    def getNumPartitions(self) -> int:  # noqa: N802
        """See ``RDD.getNumPartitions``; a job counts those of a user's DataFrame.

        From then on Spark keeps the values: another job could find another number of partitions,
        since Spark chooses it by the sizes that it meets.
        """
        if self._partitions is None:
            self.persist()
            self._partitions = sum(self._run((_one,)))
        return self._partitions

    def collect(self) -> list[Any]:
        """See ``RDD.collect``."""
        return list(self._run(self._calls))

    def count(self) -> int:
        """See ``RDD.count``."""
        return sum(self._run((*self._calls, counted)))

    def treeAggregate(  # noqa: N802
        self,
        nothing: Any,
        add: Callable[[Any, Any], Any],
        join: Callable[[Any, Any], Any],
        depth: int = 2,
    ) -> Any:
        """See ``RDD.treeAggregate``; the tree has one level, of which this process is the root."""
        return reduce(join, self._run((*self._calls, Folded(nothing, add))), nothing)

    def partitionBy(self, partitions: int, target: Callable[[Any], int]) -> RemoteRows:  # noqa: N802
        """See ``RDD.partitionBy``, for pairs whose first is the target.

        Spark keeps the result until `unpersist`: a later job would make the rows again.
        """
        lanes = lanes_to(partitions)
        frame = self._mapped(self._calls, lanes).repartition(partitions, LANE)
        made = RemoteRows(self.context, frame, packed=True, partitions=partitions)
        made._origin = self
        return made.persist()

    def persist(self, level: Any = None) -> RemoteRows:
        """See ``RDD.persist``."""
        from pyspark import StorageLevel

        if self._calls or not self._packed:
            self._frame, self._calls = self._mapped(self._calls), ()
            self._packed = True
        self._frame.persist(level or StorageLevel.MEMORY_AND_DISK)
        self._stored = True
        return self

    def unpersist(self, blocking: bool = False) -> RemoteRows:
        """See ``RDD.unpersist``."""
        if self._stored:
            self._stored = False
            self._frame.unpersist(blocking)
        if self._origin is not None:
            self._origin.unpersist(blocking)
        return self

    def _mapped(self, calls: Sequence[Call], lanes: Sequence[int] | None = None) -> Any:
        return self._frame.mapInArrow(in_arrow(calls, self._packed, lanes), schema())

    def _run(self, calls: Sequence[Call]) -> Iterator[Any]:
        """Yield what a job returns, in the order of the partitions."""
        return self.context.run(self._mapped(calls))


def _one(partition: int, values: Iterable[Any]) -> Iterator[int]:
    for _ in values:
        pass
    yield 1


def schema() -> Any:
    """Return the columns of pickled values."""
    from pyspark.sql.types import BinaryType, BooleanType, IntegerType, StructField, StructType

    kinds = {LANE: IntegerType(), NOTE: BooleanType(), VALUE: BinaryType()}
    return StructType([StructField(name, kind, False) for name, kind in kinds.items()])


def lanes_to(partitions: int) -> list[int]:
    """Return a number for each partition that Spark's hash partitioning sends there.

    Parameters
    ----------
    partitions : int
    """
    found: dict[int, int] = {}
    numbers = itertools.count()
    while len(found) < partitions:
        number = next(numbers)
        found.setdefault(_spark_hash(number) % partitions, number)
    return [found[partition] for partition in range(partitions)]


def _spark_hash(number: int) -> int:
    """Return Spark's hash of an integer: Murmur3, 32 bits, by Austin Appleby, with 42 for a seed.

    It is signed, so that Python's remainder of it is Spark's ``pmod``.
    """
    mask = 0xFFFFFFFF

    def turned(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    mixed = turned(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (turned(42 ^ mixed, 13) * 5 + 0xE6546B64) & mask ^ 4
    found = (found ^ found >> 16) * 0x85EBCA6B & mask
    found = (found ^ found >> 13) * 0xC2B2AE35 & mask
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found
