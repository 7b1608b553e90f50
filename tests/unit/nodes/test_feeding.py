"""Tasks feed a node: whatever its function does, each wait has an end, and an error says why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import pytest

from tests.unit.worker.support import until
from tos_notebook.errors import ClusterUnreachable, ConfigError, DataError, TosError, WaitTimeout
from tos_notebook.nodes import feeding, tasks
from tos_notebook.nodes import inbox as inboxes
from tos_notebook.nodes.blocks import MOST_ROWS, blocks_of
from tos_notebook.nodes.feed import DataFeed
from tos_notebook.nodes.feeds import MOST_STAGES, Feed, Feeds
from tos_notebook.nodes.hub import MOST_BLOCKS, Hub
from tos_notebook.nodes.inbox import Inbox
from tos_notebook.nodes.roster import Roster
from tos_notebook.nodes.server import NodeServer
from tos_notebook.nodes.talk import TalkServer
from tos_notebook.nodes.tasks import FeedRows


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks look again soon."""
    for module in (inboxes, feeding, tasks):
        monkeypatch.setattr(module, "TURN", 0.02)


class Rig:
    """A driver's server, and a node's queues behind its inbox."""

    def __init__(self) -> None:
        self.hub, self.roster = Hub(), Roster(1)
        self.driver = NodeServer(self.roster)
        self.inbox = Inbox(self.hub)
        self.node = TalkServer(self.driver.address.secret, self.inbox.serve)
        own = {"executor_id": 0, "job_name": "worker", "task_index": 0, "host": "127.0.0.1"}
        self.roster.add({**own, "port": 1, "inbox": list(self.node.address), "fingerprint": ""})
        self.feeding = self.roster.begin_feed()

    def feed(
        self,
        rows: Any,
        results: bool = False,
        timeout: float = 60.0,
        partition: int = 0,
        feed: Feed | None = None,
    ) -> list[Any]:
        """Feed rows as a task does; return the results."""
        name = "" if results else (feed or self.feeding).name
        task = FeedRows(self.driver.address, "input", results, timeout, name)
        return list(task(iter(rows), partition))

    @property
    def error(self) -> TosError | None:
        """What the driver was told that has failed."""
        return self.feeding.error

    @contextmanager
    def taking(self) -> Iterator[list[Any]]:
        """Let the node's function take all rows meanwhile."""
        feed, found = DataFeed(self.hub), list[Any]()

        def consume() -> None:
            while not feed.should_stop():
                found.extend(feed.next_batch(64))

        consumer = in_background(consume)
        yield found
        self.hub.close_feed()
        consumer.join(10)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.node.close()
    rig.driver.close()


def in_background(call: Callable[[], object]) -> threading.Thread:
    """Make a call on another thread."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_function_that_reads_nothing_ends_the_feed_also_while_rows_are_sent(rig: Rig) -> None:
    rows = range(MOST_ROWS * (MOST_BLOCKS + 4))
    assert rig.feed(rows, timeout=0.2) == []
    assert isinstance(rig.error, WaitTimeout)
    assert "worker:0 has taken no row for 0.2 s: its queue is full" in str(rig.error)


def test_a_function_that_reads_slowly_but_steadily_is_waited_for(rig: Rig) -> None:
    count = MOST_ROWS * (MOST_BLOCKS + 2)
    feed, taken = DataFeed(rig.hub), []

    def consume() -> None:
        pause = threading.Event()
        while len(taken) < count:
            taken.extend(feed.next_batch(4096))
            pause.wait(0.05)

    consumer = in_background(consume)
    rig.feed(range(count), timeout=0.4)
    consumer.join(10)
    assert (rig.error, taken) == (None, list(range(count)))


def test_a_partition_whose_turn_never_comes_ends_with_an_error(rig: Rig) -> None:
    with rig.inbox._turns, pytest.raises(WaitTimeout, match="has taken no row"):
        rig.feed([1], results=True, timeout=0.2)


def test_results_that_cannot_be_sent_are_named(rig: Rig) -> None:
    def consume() -> None:
        feed = DataFeed(rig.hub, train_mode=False)
        feed.batch_results([object() for _ in feed.next_batch(2)])

    in_background(consume)
    with pytest.raises(DataError, match=r"result of node worker:0: .*got builtins\.object"):
        rig.feed([1, 2], results=True)


def test_fewer_results_than_rows_are_an_error_once_the_function_waits_for_more_rows(
    rig: Rig,
) -> None:
    def consume() -> None:
        feed = DataFeed(rig.hub, train_mode=False)
        while not feed.should_stop():
            feed.batch_results(feed.next_batch(2)[1:])

    consumer = in_background(consume)
    with pytest.raises(ConfigError, match="node worker:0 has returned 1 results for 3 rows"):
        rig.feed([1, 2, 3], results=True, timeout=3600)
    rig.hub.close_feed()
    consumer.join(10)


def test_a_thread_that_reads_ahead_waits_for_rows_while_another_one_has_results_to_give(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "SILENCE", 0.1)
    feed, batches = DataFeed(rig.hub, train_mode=False), SimpleQueue[list[int]]()

    def read() -> None:
        while not feed.should_stop():
            batches.put(feed.next_batch(1))

    def give() -> None:
        for number in range(3):
            if number:
                # The reader waits for rows meanwhile, and the driver says what is waited for.
                until(lambda: len(rig.roster.notes) == 1, 10.0)
            feed.batch_results([-row for row in batches.get()])

    both = [in_background(read), in_background(give)]
    assert rig.feed([1, 2, 3], results=True, timeout=3600) == [-1, -2, -3]
    rig.hub.close_feed()
    for thread in both:
        thread.join(10)
    assert list(rig.roster.notes) == [
        "Node worker:0 has returned 1 results for 3 rows, and none for 0.1 s. Its task "
        "gives up after 3600 s."
    ]


def test_results_that_a_function_leaves_behind_are_fetched(rig: Rig) -> None:
    def consume() -> None:
        feed = DataFeed(rig.hub, train_mode=False)
        feed.batch_results([-row for row in feed.next_batch(2)])
        rig.hub.end()
        rig.node.close(linger=10.0)

    consumer = in_background(consume)
    assert rig.feed([1, 2], results=True) == [-1, -2]
    consumer.join(10)
    assert not rig.inbox.owes_results


class Lost(Exception):
    """What ends a task, as the end of its process does."""


def broken(rows: Any, after: int) -> Iterator[Any]:
    """Yield so many of the rows, and fail."""
    for number, row in enumerate(rows):
        if number == after:
            raise Lost
        yield row


@pytest.mark.parametrize("after", [0, 31, 32, 33, 500])
def test_a_task_that_is_tried_again_feeds_the_rows_that_the_node_has_not(
    rig: Rig, after: int
) -> None:
    for _ in range(2):
        with pytest.raises(Lost):
            rig.feed(broken(range(1000), after))
    with rig.taking() as found:
        rig.feed(range(1000))
    assert found == list(range(1000))


@pytest.mark.parametrize(
    "again",
    [list(range(999, -1, -1)), [*range(159), 0, *range(160, 1000)]],
    ids=["another order", "another row"],
)
def test_rows_that_are_others_when_a_task_is_tried_again_are_an_error(
    rig: Rig, again: list[int]
) -> None:
    with pytest.raises(Lost):
        rig.feed(broken(range(1000), 200))
    with rig.taking() as found:
        rig.feed(again)
    assert isinstance(rig.error, DataError)
    assert "to have the same rows in the same order" in str(rig.error)
    assert found == list(range(160))


def test_rows_that_spark_cuts_short_are_not_all(rig: Rig) -> None:
    with rig.taking() as found:
        # It does so where what makes them fails, and starts the task again.
        for count in (100, 700):
            rig.feed(range(count))
        with pytest.raises(DataError, match=r"There are fewer"):
            rig.feed(range(400))
        for _ in range(2):
            rig.feed(range(1000))
        rig.feed(range(1000, 1005), partition=1)
    assert (rig.error, found) == (None, list(range(1005)))
    assert rig.roster.partitions_fed == 2


def test_a_second_attempt_waits_for_the_first_whatever_that_takes_and_feeds_nothing(
    rig: Rig,
) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> Iterator[int]:
        yield from range(40)
        begun.set()
        assert go.wait(60)
        yield from range(40, 50)

    first = in_background(lambda: rig.feed(slow()))
    assert begun.wait(10)
    # It gives up a node that takes nothing, and has to wait here for rows that take longer.
    second = in_background(lambda: rig.feed(range(50), timeout=0.01))
    second.join(0.2)
    assert second.is_alive()
    with rig.taking() as found:
        go.set()
        for thread in (first, second):
            thread.join(10)
    assert (rig.error, found) == (None, list(range(50)))


def test_a_second_attempt_goes_on_where_the_first_is_lost(rig: Rig) -> None:
    begun, lost = threading.Event(), threading.Event()

    def breaking() -> Iterator[int]:
        yield from range(40)
        begun.set()
        assert lost.wait(60)
        raise Lost

    def first() -> None:
        with suppress(Lost):
            rig.feed(breaking())

    with rig.taking() as found:
        one = in_background(first)
        assert begun.wait(10)
        other = in_background(lambda: rig.feed(range(50)))
        lost.set()
        for thread in (one, other):
            thread.join(10)
    assert found == list(range(50))


def test_rows_of_another_feeding_are_others(rig: Rig) -> None:
    with rig.taking() as found:
        rig.feed(range(5))
        rig.roster.end_feed(rig.feeding)
        # A task that Spark has not ended yet has no node to feed.
        rig.feed(range(9))
        rig.feed(range(5), feed=rig.roster.begin_feed())
    assert found == [*range(5), *range(5)]
    assert list(rig.inbox._feeds) == [2]


def test_what_ends_one_feeding_does_not_end_another(rig: Rig) -> None:
    other = rig.roster.begin_feed()
    rig.feed([{1, 2}])
    assert isinstance(rig.error, DataError)
    # What has failed once is not tried again.
    rig.feed([1])
    rig.feed([2], feed=other, timeout=0.2)
    assert isinstance(other.error, WaitTimeout)
    with rig.taking() as found:
        pass
    assert found == [2]


def test_results_of_an_attempt_that_is_lost_come_whole_of_the_next(rig: Rig) -> None:
    def consume() -> None:
        feed = DataFeed(rig.hub, train_mode=False)
        while not feed.should_stop():
            feed.batch_results([-row for row in feed.next_batch(7)])

    consumer = in_background(consume)
    for after in (32, 50, 999):
        with pytest.raises(Lost):
            rig.feed(broken(range(1000), after), results=True)
    assert rig.feed(range(1000), results=True) == [-row for row in range(1000)]
    rig.hub.close_feed()
    consumer.join(10)


def test_a_node_that_gives_no_results_is_waited_for_once_and_not_by_each_attempt(rig: Rig) -> None:
    with pytest.raises(WaitTimeout, match="has taken no row"):
        rig.feed([1], results=True, timeout=0.2)
    with pytest.raises(WaitTimeout, match="has taken no row"):
        rig.feed([1], results=True, timeout=3600)


def test_a_task_that_does_not_reach_its_node_is_left_to_sparks_next_attempt(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SETTLE", 0.1)
    rig.node.close()
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        rig.feed([1])
    assert rig.error is None


def test_results_of_a_node_that_is_gone_are_missed_also_where_there_are_others(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SETTLE", 0.1)
    # The next question is answered with the other node, as the first one has more to do.
    monkeypatch.setattr(rig.roster, "release", lambda node: None)
    rig.roster.add({**rig.roster.nodes[0].meta, "executor_id": 1, "task_index": 1})
    rig.node.close()
    with pytest.raises(ClusterUnreachable, match="worker:0 does not answer"):
        rig.feed([1], results=True)


def test_a_feeding_that_nobody_ends_is_forgotten_after_many_others() -> None:
    feeds = Feeds()
    begun = feeds.begin()
    first = feeds.find("stage 0", begun=False)
    for number in range(MOST_STAGES):
        assert feeds.find(f"stage {number}", begun=False) is not None
    assert feeds.find("stage 0", begun=False) is first
    feeds.find("stage 999", begun=False)
    assert feeds.find("stage 0", begun=False) is not first
    assert feeds.find(begun.name, begun=True) is begun
    assert feeds.oldest == begun.number
    feeds.end(begun)
    assert feeds.find(begun.name, begun=True) is None
    assert feeds.oldest > begun.number


def test_blocks_grow_slowly_since_the_next_rows_may_be_larger() -> None:
    counts = [count for _, count in blocks_of([b""] * 1000)]
    assert counts == [32, 128, 512, 328]
