"""What the driver knows of the nodes of one cluster: a state with one lock, and no sockets."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import RemoteProtocolError, TosError
from .context import TRAINING
from .feeds import Feed, Feeds

logger = logging.getLogger(__name__)

MOST_NOTES = 8
"""Of a cluster's notes that are kept, the last ones."""

MOST_LINES = 500
"""Lines of its output that are kept of a node."""

LONGEST_LINE = 2000
"""Characters of a line that are kept."""

READY, RUNNING, DONE, FAILED, LOST, STOPPED = (
    "ready",
    "running",
    "done",
    "failed",
    "lost",
    "stopped",
)
"""States of a node: it has a port; its function runs; how that ended."""

ENDED = (DONE, FAILED, LOST, STOPPED)


@dataclass
class Node:
    """A node that has registered.

    Attributes
    ----------
    meta : dict
        What it has said of itself: ``executor_id``, ``host``, ``job_name``, ``task_index``,
        ``port``, ``inbox`` and its ``fingerprint``, ``tb_port``, ``pid``, ``spark_task``.
    state : str
    lines : deque of str
        The last of its output.
    said : int
        Lines of its output so far.
    gpus : str
        Those that it may see, as CUDA numbers them; empty for none.
    rows : int
        That its function has taken.
    feeders : int
        Tasks of Spark that feed it now.
    tasks : int
        Those that have ever fed it.
    feeding : bool
        Whether it still wants rows.
    message, frames : str, list of str
        What has failed, and where: the user's own lines first.
    """

    meta: dict[str, Any]
    state: str = READY
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    said: int = 0
    gpus: str = ""
    rows: int = 0
    feeders: int = 0
    tasks: int = 0
    feeding: bool = True
    message: str = ""
    frames: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its job and task, such as ``worker:0``."""
        return f"{self.meta['job_name']}:{self.meta['task_index']}"

    @property
    def ended(self) -> bool:
        """Whether its function runs no more."""
        return self.state in ENDED


class Roster:
    """The nodes of a cluster, by their numbers.

    Parameters
    ----------
    required : int
        Nodes of the whole cluster.
    """

    def __init__(self, required: int) -> None:
        self.required = required
        self.changed = threading.Condition(threading.RLock())
        self.start = 0
        """How often the cluster has begun again."""
        self.notes: deque[str] = deque(maxlen=MOST_NOTES)
        """What the cluster does without, and why it has begun again: sentences for people."""
        self.feeds = Feeds()
        self._forget()

    def _forget(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.reservations: list[dict[str, Any]] = []
        self.failure: Node | None = None
        """The node that failed first."""
        self.stream_error: TosError | None = None
        """Why rows of a stream could not be fed."""
        self.feed_closed = False
        self.stopping = False
        self.done = False
        """Whether the feed is over, since someone asked for it or no node wants more."""

    def begin_again(self) -> None:
        """Forget all nodes: others are to come. Those that still speak are told to stop."""
        with self.changed:
            for node in self.nodes.values():
                self.end(node, STOPPED)
            self.start += 1
            # Their tasks are to feed none of the next nodes: all rows come once more.
            self.feeds.clear()
            self._forget()
            self.changed.notify_all()

    def note(self, text: str, log: bool = True) -> None:
        """Keep a text's first line for people, and log all of it, unless they see notes anyway."""
        if log:
            logger.warning("%s", text)
        with self.changed:
            self.notes.append(text.partition("\n")[0])
            self.changed.notify_all()

    def add(self, meta: Mapping[str, Any]) -> Node | None:
        """Take a reservation.

        Parameters
        ----------
        meta : mapping
            With ``executor_id`` it is that of a node.

        Raises
        ------
        RemoteProtocolError
            A node of this number is there already, or it belongs to an earlier start.
        """
        with self.changed:
            number = meta.get("executor_id")
            if number is not None and meta.get("start", self.start) != self.start:
                raise RemoteProtocolError(
                    f"Expected a node of start {self.start}, but number {number} is of start "
                    f"{meta['start']}: the cluster has begun again."
                )
            node = Node(dict(meta))
            if number is not None:
                before = self.nodes.get(int(number))
                if before is not None and not self._may_replace(before):
                    raise RemoteProtocolError(
                        f"Expected one node of each number, but {before.name} on "
                        f"{before.meta.get('host')} is number {number} already."
                    )
                self.nodes[int(number)] = node
            self.reservations.append(node.meta)
            self.changed.notify_all()
            return node if number is not None else None

    def of_other_attempt(self, meta: Mapping[str, Any]) -> Node | None:
        """Return the node that another attempt of a Spark task keeps; None if there is none.

        Parameters
        ----------
        meta : mapping
            What this attempt would register.
        """
        with self.changed:
            node = self.nodes.get(int(meta.get("executor_id", -1)))
            if node is None or node.ended or meta.get("start", self.start) != self.start:
                return None
            own, other = (list(each.get("spark_task") or ()) for each in (meta, node.meta))
            # The same stage.
            return node if own and own[:1] == other[:1] else None

    def _may_replace(self, node: Node) -> bool:
        # Spark tries a task again whose node was lost before the cluster was whole.
        return node.state == LOST and not self.whole

    @property
    def whole(self) -> bool:
        """Whether all nodes have registered."""
        return self.remaining <= 0

    @property
    def lost(self) -> Node | None:
        """A node that was lost before all were there, and has not come again."""
        with self.changed:
            if self.whole:
                return None
            return next((node for node in self.nodes.values() if node.state == LOST), None)

    @property
    def registered(self) -> int:
        """How many nodes have registered."""
        return len(self.reservations)

    @property
    def remaining(self) -> int:
        """How many nodes are still to register."""
        return self.required - self.registered

    @property
    def cluster(self) -> list[dict[str, Any]]:
        """What all nodes have said of themselves, in their order."""
        with self.changed:
            if not self.nodes:
                return list(self.reservations)
            return [self.nodes[number].meta for number in sorted(self.nodes)]

    def report(self, node: Node, lines: Sequence[str], rows: int, feeding: bool) -> None:
        """Take what a node says while it runs."""
        with self.changed:
            if node.ended:
                return
            before = node.said, node.rows, node.feeding
            node.lines.extend(lines)
            node.said += len(lines)
            node.rows, node.feeding = rows, feeding and node.feeding
            if before != (node.said, rows, node.feeding):
                if not node.feeding and not any(each.feeding for each in self._feedable()):
                    self.done = True
                self.changed.notify_all()

    def run(self, node: Node) -> None:
        """Note that a node's function runs."""
        if node.state == READY:
            self._enter(node, RUNNING)

    def end(self, node: Node, state: str, message: str = "", frames: Iterable[str] = ()) -> None:
        """Note how a node has ended; the first outcome counts."""
        with self.changed:
            if node.ended:
                return
            node.message, node.frames, node.feeding = message, list(frames), False
            if self.stopping and state == LOST:
                state = STOPPED
            if state == LOST and not self.whole:
                # It may come again, and is missing until then.
                self.reservations = [each for each in self.reservations if each is not node.meta]
            elif self.failure is None and state in (FAILED, LOST):
                self.failure = node
            self._enter(node, state)

    def _enter(self, node: Node, state: str) -> None:
        with self.changed:
            node.state = state
            self.changed.notify_all()

    def _feedable(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.meta["job_name"] in TRAINING]

    def assign(
        self, executor: str, host: str, feed: Feed | None = None, partition: int = 0
    ) -> Node | None:
        """Return the node that a task of Spark is to feed; None if none wants its rows.

        The one that takes this partition already; else one in the same executor, or on the same
        host, goes before others; among these the one that the fewest tasks feed or have fed.

        Parameters
        ----------
        executor, host : str
            The task's.
        feed : Feed, optional
            Whose rows are to be fed once; those of others may go anywhere.
        partition : int
        """
        with self.changed:
            wanted = [each for each in self._feedable() if each.feeding and not each.ended]
            if feed is not None and partition in feed.nodes:
                known = self.nodes.get(feed.nodes[partition])
                wanted = [each for each in wanted if each is known]
            if not wanted:
                return None
            node = min(
                wanted,
                key=lambda each: (each.feeders, _distance(each, executor, host), each.tasks),
            )
            node.feeders += 1
            node.tasks += 1
            if feed is not None:
                feed.nodes[partition] = int(node.meta["executor_id"])
            return node

    def release(self, node: Node) -> None:
        """Note that a task feeds a node no more."""
        with self.changed:
            node.feeders -= 1

    def begin_feed(self) -> Feed:
        """Begin a feeding; `end_feed` ends it."""
        with self.changed:
            return self.feeds.begin()

    def end_feed(self, feed: Feed) -> None:
        """Let a feeding end: its tasks feed no more."""
        with self.changed:
            self.feeds.end(feed)

    def end_task(self, feed: Feed, partition: int) -> None:
        """Note that a task has fed its rows, or that its node wants no more."""
        with self.changed:
            feed.fed.add(partition)
            self.changed.notify_all()

    @property
    def partitions_fed(self) -> int:
        """How many partitions of the newest feeding were fed."""
        with self.changed:
            return len(self.feeds.newest.fed) if self.feeds.newest else 0

    def fail_feed(self, feed: Feed, error: TosError, stream: bool = False) -> None:
        """Note why a task could not feed its rows; the first reason counts."""
        with self.changed:
            feed.error = feed.error or error
            if stream:
                self.stream_error = self.stream_error or error
            self.changed.notify_all()

    @property
    def failed(self) -> bool:
        """Whether a node has, or the feeding of a stream."""
        return self.failure is not None or self.stream_error is not None

    def close_feed(self) -> None:
        """Let the nodes' feeds end, once what has come is taken."""
        with self.changed:
            self.feed_closed = True
            self.changed.notify_all()

    def stop(self) -> None:
        """Let all nodes end."""
        with self.changed:
            self.stopping = self.feed_closed = self.done = True
            self.changed.notify_all()

    def request_stop(self) -> None:
        """Note that someone asks for the end of the feed."""
        with self.changed:
            self.done = True
            self.changed.notify_all()

    def wake(self) -> None:
        """Let those who wait look again."""
        with self.changed:
            self.changed.notify_all()

    @property
    def unwanted(self) -> bool:
        """Whether no node wants more rows."""
        with self.changed:
            found = self._feedable()
            return bool(found) and not any(each.feeding and not each.ended for each in found)

    @property
    def without_readers(self) -> bool:
        """Whether the nodes that are fed have ended, all of them."""
        with self.changed:
            return bool(self.nodes) and self.all_ended()

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait for a condition; return whether it came within `timeout` seconds."""
        with self.changed:
            return self.changed.wait_for(condition, min(timeout, threading.TIMEOUT_MAX))

    def all_ended(self, jobs: Iterable[str] = TRAINING) -> bool:
        """Return whether all nodes of some jobs have ended."""
        wanted = set(jobs)
        with self.changed:
            return all(n.ended for n in self.nodes.values() if n.meta["job_name"] in wanted)


def _distance(node: Node, executor: str, host: str) -> int:
    if node.meta.get("executor") == executor:
        return 0
    return 1 if node.meta.get("host") == host else 2
