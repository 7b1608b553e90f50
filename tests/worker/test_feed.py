from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from tos_notebook.data.blocks import Columns
from tos_notebook.data.stream import Stream
from tos_notebook.worker.feed import Feed, Held, Streamed

ROWS = np.arange(11)


@dataclass(frozen=True)
class Numbers(Stream):
    """Streams the same rows as `ROWS`, without TensorFlow."""

    def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
        for start in range(0, len(ROWS), batch_size):
            yield (ROWS[start : start + batch_size],)


@pytest.fixture(params=["held", "streamed"])
def rows(request: pytest.FixtureRequest) -> Held | Streamed:
    if request.param == "held":
        return Held((ROWS,), 0, 0, False, 3)
    return Streamed(Numbers(lambda _: None, 0, 1, ()), 0, 3)


def taken(feed: Feed, first: int, count: int) -> list[int]:
    return [int(n) for column in feed(first, count) for n in column]


def test_batches_come_in_order_until_none_is_left(rows: Held | Streamed) -> None:
    feed = rows.feed(0, 0)
    assert taken(feed, 0, 2) == [0, 1, 2, 3, 4, 5]
    assert taken(feed, 2, 2) == [6, 7, 8, 9, 10]
    assert taken(feed, 4, 2) == []
    assert feed.rows == 11


def test_the_same_batches_may_be_asked_for_again_in_another_number(
    rows: Held | Streamed,
) -> None:
    """As when the sync interval changes after the next rows were collected."""
    feed = rows.feed(0, 0)
    for count, expected in ((2, [0, 1, 2, 3, 4, 5]), (1, [0, 1, 2]), (3, list(range(9)))):
        assert taken(feed, 0, count) == expected
    assert taken(feed, 3, 9) == [9, 10]


def test_a_retry_begins_behind_what_was_committed_and_knows_all_rows(
    rows: Held | Streamed,
) -> None:
    feed = rows.feed(0, 3)
    assert taken(feed, 3, 5) == [9, 10]
    assert feed.rows == 11
    done = rows.feed(0, 4)
    assert taken(done, 4, 5) == []
    assert done.rows == 11
