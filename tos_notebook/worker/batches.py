"""A partition's rows, batch by batch: held in memory, or streamed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..blocks.block import Columns, concatenate, epoch_order
from ..blocks.feeds import Feed as Input
from ..blocks.feeds import checked
from ..blocks.sampling import Participants, Sampler
from ..blocks.sparse import SparseRows
from ..common.arrays import Array, Buffer, aligned_empty
from ..common.content import NO_DIGEST, Content, Hash
from ..data.room import require_room
from ..data.stream import Stream

VALUES, TEXT = 8, 200
"""Values of a field of which all are shown; characters of each field."""


class Feed(Protocol):
    """One epoch's rows, in its order.

    Attributes
    ----------
    content : Content or None
        The content that the server compares with that from before; None if there is none.
    digest : bytes
        The digest of a stream's rows, up to the end of those that were last asked for.
    """

    content: Content | None
    digest: bytes

    @property
    def rows(self) -> int:
        """Rows of the epoch, once it has ended; of a sample, the rows that it was drawn from."""

    def __call__(self, first: int, count: int) -> Columns:
        """Return the rows of some batches; asked for again, without more work.

        Parameters
        ----------
        first : int
            The first batch. None before it is asked for any more.
        count : int
            How many batches; there may be fewer left, or none.
        """

    def row(self, first: int, index: int) -> int:
        """Return which row of the partition a row of some batches is.

        Parameters
        ----------
        first : int
            The first of the batches.
        index : int
            The row among theirs, from 0.

        Returns
        -------
        int
            From 0.
        """


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """A partition's rows in memory.

    Parameters
    ----------
    columns : Columns
    partition : int
    content : Content
        What the rows are.
    feeds : sequence of Feed, optional
        The program's, for messages.
    """

    columns: Columns
    partition: int
    content: Content
    feeds: Sequence[Input] = ()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.columns[0]) if self.columns else 0


@dataclass(frozen=True)
class InMemoryBatches:
    """A partition's rows in memory, of which each epoch takes all, or none.

    Parameters
    ----------
    rows : PartitionRows
    seed : int
    shuffle : bool
        Whether the order of rows is random, by the seed.
    batch_size : int
    participants : Participants, optional
        Choose the epochs that take none; by default there are no such.
    """

    rows: PartitionRows
    seed: int
    shuffle: bool
    batch_size: int
    participants: Participants | None = None
    streamed = False
    _buffers: list[Buffer] = field(default_factory=list, init=False, repr=False)

    def feed(self, epoch: int, first: int) -> Feed:
        """Return an epoch's rows from batch `first` on."""
        chosen, partition = self.participants, self.rows.partition
        order = epoch_order(len(self.rows), self.seed, epoch, partition, self.shuffle)
        if chosen is not None and not chosen.train(epoch, partition):
            order = order[:0]
        return _InMemoryFeed(self.rows, order, self.batch_size, self._buffers)


class _InMemoryFeed:
    """Collects rows into aligned buffers that the next epoch's feed uses again.

    To ask how much memory is left, and to touch new pages, takes a small model longer than to
    train a batch.
    """

    digest = NO_DIGEST

    def __init__(
        self,
        rows: PartitionRows,
        order: npt.NDArray[np.int64],
        batch_size: int,
        buffers: list[Buffer],
    ) -> None:
        self.content: Content | None = rows.content
        self._source = rows
        self._order = order
        self._batch_size = batch_size
        buffers += [aligned_empty(0) for _ in rows.columns[len(buffers) :]]
        self._buffers = buffers
        self._collected: tuple[int, int] = (0, 0)
        self._rows: Columns = ()

    @property
    def rows(self) -> int:
        """See `Feed.rows`."""
        return len(self._source)

    def __call__(self, first: int, count: int) -> Columns:
        """See `Feed.__call__`."""
        start, stop = first * self._batch_size, (first + count) * self._batch_size
        if self._collected != (start, stop):
            index = self._order[start:stop]
            self._rows = tuple(self._take(i, c, index) for i, c in enumerate(self._source.columns))
            self._collected = (start, stop)
        return self._rows

    def row(self, first: int, index: int) -> int:
        """See `Feed.row`."""
        return int(self._order[first * self._batch_size + index])

    def _take(self, number: int, column: Array, index: npt.NDArray[np.int64]) -> Array:
        if column.dtype.kind == "O":
            return column[index]
        shape = (len(index), *column.shape[1:])
        nbytes = math.prod(shape) * column.dtype.itemsize
        if len(self._buffers[number]) < nbytes:
            self._require(number, len(index), nbytes)
            self._buffers[number] = aligned_empty(nbytes)
        target = self._buffers[number][:nbytes].view(column.dtype).reshape(shape)
        if isinstance(column, SparseRows):
            return column[index].dense(target)
        # "clip" skips numpy's own buffering of `out`; the indices are a permutation.
        return np.take(column, index, axis=0, out=target, mode="clip")

    def _require(self, number: int, rows: int, nbytes: int) -> None:
        feeds = self._source.feeds
        name = feeds[number].name if number < len(feeds) else str(number)
        batches = -(-rows // self._batch_size)
        require_room(
            nbytes,
            f"Feed {name!r}: the rows of one milestone ({batches} batches of {self._batch_size}) "
            "take",
            "Lower batch_size or sync_interval, or make the rows narrower.",
        )


@dataclass
class SampledBatches:
    """A partition's rows in memory, of which each epoch takes a sample, as one batch."""

    rows: PartitionRows
    sampler: Sampler
    streamed = False
    _all: Feed | None = field(default=None, init=False)
    _buffers: list[Buffer] = field(default_factory=list, init=False, repr=False)

    def feed(self, epoch: int, first: int) -> Feed:
        """Return an epoch's sample."""
        if self._all is not None:
            return self._all
        order = self.sampler.draw(len(self.rows), epoch, self.rows.partition)
        feed = _SampledFeed(self.rows, order, max(1, len(order)), self._buffers)
        self._all = feed if self.sampler.whole else None
        return feed


class _SampledFeed(_InMemoryFeed):
    """Has one batch, however many the program makes of it, and keeps it."""

    def __call__(self, first: int, count: int) -> Columns:
        """See `Feed.__call__`."""
        return super().__call__(0, 1) if first == 0 else ()


class StreamedBatches:
    """A partition's rows as its stream makes them, again in each epoch.

    Parameters
    ----------
    stream : Stream
    seed : int
    batch_size : int
    feeds : sequence of Feed, optional
        The program's. Rows that it cannot take raise a `DataError` when they are read.
    """

    streamed = True

    def __init__(
        self, stream: Stream, seed: int, batch_size: int, feeds: Sequence[Input] = ()
    ) -> None:
        self._stream = stream
        self._seed = seed
        self._batch_size = batch_size
        self._feeds = feeds

    def feed(self, epoch: int, first: int) -> Feed:
        """Return an epoch's rows from batch `first` on."""
        batches = self._stream.batches(epoch, self._seed, self._batch_size)
        where = f"Partition {self._stream.partition}, epoch {epoch + 1}, row"
        batches = checked(batches, self._feeds, where)
        return _StreamedFeed(batches, first, self._batch_size)


class _StreamedFeed:
    """Holds no more batches than are asked for at once; skips those that are trained."""

    def __init__(self, batches: Iterator[Columns], first: int, batch_size: int) -> None:
        self._batches = batches
        self._batch_size = batch_size
        self._first = first
        # With the digest of all rows up to the end of each.
        self._held: list[tuple[Columns, bytes]] = []
        self._hash = Hash()
        for _ in range(first):
            self._next()
        self.digest = NO_DIGEST
        self.content = self._hash.content if first else None

    @property
    def rows(self) -> int:
        """See `Feed.rows`."""
        return self._hash.content.rows

    def __call__(self, first: int, count: int) -> Columns:
        """See `Feed.__call__`."""
        del self._held[: first - self._first]
        self._first = first
        while len(self._held) < count and (batch := self._next()) is not None:
            self._held.append((batch, self._hash.digest))
        asked = self._held[:count]
        self.digest = asked[-1][1] if asked else NO_DIGEST
        return concatenate([batch for batch, _ in asked])

    def row(self, first: int, index: int) -> int:
        """See `Feed.row`."""
        return first * self._batch_size + index

    def _next(self) -> Columns | None:
        batch = next(self._batches, None)
        if batch is not None:
            self._hash.update(batch)
        return batch


Batches = InMemoryBatches | SampledBatches | StreamedBatches
"""A partition's rows, for all epochs."""


def record_text(columns: Columns, feeds: Sequence[Input], row: int) -> str:
    """Return the values of a row by the names of their feeds; of many only the first and last."""
    fields = zip(feeds, columns, strict=False)
    return ", ".join(f"{feed.name}={_short(column[row])}" for feed, column in fields)


def _short(value: Any) -> str:
    text = np.array2string(np.asarray(value), threshold=VALUES, edgeitems=3, separator=", ")
    return " ".join(text.split())[:TEXT]
