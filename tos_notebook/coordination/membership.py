"""The members of a run, and how many milestones each has reached.

Pure state: no locks, no sockets.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypedDict

from ..events import MilestoneCommitted
from ..wire.messages import Push, Suspect


class Doing(StrEnum):
    """What a worker does, as far as the server knows."""

    LOAD = "loading its data"
    TRAIN = "training"
    MERGE = "whose push is being merged"
    WAIT = "waiting"


# Python 3.11 calls a function to look a member up in its enumeration: too long for every push.
_TRAIN, _MERGE = Doing.TRAIN, Doing.MERGE


class Who(TypedDict):
    """The fields of an event that name a worker."""

    partition: int
    attempt: int
    executor: str
    host: str


@dataclass(eq=False, slots=True)
class Member:
    """A worker that has joined, as the server sees it."""

    partition: int
    attempt: int
    task: int
    executor: str
    host: str
    settings_version: int
    """The version under which it made its latest push."""
    metrics: tuple[str, ...] = ()
    """Names of those in its pushes."""
    clock: int = 0
    """Its milestones. It begins with the clock of the slowest active member."""
    waiting: bool = False
    left: bool = False
    pid: int = 0
    epoch: int = 0
    told_version: int = 0
    """The newest version of the settings that it knows of."""
    doing: Doing = Doing.LOAD
    suspect: Suspect | None = None
    """What it has found in the rows of the push that comes next."""
    heard: float = field(default_factory=time.monotonic)
    """When it asked for something last, by the monotonic clock."""
    pushed: bool = False
    release: Callable[[], object] = lambda: None
    """Called when two others have taken its place after each other."""
    announced: bool = True
    """Whether events report that it has come, failed or left."""
    held: float = 0.0
    """Seconds of its latest exchange in which the server let it wait for others of its step."""
    longest: float = 0.0
    """The longest time between two pushes, in seconds. The first push, for which the worker traces
    the program, does not count."""

    def hear(self, doing: Doing | None = None, at: float | None = None) -> None:
        """Note that the worker has asked for something, perhaps before, and what it does now."""
        now = time.monotonic() if at is None else at
        if self.pushed and self.doing is _TRAIN:
            self.longest = max(self.longest, now - self.heard)
        self.heard = now
        if doing is not None:
            self.doing = doing
            self.pushed = self.pushed or doing is _MERGE

    def who(self) -> Who:
        """Return what events say of it."""
        return {
            "partition": self.partition,
            "attempt": self.attempt,
            "executor": self.executor,
            "host": self.host,
        }

    def milestone(
        self,
        push: Push,
        version: int,
        staleness: int | None,
        traffic: tuple[int, int] | Traffic,
        workers: int,
        optimizer_steps: int,
        merged: float | None = None,
    ) -> MilestoneCommitted:
        """Return the event of a push that was merged, now by default."""
        # In the fields' order: names would cost a third more, at every push.
        at = push.epoch, push.sequence, push.steps, optimizer_steps, push.samples, push.loss
        links = (traffic.links, traffic.more) if isinstance(traffic, Traffic) else ((), 0)
        return MilestoneCommitted(
            time.time() if merged is None else merged,
            self.partition,
            self.attempt,
            self.executor,
            self.host,
            *at,
            staleness,
            version,
            push.compute,
            push.wait,
            push.exchange,
            traffic[0],
            traffic[1],
            dict(zip(self.metrics, push.metrics, strict=True)),
            workers,
            *links,
            push.cpu,
            1024 * push.memory or None,
        )


class Traffic(NamedTuple):
    """Bytes of one milestone of a worker that exchanges with others."""

    up: int
    """To all of them."""
    down: int
    """From all of them."""
    links: tuple[tuple[int, int, int], ...]
    """See `MilestoneCommitted.links`, as for the next."""
    more: int


class Links(NamedTuple):
    """How members exchange with each other, by an algorithm that they have chosen."""

    algorithm: str
    text: str
    """Why, in a sentence."""


class Membership:
    """The members of a run, at most one for each partition, and their clocks.

    Attributes
    ----------
    partitions : int
        How many the present job has.
    changed : float
        When a member came or left last, by the monotonic clock.
    joins : Counter
        How many members each partition of the present job has had.
    links : Links or None
        None where members have not chosen how to exchange with each other.
    """

    def __init__(self) -> None:
        self.partitions = 1
        self.changed = time.monotonic()
        self.joins: Counter[int] = Counter()
        self.links: Links | None = None
        self._members: dict[int, Member] = {}
        # Those that have not left; None after a change, until somebody asks.
        self._active: list[Member] | None = None
        # Those whose place another has taken: they hear of that at their next push.
        self._replaced: dict[int, Member] = {}

    def clear(self) -> None:
        """Forget all members: those of an earlier job may not push any more."""
        for member in self._replaced.values():
            member.release()
        self._members, self._replaced = {}, self._members
        self._active = None
        self.joins.clear()

    def enter(self, member: Member) -> None:
        """Give a member its partition, in place of an earlier one."""
        earlier, replaced = self._members.get(member.partition), None
        if earlier is not None:
            replaced = self._replaced.get(member.partition)
            self._replaced[member.partition] = earlier
        if replaced is not None:
            replaced.release()
        member.clock = self._slowest()
        self.changed = time.monotonic()
        self._members[member.partition] = member
        self._active = None
        self.joins[member.partition] += 1

    def present(self, partition: int) -> Member | None:
        """Return the member that has a partition and has not left."""
        member = self._members.get(partition)
        return None if member is None or member.left else member

    def is_current(self, member: Member) -> bool:
        """Return whether no other has taken a member's place."""
        return self._members.get(member.partition) is member

    def active(self) -> list[Member]:
        """Return the members that have not left; the list is not to be changed."""
        if self._active is None:
            self._active = [member for member in self._members.values() if not member.left]
        return self._active

    def leave(self, member: Member) -> None:
        """Expect nothing more of a member."""
        member.left, self._active = True, None
        self.changed = time.monotonic()

    def dismiss(self, member: Member) -> None:
        """Take the partition from a member that has left."""
        self._members.pop(member.partition, None)
        self._active = None

    def left_tasks(self) -> list[int]:
        """Return the tasks of the members that have left."""
        return [member.task for member in self._members.values() if member.left]

    def executors(self) -> set[str]:
        """Return the executors of the active members."""
        return {member.executor for member in self.active()}

    def settings_versions(self) -> set[int]:
        """Return the versions of the settings that active members may still push under."""
        return {v for m in self.active() for v in (m.settings_version, m.told_version)}

    def reset_clocks(self) -> None:
        """Count the milestones of all active members from 0 on.

        Under another sync mode the fastest would otherwise stand still until the slowest has
        caught up with all that the mode before had allowed.
        """
        for member in self.active():
            member.clock = 0

    def is_ahead(self, member: Member, slack: int | None) -> bool:
        """Return whether a member must wait for slower ones.

        Parameters
        ----------
        member : Member
        slack : int or None
            By how many milestones it may be ahead; None for any number.
        """
        return slack is not None and member.clock - self._slowest() > slack

    def _slowest(self) -> int:
        return min((member.clock for member in self.active()), default=0)
