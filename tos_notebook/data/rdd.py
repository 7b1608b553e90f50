"""A source over an RDD of records or of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ..blocks.block import (
    BLOCK_ROWS,
    Columns,
    ColumnSpec,
    describe,
    in_content_order,
    stack_records,
)
from ..blocks.feeds import Feed, checked
from ..blocks.labels import Counts, Deal, check_partitioner, count_labels, labels_of
from ..blocks.partitioners import (
    AnyPartitioner,
    LabelPartitioner,
    RandomPartitioner,
    checked_assignment,
)
from ..blocks.skips import SkipCounter, Skipped
from ..blocks.source import SPLIT, DataSource
from ..cluster.remote.rows import RemoteRows
from ..common.arrays import nbytes_of
from ..errors import DataError
from .described import DataDescription
from .room import gathered

if TYPE_CHECKING:
    from pyspark import RDD

DETERMINATE = "DETERMINATE"
"""What Spark calls rows that come in the same order whenever a partition is made."""

Assign = Callable[[Columns, int], npt.NDArray[np.integer[Any]]]
"""Returns the targets of a source partition's rows."""


def is_rdd(data: Any) -> bool:
    """Tell whether this is an RDD, of any kind."""
    # A Python that has Spark Connect alone has no such class.
    kinds = type(data).__mro__
    return any((k.__module__, k.__name__) == ("pyspark.core.rdd", "RDD") for k in kinds)


def is_ordered(rdd: RDD[Any]) -> bool:
    """Tell whether Spark makes a partition with its rows in the same order each time."""
    # A server of Spark Connect does not say.
    says = not isinstance(rdd, RemoteRows)
    return says and bool(rdd._jrdd.rdd().outputDeterministicLevel().toString() == DETERMINATE)


class RddSource(DataSource):
    """An RDD of records: tuples ``(feature, label)``, or longer ones for several inputs.

    The user's own layout is turned into blocks inside the training job. Where Spark may give a
    partition's rows in another order next time, such as after a shuffle, they are sorted by
    content. Rows that are `dealt` are stored in the files of Spark's shuffle, the base of all
    further layouts; else `persist` keeps the blocks (memory, then disk), as a repartition does.
    The last layout that closes removes those files, and each layout those of its own shuffle.

    Parameters
    ----------
    rdd : RDD of tuple
    feeds : sequence of Feed, optional
        The program's, one for each field. Rows that it cannot take raise a `DataError` where they
        are read.
    columns : tuple of ColumnSpec, optional
        The fields of a record; by default those of the first, for which a Spark job looks.

    Raises
    ------
    DataError
        The RDD is empty.
    ShapeMismatch
        Its first record is not a tuple of numbers.
    """

    remedy = (
        "Cache the data, or write them to files and read those; give a seed to what draws at "
        "random."
    )

    def __init__(
        self,
        rdd: RDD[Any],
        feeds: Sequence[Feed] = (),
        columns: tuple[ColumnSpec, ...] | None = None,
    ) -> None:
        _seen[rdd] = columns = columns or _look(rdd)
        # Others are refused before any job.
        feeds = feeds if len(feeds) == len(columns) else ()
        blocks = rdd.mapPartitionsWithIndex(_decoder(columns, is_ordered(rdd), feeds))
        self._start(_Base(blocks, columns, SkipCounter(), stored=rdd.is_cached))

    @property
    def nbytes(self) -> int | None:
        """What the rows take, as Spark estimates it; None where it does not know."""
        return self._base.nbytes

    @classmethod
    def from_decoded(
        cls,
        blocks: RDD[Columns],
        columns: tuple[ColumnSpec, ...],
        skips: SkipCounter,
        nbytes: int | None = None,
        stored: bool = False,
    ) -> RddSource:
        """Return a source over an RDD of blocks that are known to be of these columns.

        Parameters
        ----------
        blocks : RDD of tuple of ndarray
        columns : tuple of ColumnSpec
        skips : SkipCounter
            Where the maker of the blocks counts the rows that it leaves out.
        nbytes : int, optional
            What the rows take, as far as that is known.
        stored : bool
            Whether Spark has the rows in store, so that none is computed again.
        """
        return cls._over(_Base(blocks, columns, skips, nbytes, stored))

    @classmethod
    def of_arrays(cls, sc: Any, arrays: Columns, partitions: int) -> RddSource:
        """Return a source over arrays that Spark brings to the workers, such as those of text.

        Parameters
        ----------
        sc : SparkContext
        arrays : tuple of ndarray, shape (rows, ...)
        partitions : int
            Each has a contiguous part of the rows.
        """
        rows = len(arrays[0])
        bounds = [rows * index // partitions for index in range(partitions + 1)]
        parts = [
            [
                tuple(array[first : min(first + BLOCK_ROWS, end)] for array in arrays)
                for first in range(start, end, BLOCK_ROWS)
            ]
            for start, end in itertools.pairwise(bounds)
        ]
        blocks = sc.parallelize(parts, partitions).flatMap(lambda part: part)
        nbytes = sum(map(nbytes_of, arrays))
        source = cls.from_decoded(blocks, describe(arrays), SkipCounter(), nbytes, stored=True)
        source.samples = rows
        return source

    @classmethod
    def _over(cls, *start: Any) -> RddSource:
        source = cls.__new__(cls)
        source._start(*start)
        return source

    def _start(
        self,
        base: _Base,
        partitions: int | None = None,
        shuffle: Callable[[], _Shuffled] | None = None,
    ) -> None:
        self._base = base
        self._shuffle = shuffle
        self._shuffled: _Shuffled | None = None
        self._closed = False
        self.columns = base.columns
        self.partitions: int = partitions or base.blocks.getNumPartitions()
        self.samples: int | None = None
        base.users += 1

    def repartition(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> RddSource:
        """Return a new layout of the same records; see `DataSource.repartition`.

        Lazy: where the partitioner goes by labels, `tasks` counts them in a job of its own; the
        first job over what `tasks` returns shuffles.
        """
        check_partitioner(partitioner, partitions, self.columns)
        self._base.persist()
        shuffle = partial(self._base.shuffle, partitions, partitioner, epoch)
        return RddSource._over(self._base, partitions, shuffle)

    def dealt(self, partitions: int, seed: int) -> RddSource:
        """Return a random layout of the same records; see `DataSource.dealt`. Lazy."""
        base = self._base
        shuffled = base.shuffle(partitions, RandomPartitioner(partitions, seed), 0)
        known = base.columns, base.skips, base.nbytes
        return RddSource._over(_Base(shuffled.blocks, *known, stored=True, shuffled=shuffled))

    def split(self, share: float, seed: int) -> tuple[RddSource, RddSource]:
        """Return two parts of the rows: each row is drawn by itself, with a chance of `share`."""
        base = self._base
        known = base.columns, base.skips, base.nbytes, base.stored
        parts = [
            base.blocks.mapPartitionsWithIndex(_part(share, seed, drawn)) for drawn in (False, True)
        ]
        stay, go = (RddSource._over(_Base(blocks, *known)) for blocks in parts)
        return stay, go

    def persist(self) -> None:
        """See `DataSource.persist`: blocks are kept in memory, then on disk."""
        self._base.persist()

    def tasks(self, sc: Any) -> RDD[Columns]:
        """Return the RDD of this layout's blocks."""
        if self._shuffle is None:
            return self._base.blocks
        if self._shuffled is None:
            self._shuffled = self._shuffle()
        return self._shuffled.blocks

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """See `DataSource.skipped`."""
        return self._base.skips.found

    def check_skipped(self) -> None:
        """See `DataSource.check_skipped`."""
        self._base.skips.check()

    def close(self) -> None:
        """Remove what Spark has stored for this layout; the last one, what all of them share."""
        if not self._closed:
            self._closed = True
            if self._shuffled is not None:
                self._shuffled.remove()
            self._base.release()

    def __repr__(self) -> str:
        return f"RddSource([{', '.join(map(str, self.columns))}], {self.partitions} partitions)"


_seen: WeakKeyDictionary[RDD[Any], tuple[ColumnSpec, ...]] = WeakKeyDictionary()
"""The fields of RDDs that were looked at."""


def _look(rdd: RDD[Any]) -> tuple[ColumnSpec, ...]:
    first = rdd.take(1) if rdd.getNumPartitions() else []
    if not first:
        raise DataError("The RDD is empty: expected at least one record to train on.")
    return describe(next(stack_records(first)))


def unlooked(rdd: RDD[Any]) -> Any:
    """Return an RDD as data that need no further look, if an earlier run has looked at it.

    Such a look is a Spark job. Other runs may hold the slot that it needs.
    """
    return _SeenRows(rdd, _seen[rdd]) if rdd in _seen else rdd


@dataclass(frozen=True, eq=False)
class _SeenRows(DataDescription):
    rdd: RDD[Any]
    columns: tuple[ColumnSpec, ...]

    def source(self, sc: Any, feeds: Sequence[Feed]) -> RddSource:
        return RddSource(self.rdd, feeds, self.columns)


@dataclass(eq=False)
class _Base:
    """The records as blocks, in the first layout; shared by all layouts."""

    blocks: RDD[Columns]
    columns: tuple[ColumnSpec, ...]
    skips: SkipCounter
    nbytes: int | None = None
    stored: bool = False
    """Whether Spark has the rows in store, so that none is computed again."""
    shuffled: _Shuffled | None = None
    """What stores them, where that is a shuffle for these layouts alone."""
    users: int = 0
    _persisted: bool = False
    _counts: list[Counts] | None = None

    def persist(self) -> None:
        if not self._persisted and not self.stored:
            from pyspark import StorageLevel

            self.blocks.persist(StorageLevel.MEMORY_AND_DISK)
            self._persisted = True

    def shuffle(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> _Shuffled:
        assign = self._assigner(partitions, partitioner, epoch)
        names = [column.name or f"field {at}" for at, column in enumerate(self.columns)]
        split = self.blocks.mapPartitionsWithIndex(_splitter(partitions, assign, names))
        return _Shuffled(split.partitionBy(partitions, int))

    def _assigner(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> Assign:
        if isinstance(partitioner, LabelPartitioner):
            if self._counts is None:
                self._counts = self.blocks.mapPartitions(lambda b: [count_labels(b)]).collect()
            deal = Deal.by(partitioner, self._counts, partitions)
            return lambda columns, source: deal.assign(labels_of(columns), source)
        return lambda columns, source: checked_assignment(
            partitioner, len(columns[0]), epoch, source, partitions
        )

    def release(self) -> None:
        self.users -= 1
        if self.users:
            return
        if self._persisted:
            self.blocks.unpersist()
            self._persisted = False
        if self.shuffled is not None:
            self.shuffled.remove()


class _Shuffled:
    """Blocks that a shuffle of Spark has laid out, and its files."""

    def __init__(self, pieces: RDD[Any]) -> None:
        self._pieces = pieces
        self.blocks: RDD[Columns] = pieces.mapPartitions(_merge)

    def remove(self) -> None:
        """Let the executors delete the files; a job that reads them again writes them again.

        Spark itself deletes them only after the driver's JVM has collected its garbage, which may
        be never. `RDD.cleanShuffleDependencies` would also delete those of earlier shuffles: the
        user's, and the one under other layouts.
        """
        if isinstance(self._pieces, RemoteRows):
            self._pieces.unpersist()
            return
        rows = self._pieces._jrdd.rdd()
        cleaner = rows.sparkContext().cleaner()
        if cleaner.isDefined():
            shuffle = rows.dependencies().head().rdd().dependencies().head()
            cleaner.get().doCleanupShuffle(shuffle.shuffleId(), False)


def _decoder(
    columns: tuple[ColumnSpec, ...], ordered: bool, feeds: Sequence[Feed]
) -> Callable[..., Any]:
    def run(partition: int, records: Iterable[Any]) -> Iterator[Columns]:
        blocks = stack_records(records, expected=columns, where=f"partition {partition}")
        blocks = checked(blocks, feeds, f"Partition {partition}, row")
        return blocks if ordered else in_content_order(blocks)

    return run


def _part(share: float, seed: int, drawn: bool) -> Callable[..., Any]:
    def run(partition: int, blocks: Iterable[Columns]) -> Iterator[Columns]:
        # The rows come in the same order each time, so that the two parts draw the same numbers.
        random = np.random.default_rng([seed, SPLIT, partition])
        for columns in blocks:
            chosen = np.flatnonzero((random.random(len(columns[0])) < share) == drawn)
            if len(chosen):
                yield tuple(column[chosen] for column in columns)

    return run


PIECE_BYTES = 1 << 20
"""PySpark pickles up to 1,000 pieces for one target together, and no record may have 2 GiB."""

Piece = tuple[int, tuple[int, int, Columns]]
"""Target partition; source partition, number within it, rows."""


def _splitter(partitions: int, assign: Assign, names: Sequence[str]) -> Callable[..., Any]:
    def run(source: int, blocks: Iterable[Columns]) -> Iterator[Piece]:
        columns = gathered(blocks, names, f"Partition {source}")
        if not columns:
            return
        targets = assign(columns, source)
        order = np.argsort(targets, kind="stable")
        ends = np.cumsum(np.bincount(targets, minlength=partitions))
        number = itertools.count()
        nbytes = max(1, sum(map(nbytes_of, columns)))
        rows = max(1, min(BLOCK_ROWS, PIECE_BYTES * len(columns[0]) // nbytes))
        for target, (start, end) in enumerate(itertools.pairwise((0, *ends))):
            for begin in range(start, end, rows):
                index = order[begin : min(begin + rows, end)]
                yield target, (source, next(number), tuple(column[index] for column in columns))

    return run


def _merge(pieces: Iterable[Piece]) -> Iterator[Columns]:
    # A shuffle delivers in any order; a recomputed partition must be the same partition.
    arrived = [piece for _, piece in pieces]
    arrived.sort(key=itemgetter(0, 1), reverse=True)
    while arrived:
        yield arrived.pop()[2]
