"""A node's queues: whole batches, an end for every wait, results for those whose rows they are."""

from __future__ import annotations

import queue
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tos_notebook.errors import ConfigError
from tos_notebook.nodes.feed import DataFeed
from tos_notebook.nodes.hub import MOST_BLOCKS, EndPartition, Hub, Source


def fed(hub: Hub, *parts: list[int], results: bool = False) -> list[Source]:
    """Feed a hub partitions; return their sources."""
    sources = []
    for rows in parts:
        source = Source()
        assert hub.queue("input").put_rows(rows, source, 1.0)
        if results:
            hub.queue("input").put(EndPartition())
        sources.append(source)
    return sources


@given(st.lists(st.lists(st.integers(), min_size=1, max_size=9), max_size=4), st.integers(1, 20))
def test_all_rows_come_once_and_in_order_whatever_the_batch(parts: list[list[int]], n: int) -> None:
    hub = Hub()
    sources = fed(hub, *parts)
    hub.close_feed()
    feed, found = DataFeed(hub), []
    while not feed.should_stop():
        batch = feed.next_batch(n)
        assert len(batch) == n or feed.should_stop()
        found += batch
    assert found == [row for rows in parts for row in rows]
    assert [source.left for source in sources] == [0] * len(parts)
    assert hub.rows_taken == len(found)


@given(
    st.lists(st.lists(st.integers(), min_size=1, max_size=9), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_each_partition_gets_the_results_of_its_own_rows(parts: list[list[int]], n: int) -> None:
    hub = Hub()
    sources = fed(hub, *parts, results=True)
    hub.close_feed()
    feed = DataFeed(hub, train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(n)
        assert any(set(batch) <= set(rows) for rows in parts)
        feed.batch_results([-row for row in batch])
    for source, rows in zip(sources, parts, strict=True):
        assert hub.wait(source, True, 0.0) == [-row for row in rows]


def test_more_results_than_rows_are_refused() -> None:
    hub = Hub()
    (source,) = fed(hub, [1, 2], results=True)
    feed = DataFeed(hub, train_mode=False)
    feed.next_batch(2)
    with pytest.raises(ConfigError, match=r"one result for each row .*got more: 3 for 2\."):
        feed.batch_results([1, 2, 3])
    # Otherwise its task would have all it waits for, and the error would come too late.
    assert hub.wait(source, True, 0.0) == []


def test_a_feed_for_training_gives_results_back_to_whoever_wants_some() -> None:
    hub, source = Hub(), Source(wants_results=True)
    hub.queue("input").put_rows([1, 2], source, 1.0)
    feed = DataFeed(hub)
    feed.batch_results([-row for row in feed.next_batch(2)])
    assert hub.wait(source, True, 0.0) == [-1, -2]


def test_a_batch_of_no_rows_is_refused_rather_than_asked_for_without_end() -> None:
    with pytest.raises(ConfigError, match="batch_size"):
        DataFeed(Hub()).next_batch(0)


def test_whoever_asks_again_after_the_end_of_the_feed_gets_nothing_and_does_not_wait() -> None:
    hub = Hub()
    fed(hub, [1, 2])
    hub.close_feed()
    feed = DataFeed(hub)
    assert [feed.next_batch(5) for _ in range(3)] == [[1, 2], [], []]
    assert feed.should_stop()
    assert DataFeed(hub).next_batch(5) == []


def test_columns_become_tensors_by_the_order_of_their_names() -> None:
    hub = Hub()
    queue_in = hub.queue("input")
    for row in ((1, "a"), (2, "b")):
        queue_in.put(row)
    queue_in.put(None)
    feed = DataFeed(hub, input_mapping={"b_label": "y", "a_image": "x"})
    assert feed.next_batch(5) == {"x": [1, 2], "y": ["a", "b"]}
    assert feed.should_stop()
    assert DataFeed(hub, input_mapping={"c": "z"}).input_tensors == ["z"]


def test_a_consumer_that_leaves_releases_whoever_waits_for_room() -> None:
    hub, said = Hub(), []
    for _ in range(MOST_BLOCKS):
        fed(hub, [1])
    waiting = threading.Thread(
        target=lambda: said.append(hub.queue("input").put_rows([2], Source(), 60.0))
    )
    waiting.start()
    DataFeed(hub).terminate()
    waiting.join(10)
    assert said == [False]
    assert DataFeed(hub).next_batch(3) == []


@pytest.mark.parametrize("failure", ["", "ValueError: mine"])
def test_a_function_that_ends_releases_whoever_waits_for_results(failure: str) -> None:
    hub, found = Hub(), []
    (source,) = fed(hub, [1, 2], results=True)
    waiting = threading.Thread(target=lambda: found.append(hub.wait(source, True, 60.0)))
    waiting.start()
    hub.end(failure)
    waiting.join(10)
    assert found == [[]]
    assert (hub.get("state"), hub.failure) == ("failed" if failure else "ended", failure)


def test_rows_of_a_task_that_was_lost_do_not_come_twice() -> None:
    hub = Hub()
    lost, other = fed(hub, [1, 2, 3], [4])
    feed = DataFeed(hub)
    assert feed.next_batch(1) == [1]
    hub.queue("input").forget(lost)
    hub.close_feed()
    assert feed.next_batch(9) == [4]
    assert (lost.left, other.left) == (0, 0)


def test_queues_by_hand_are_queues_as_any_other() -> None:
    hub = Hub(["input", "output"])
    own = hub.get_queue("output")
    assert own is not None
    assert own.empty()
    own.put("a")
    assert (own.qsize(), own.get()) == (1, "a")
    own.task_done()
    own.join()
    with pytest.raises(queue.Empty):
        own.get(block=False)
    assert hub.get_queue("none") is None
    with pytest.raises(ConfigError, match="'none'"):
        hub.queue("none")
    hub.set("epoch", 3)
    assert hub.get("epoch") == 3
