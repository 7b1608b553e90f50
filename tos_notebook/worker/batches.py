"""A partition's rows, batch by batch: held in memory, or streamed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..blocks.block import Columns, concatenate, epoch_order
from ..blocks.feeds import Feed as Input
from ..blocks.feeds import checked
from ..blocks.sampling import Sampler
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


class InMemoryBatches:
    """A partition's rows in memory.

    Parameters
    ----------
    columns : Columns
    seed, partition : int
    shuffle : bool
        Whether the order of rows is random, by the seed.
    batch_size : int
    content : Content
        What the rows are.
    feeds : sequence of Feed, optional
        The program's, for messages.
    """

    streamed = False

    def __init__(
        self,
        columns: Columns,
        seed: int,
        partition: int,
        shuffle: bool,
        batch_size: int,
        content: Content,
        feeds: Sequence[Input] = (),
    ) -> None:
        self._feeds = feeds
        self._columns = columns
        self._seed = seed
        self._partition = partition
        self._shuffle = shuffle
        self._batch_size = batch_size
        self._content = content

    def feed(self, epoch: int, first: int) -> Feed:
        """Return an epoch's rows from batch `first` on."""
        rows = len(self._columns[0]) if self._columns else 0
        order = epoch_order(rows, self._seed, epoch, self._partition, self._shuffle)
        return _InMemoryFeed(self._columns, order, self._batch_size, self._content, self._feeds)


class _InMemoryFeed:
    """Collects rows into aligned buffers that are used again."""

    digest = NO_DIGEST

    def __init__(
        self,
        columns: Columns,
        order: npt.NDArray[np.int64],
        batch_size: int,
        content: Content,
        feeds: Sequence[Input],
    ) -> None:
        self._feeds = feeds
        self.content: Content | None = content
        self._columns = columns
        self._order = order
        self._batch_size = batch_size
        self._buffers: list[Buffer] = [aligned_empty(0) for _ in columns]
        self._collected: tuple[int, int] = (0, 0)
        self._rows: Columns = ()

    @property
    def rows(self) -> int:
        """See `Feed.rows`."""
        return len(self._columns[0]) if self._columns else 0

    def __call__(self, first: int, count: int) -> Columns:
        """See `Feed.__call__`."""
        start, stop = first * self._batch_size, (first + count) * self._batch_size
        if self._collected != (start, stop):
            index = self._order[start:stop]
            self._rows = tuple(self._take(i, c, index) for i, c in enumerate(self._columns))
            self._collected = (start, stop)
        return self._rows

    def row(self, first: int, index: int) -> int:
        """See `Feed.row`."""
        return int(self._order[first * self._batch_size + index])

    def _take(self, number: int, column: Array, index: npt.NDArray[np.int64]) -> Array:
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
        name = self._feeds[number].name if number < len(self._feeds) else str(number)
        batches = -(-rows // self._batch_size)
        require_room(
            nbytes,
            f"Feed {name!r}: the rows of one milestone ({batches} batches of {self._batch_size}) "
            "take",
            "Lower batch_size or sync_interval, or make the rows narrower.",
        )


class SampledBatches:
    """A partition's rows in memory, of which each epoch takes a sample, as one batch.

    Parameters
    ----------
    columns : Columns
    sampler : Sampler
    partition : int
    content : Content
        What the rows are.
    feeds : sequence of Feed, optional
        The program's, for messages.
    """

    streamed = False

    def __init__(
        self,
        columns: Columns,
        sampler: Sampler,
        partition: int,
        content: Content,
        feeds: Sequence[Input] = (),
    ) -> None:
        self._feeds = feeds
        self._columns = columns
        self._sampler = sampler
        self._partition = partition
        self._content = content
        self._all: Feed | None = None

    def feed(self, epoch: int, first: int) -> Feed:
        """Return an epoch's sample."""
        if self._all is not None:
            return self._all
        rows = len(self._columns[0]) if self._columns else 0
        order = self._sampler.draw(rows, epoch, self._partition)
        size = max(1, len(order))
        feed = _SampledFeed(self._columns, order, size, self._content, self._feeds)
        self._all = feed if self._sampler.whole else None
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
