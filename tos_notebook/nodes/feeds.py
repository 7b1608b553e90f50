"""What the driver knows of feedings: which node takes which rows, and what has failed.

Spark may start a task again, or start it twice. All attempts feed the same node, which knows what
it has of a partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import TosError

MOST_STAGES = 64
"""Feedings by Spark's stages that are kept: Spark does not tell the end of these."""


@dataclass
class Feed:
    """A feeding: each row of an RDD goes to a node once.

    Attributes
    ----------
    name : str
    number : int
        Greater than those of all that began before.
    begun : bool
        Whether the driver has begun it, and ends it; else it is known by a stage of Spark's.
    nodes : dict of int to int
        The number of the node that takes a partition's rows.
    fed : set of int
        Partitions of which all rows were fed, or whose node wants no more.
    error : TosError or None
        Why a task could not feed its rows; the first reason counts.
    """

    name: str
    number: int
    begun: bool = True
    nodes: dict[int, int] = field(default_factory=dict)
    fed: set[int] = field(default_factory=set)
    error: TosError | None = None


class Feeds:
    """The feedings that are under way, by their names; its user has the lock."""

    def __init__(self) -> None:
        self._feeds: dict[str, Feed] = {}
        self._last = 0
        self.newest: Feed | None = None
        """The one that the driver has begun last, also if it is over."""

    def begin(self) -> Feed:
        """Begin a feeding that `end` ends."""
        self.newest = self._add(f"feed {self._last + 1}", begun=True)
        return self.newest

    def end(self, feed: Feed) -> None:
        """Forget a feeding: its tasks feed no more."""
        self._feeds.pop(feed.name, None)

    def clear(self) -> None:
        """Forget all feedings."""
        self._feeds.clear()

    def find(self, name: str, begun: bool) -> Feed | None:
        """Return the feeding of a task; None if it is over."""
        if name in self._feeds or begun:
            return self._feeds.get(name)
        stages = [each for each in self._feeds.values() if not each.begun]
        for each in stages[: max(0, len(stages) + 1 - MOST_STAGES)]:
            self.end(each)
        return self._add(name, begun=False)

    def _add(self, name: str, begun: bool) -> Feed:
        self._last += 1
        self._feeds[name] = Feed(name, self._last, begun)
        return self._feeds[name]

    @property
    def oldest(self) -> int:
        """The number of the oldest one; all before it are over."""
        return min((feed.number for feed in self._feeds.values()), default=self._last + 1)
