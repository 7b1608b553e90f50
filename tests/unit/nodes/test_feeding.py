"""Tasks feed a node: whatever its function does, each wait has an end, and an error says why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tos_notebook.errors import DataError, TosError, WaitTimeout
from tos_notebook.nodes import inbox as inboxes
from tos_notebook.nodes import tasks
from tos_notebook.nodes.feed import DataFeed
from tos_notebook.nodes.hub import MOST_BLOCKS, Hub
from tos_notebook.nodes.inbox import Inbox
from tos_notebook.nodes.roster import Roster
from tos_notebook.nodes.server import NodeServer
from tos_notebook.nodes.talk import TalkServer
from tos_notebook.nodes.tasks import FeedRows


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks look again soon."""
    for module in (inboxes, tasks):
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

    def feed(self, rows: Any, results: bool = False, timeout: float = 60.0) -> list[Any]:
        """Feed rows as a task does; return the results."""
        return list(FeedRows(self.driver.address, "input", results, timeout)(iter(rows)))

    @property
    def error(self) -> TosError | None:
        """What the driver was told that has failed."""
        return self.roster.feed_error


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
    rows = range(tasks.MOST_ROWS * (MOST_BLOCKS + 4))
    assert rig.feed(rows, timeout=0.2) == []
    assert isinstance(rig.error, WaitTimeout)
    assert "worker:0 has taken no row for 0.2 s: its queue is full" in str(rig.error)


def test_a_function_that_reads_slowly_but_steadily_is_waited_for(rig: Rig) -> None:
    count = tasks.MOST_ROWS * (MOST_BLOCKS + 2)
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


def test_blocks_grow_slowly_since_the_next_rows_may_be_larger() -> None:
    counts = [count for _, count in tasks._blocks(iter([b""] * 1000))]
    assert counts == [32, 128, 512, 328]
