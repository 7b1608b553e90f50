"""Nodes make as many steps as any of them has rows for, whichever runs out of rows first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.nodes.test_hub import fed
from tests.unit.nodes.test_roster import joined
from tos_notebook.errors import ConfigError, TransportError, WaitTimeout
from tos_notebook.nodes import feed as feeds
from tos_notebook.nodes.feed import DataFeed
from tos_notebook.nodes.hub import Hub
from tos_notebook.nodes.peers import Peers
from tos_notebook.nodes.roster import DONE, Roster
from tos_notebook.nodes.server import NodeServer

LIMIT = 60.0
"""Seconds for all nodes to end."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node without rows follow the others at once."""
    monkeypatch.setattr(feeds, "GRACE", 0.0)


class Rig:
    """A driver's server, and nodes with a feed each."""

    def __init__(self, nodes: int) -> None:
        self.roster = Roster(nodes)
        self.server = NodeServer(self.roster)
        self.nodes = joined(self.roster, *range(nodes))
        self.hubs = [Hub() for _ in range(nodes)]
        self.peers = [Peers(self.server.address, number, 0) for number in range(nodes)]
        self.feeds = self.read()

    def read(self, **given: Any) -> list[DataFeed]:
        """Return a feed of each node."""
        feeds = [DataFeed(hub, **given) for hub in self.hubs]
        for feed, peers in zip(feeds, self.peers, strict=True):
            feed.peers = peers
        return feeds

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *error: object) -> None:
        for peers in self.peers:
            peers.close()
        self.server.close()

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        """Make calls at once, one for each node; return what they return."""
        with ThreadPoolExecutor(len(calls)) as pool:
            return [each.result(LIMIT) for each in [pool.submit(call) for call in calls]]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with Rig(2) as rig:
        yield rig


def all_batches(feed: DataFeed, size: int) -> Callable[[], list[Any]]:
    """Return what reads all batches of a node."""
    return lambda: list(feed.synchronized_batches(size))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 23), min_size=1, max_size=4), st.integers(1, 9))
def test_all_nodes_get_as_many_batches_and_every_row_once(sizes: list[int], size: int) -> None:
    with Rig(len(sizes)) as rig:
        rows = [[(number, row) for row in range(count)] for number, count in enumerate(sizes)]
        for hub, own in zip(rig.hubs, rows, strict=True):
            fed(hub, *[own] if own else [])
            hub.close_feed()
        found = rig.together(*(all_batches(feed, size) for feed in rig.feeds))
    assert [[row for batch in own for row in batch] for own in found] == rows
    assert {len(own) for own in found} == {-(-max(sizes) // size)}
    assert all(len(batch) <= size for own in found for batch in own)


def test_a_node_without_rows_follows_the_others_while_the_feed_is_open(rig: Rig) -> None:
    """As Spark closes a feed only when all rows of all nodes are taken."""
    fed(rig.hubs[0], list(range(10)))
    fed(rig.hubs[1], list(range(100, 103)))
    taken = threading.Barrier(3)

    def read(feed: DataFeed) -> list[list[int]]:
        found = []
        for batch in feed.synchronized_batches(2):
            found.append(batch)
            if len(found) == 5:
                taken.wait(LIMIT)
        return found

    def close() -> None:
        taken.wait(LIMIT)
        for hub in rig.hubs:
            hub.close_feed()

    first, second, _ = rig.together(*(lambda f=f: read(f) for f in rig.feeds), close)
    assert first == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [row for batch in second for row in batch] == [100, 101, 102]
    assert len(second) == 5


def test_a_node_whose_function_has_ended_is_waited_for_by_none(rig: Rig) -> None:
    fed(rig.hubs[0], [1, 2, 3])
    rig.hubs[0].close_feed()
    rig.roster.end(rig.nodes[1], DONE)
    assert all_batches(rig.feeds[0], 2)() == [[1, 2], [3]]


def test_a_node_that_reads_no_such_batches_is_named(rig: Rig) -> None:
    rig.hubs[0].close_feed()
    batches = rig.feeds[0].synchronized_batches(2, timeout=0.05)
    with pytest.raises(WaitTimeout, match=r"worker:1 had neither.*synchronized_batches"):
        next(batches)


def test_empty_batches_have_the_columns_of_the_others(rig: Rig) -> None:
    feeds = rig.read(input_mapping={"a": "images", "b": "labels"})
    fed(rig.hubs[0], [(1, 2)])  # type: ignore[list-item]
    for hub in rig.hubs:
        hub.close_feed()
    found = rig.together(*(all_batches(feed, 2) for feed in feeds))
    assert found == [[{"images": [1], "labels": [2]}], [{"images": [], "labels": []}]]


def test_a_loop_that_is_left_and_begun_again_continues(rig: Rig) -> None:
    for hub, rows in zip(rig.hubs, ([1, 2, 3], [4]), strict=True):
        fed(hub, rows)
        hub.close_feed()

    def twice(feed: DataFeed) -> list[list[int]]:
        return [next(feed.synchronized_batches(1)), *feed.synchronized_batches(1)]

    assert rig.together(*(lambda f=f: twice(f) for f in rig.feeds)) == [
        [[1], [2], [3]],
        [[4], [], []],
    ]


def test_a_feed_that_knows_no_other_nodes_says_where_to_get_one() -> None:
    with pytest.raises(ConfigError, match=r"ctx\.get_data_feed"):
        next(DataFeed(Hub()).synchronized_batches(2))


def test_nonsense_ends_its_own_connection_only(rig: Rig) -> None:
    talk = rig.peers[0]._settle()
    talk.send({"step": 1, "queue": "input", "node": 0, "start": 0, "is": "odd", "wait": 0})
    with pytest.raises(TransportError):
        talk.receive()
    rig.hubs[1].close_feed()
    rig.roster.end(rig.nodes[0], DONE)
    assert all_batches(rig.feeds[1], 2)() == []
