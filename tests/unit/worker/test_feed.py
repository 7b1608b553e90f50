from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tos_notebook.archive.spec import FeedSpec
from tos_notebook.blocks.block import Columns
from tos_notebook.blocks.sampling import Sampler
from tos_notebook.common.content import NO_DIGEST, Hash, content_of
from tos_notebook.data.stream import Stream
from tos_notebook.errors import DataError
from tos_notebook.worker.batches import (
    Feed,
    InMemoryBatches,
    PartitionRows,
    SampledBatches,
    StreamedBatches,
)

ROWS = np.arange(11)


@dataclass(frozen=True)
class Numbers(Stream):
    """Streams the same rows as `ROWS`, without TensorFlow."""

    def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
        for start in range(0, len(ROWS), batch_size):
            yield (ROWS[start : start + batch_size],)


@pytest.fixture(params=["held", "streamed"])
def rows(request: pytest.FixtureRequest) -> InMemoryBatches | StreamedBatches:
    if request.param == "held":
        return InMemoryBatches(PartitionRows((ROWS,), 0, content_of((ROWS,))), 0, False, 3)
    return StreamedBatches(Numbers(lambda _: None, 0, 1, (), ()), 0, 3)


def taken(feed: Feed, first: int, count: int) -> list[int]:
    return [int(n) for column in feed(first, count) for n in column]


def test_batches_come_in_order_until_none_is_left(rows: InMemoryBatches | StreamedBatches) -> None:
    feed = rows.feed(0, 0)
    assert taken(feed, 0, 2) == [0, 1, 2, 3, 4, 5]
    assert taken(feed, 2, 2) == [6, 7, 8, 9, 10]
    assert taken(feed, 4, 2) == []
    assert feed.rows == 11


def test_the_same_batches_may_be_asked_for_again_in_another_number(
    rows: InMemoryBatches | StreamedBatches,
) -> None:
    """As when the sync interval changes after the next rows were collected."""
    feed = rows.feed(0, 0)
    for count, expected in ((2, [0, 1, 2, 3, 4, 5]), (1, [0, 1, 2]), (3, list(range(9)))):
        assert taken(feed, 0, count) == expected
    assert taken(feed, 3, 9) == [9, 10]


def test_a_retry_begins_behind_what_was_committed_and_knows_all_rows(
    rows: InMemoryBatches | StreamedBatches,
) -> None:
    feed = rows.feed(0, 3)
    assert taken(feed, 3, 5) == [9, 10]
    assert feed.rows == 11
    done = rows.feed(0, 4)
    assert taken(done, 4, 5) == []
    assert done.rows == 11


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_a_sample_comes_as_one_batch_and_is_of_all_rows(fraction: float) -> None:
    """However many batches the program makes of it, an attempt that comes later has none left."""
    sampler = Sampler(fraction)
    rows = SampledBatches(PartitionRows((ROWS,), 2, content_of((ROWS,))), sampler)
    for epoch in (0, 1):
        expected = sampler.draw(len(ROWS), epoch, 2).tolist()
        feed = rows.feed(epoch, 0)
        assert taken(feed, 0, 1) == expected
        assert taken(feed, 4, 1) == []
        assert taken(feed, 0, 1) == expected
        assert [feed.row(0, index) for index in range(len(expected))] == expected
        assert feed.rows == 11
        assert taken(rows.feed(epoch, 4), 4, 1) == []


def test_a_partition_without_rows_has_an_empty_sample() -> None:
    feed = SampledBatches(PartitionRows((), 0, content_of(())), Sampler()).feed(0, 0)
    assert taken(feed, 0, 1) == []
    assert feed.rows == 0


def test_a_stream_has_the_digest_of_all_rows_up_to_the_end_of_those_asked_for() -> None:
    feed = StreamedBatches(Numbers(lambda _: None, 0, 1, (), ()), 0, 3).feed(0, 1)
    assert feed.content == Hash((ROWS[:3],)).content
    feed(1, 3)
    assert feed.digest == Hash((ROWS[:3],), (ROWS[3:6],), (ROWS[6:9],), (ROWS[9:],)).digest
    feed(1, 1)
    assert feed.digest == Hash((ROWS[:3],), (ROWS[3:6],)).digest


def test_rows_in_memory_have_one_content_and_no_digest_of_each_push() -> None:
    content = content_of((ROWS,))
    feed = InMemoryBatches(PartitionRows((ROWS,), 0, content), 0, False, 3).feed(1, 2)
    feed(2, 1)
    assert (feed.content, feed.digest) == (content, NO_DIGEST)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (FeedSpec("y", None, (), classes=9), "from 0 to 8, got 9"),
        (FeedSpec("x", "int8", ()), "integers from -128 to 127 (int8), got 900"),
    ],
)
def test_a_streamed_row_that_the_program_cannot_take_is_named(spec: FeedSpec, message: str) -> None:
    @dataclass(frozen=True)
    class Given(Numbers):
        def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
            for (batch,) in super().batches(epoch, seed, batch_size):
                yield (batch if spec.classes else np.where(batch == 9, 900, batch),)

    feed = StreamedBatches(Given(lambda _: None, 2, 3, (), ()), 0, 3, [spec]).feed(1, 0)
    assert taken(feed, 0, 3) == list(range(9))
    with pytest.raises(DataError) as caught:
        feed(3, 1)
    assert f"Partition 2, epoch 2, row 9, feed {spec.name!r}: expected " in str(caught.value)
    assert message in str(caught.value)
