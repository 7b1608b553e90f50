"""Who trains what, under which settings: what a command must wait for to have taken effect.

Pure state: no locks, no sockets.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ..chaos.mishap import NOTHING
from ..chaos.rules import Rule
from ..chaos.state import Chaos
from ..errors import RemoteProtocolError
from ..events import CommandApplied, Event, MilestoneCommitted
from ..steering.machine import Command
from ..wire.messages import Directive, Push, Suspect
from .settings import Settings


class Doing(StrEnum):
    """What a worker does, as far as the server knows."""

    LOAD = "loading its data"
    TRAIN = "training"
    MERGE = "whose push is being merged"
    WAIT = "waiting"


@dataclass(eq=False, slots=True)
class Member:
    """A worker that has joined, as the server sees it."""

    partition: int
    attempt: int
    task: int
    executor: str
    host: str
    settings_version: int
    """Of its latest push."""
    metrics: tuple[str, ...] = ()
    """Names of those in its pushes."""
    clock: int = 0
    """Its milestones, counted from where the slowest active member was when it came."""
    waiting: bool = False
    left: bool = False
    pid: int = 0
    epoch: int = 0
    told: int = 0
    """The newest version of the settings that it knows of."""
    doing: Doing = Doing.LOAD
    suspect: Suspect | None = None
    """What it has found in the rows of the push that comes next."""
    heard: float = field(default_factory=time.monotonic)
    """When it asked for something last, by the monotonic clock."""
    pushed: bool = False
    let_go: Callable[[], object] = lambda: None
    """Called when two others have taken its place after each other."""
    told_of: bool = True
    """Whether events tell of its coming and going."""
    longest: float = 0.0
    """Seconds between two pushes, at most; without the first, for which it traces the program."""

    def hear(self, doing: Doing | None = None) -> None:
        """Note that it has spoken, and what it does now."""
        now = time.monotonic()
        if self.pushed and self.doing is Doing.TRAIN:
            self.longest = max(self.longest, now - self.heard)
        self.heard = now
        if doing is not None:
            self.doing = doing
            self.pushed = self.pushed or doing is Doing.MERGE

    def who(self) -> dict[str, Any]:
        """Return what events say of it."""
        return {
            "partition": self.partition,
            "attempt": self.attempt,
            "executor": self.executor,
            "host": self.host,
        }

    def milestone(
        self, push: Push, version: int, staleness: int, traffic: tuple[int, int], workers: int
    ) -> MilestoneCommitted:
        """Return the event of a merged push."""
        return MilestoneCommitted(
            time=time.time(),
            partition=self.partition,
            attempt=self.attempt,
            executor=self.executor,
            host=self.host,
            epoch=push.epoch,
            sequence=push.sequence,
            steps=push.steps,
            samples=push.samples,
            loss=push.loss,
            staleness=staleness,
            version=version,
            compute=push.compute,
            wait=push.wait,
            exchange=push.exchange,
            bytes_up=traffic[0],
            bytes_down=traffic[1],
            metrics=dict(zip(self.metrics, push.metrics, strict=True)),
            workers=workers,
        )


class _Pending(NamedTuple):
    """A change of settings that some member has not pushed under yet."""

    command: str
    detail: str
    names: frozenset[str]
    """Of the settings."""


class Roster:
    """The members of a run, at most one for each partition, and its settings by version.

    Parameters
    ----------
    settings : Settings
        Version 0.
    publish : callable
        Takes an event: `CommandApplied`, once each.

    Attributes
    ----------
    partitions : int
        Of the present job.
    changed : float
        When a member came or left last, by the monotonic clock.
    joins : Counter
        How many members each partition of the present job has had.
    """

    def __init__(self, settings: Settings, publish: Callable[[Event], None]) -> None:
        self.partitions = 1
        self._publish = publish
        self.changed = time.monotonic()
        self.joins: Counter[int] = Counter()
        self._members: dict[int, Member] = {}
        # Those whose place they have taken: they hear of that at their next push.
        self._replaced: dict[int, Member] = {}
        # Of the versions those that a member may still push under. Replaced, not changed: some
        # ask without the lock.
        self._settings = {0: settings}
        self._newest = (0, settings)
        self._pending: dict[int, _Pending] = {}
        self._pausing = False
        self._chaos = Chaos()
        self._calm = True

    # -- members ----------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all members: those of an earlier job are strangers from now on."""
        for member in self._replaced.values():
            member.let_go()
        self._members, self._replaced = {}, self._members
        self.joins.clear()

    def enter(self, member: Member) -> None:
        """Let a member have its partition, in place of an earlier one."""
        earlier, replaced = self._members.get(member.partition), None
        if earlier is not None:
            replaced = self._replaced.get(member.partition)
            self._replaced[member.partition] = earlier
        if replaced is not None:
            replaced.let_go()
        member.clock = self._slowest()
        self.changed = time.monotonic()
        self._members[member.partition] = member
        self.joins[member.partition] += 1

    def present(self, partition: int) -> Member | None:
        """Return who has a partition and has not left."""
        member = self._members.get(partition)
        return None if member is None or member.left else member

    def is_current(self, member: Member) -> bool:
        """Return whether nobody has taken a member's place."""
        return self._members.get(member.partition) is member

    def active(self) -> list[Member]:
        """Return the members that have not left."""
        return [member for member in self._members.values() if not member.left]

    def dismiss(self, member: Member) -> None:
        """Let a member that has left have its partition no more."""
        self._members.pop(member.partition, None)

    def left(self) -> list[int]:
        """Return the tasks of the members that have left."""
        return [member.task for member in self._members.values() if member.left]

    def leave(self, member: Member) -> None:
        """Expect nothing more of a member; no command waits for it any more."""
        member.left = True
        self.changed = time.monotonic()
        self._report_pause()
        self._report_applied()

    # -- clocks -----------------------------------------------------------------------

    def tick(self, member: Member) -> None:
        """Note that a member has reached a milestone, under the settings that it has now."""
        member.clock += 1
        self._chaos.tick(member.partition, member.settings_version)

    def is_ahead(self, member: Member) -> bool:
        """Return whether a member must wait for slower ones, as the sync mode has it."""
        slack = self.settings.sync.slack
        return slack is not None and member.clock - self._slowest() > slack

    def _slowest(self) -> int:
        return min((member.clock for member in self.active()), default=0)

    # -- pausing ----------------------------------------------------------------------

    def watch_pause(self, pausing: bool) -> None:
        """Report a pause once every active member waits, or do not report it after all."""
        self._pausing = pausing

    def wait(self, member: Member) -> None:
        """Note that a member waits."""
        member.waiting = True
        self._report_pause()

    # -- settings ---------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The newest settings."""
        return self._newest[1]

    @property
    def version(self) -> int:
        """The newest settings' version."""
        return self._newest[0]

    def change(self, command: str, detail: str, **changes: Any) -> None:
        """Add a version; report it once every active member has pushed under it."""
        if "sync" in changes:
            # Else the fastest would stand still until the slowest has caught up with all that it
            # had been allowed to be ahead.
            for member in self.active():
                member.clock = 0
        version, settings = self.version + 1, self.settings.changed(**changes)
        needed = {v for m in self.active() for v in (m.settings_version, m.told)}
        kept = {v: earlier for v, earlier in self._settings.items() if v in needed}
        self._settings = kept | {version: settings}
        self._newest = (version, settings)
        self._overtake(command, frozenset(changes))
        self._pending[version] = _Pending(command, detail, frozenset(changes))
        if "chaos" in changes:
            self._chaos = Chaos(self.settings.chaos, self.version)
            self._calm = not self.settings.chaos

    def find_settings(self, version: int) -> Settings | None:
        """Return a version of the settings; None if no member may still use it."""
        return self._settings.get(version)

    def settings_of(self, version: int) -> Settings:
        """Return the settings under which a member prepared its push.

        Raises
        ------
        RemoteProtocolError
            There is no such version, or no member may still use it.
        """
        settings = self.find_settings(version)
        if settings is None:
            raise RemoteProtocolError(
                f"Push.settings_version: expected {self.version} or one that the worker was told, "
                f"got {version}."
            )
        return settings

    def news(
        self, member: Member, known: int, directive: Directive
    ) -> tuple[int, dict[str, Any] | None]:
        """Return the newest version, and its settings if a member must hear of any.

        Parameters
        ----------
        member : Member
        known : int
            The version that it knows.
        directive : Directive
            What it does next.
        """
        member.told = self.version
        chaos = self.chaos_for(member, directive)
        if known == self.version and not chaos:
            return self.version, None
        return self.version, self.settings.for_worker() | chaos

    def acknowledge(self, member: Member, version: int) -> None:
        """Note under which settings a member has pushed."""
        member.settings_version = version
        self._report_applied()

    # -- chaos ------------------------------------------------------------------------

    @property
    def chaos(self) -> tuple[Rule, ...]:
        """The rules that may still strike."""
        return self._chaos.in_force(self.partitions)

    def chaos_for(self, member: Member, directive: Directive) -> dict[str, Any]:
        """Return what to add to a member's settings for its next milestone, if it goes on."""
        if not self._chaos.asked_for or directive is not Directive.GO:
            return {}
        who = member.partition, member.executor, member.task
        mishap = self._chaos.strike(*who, self.partitions)
        self._report_calm()
        return {} if mishap == NOTHING else {"chaos": mishap.to_json()}

    def executors(self) -> set[str]:
        """Return the executors of the active members."""
        return {member.executor for member in self.active()}

    # -- what took effect -------------------------------------------------------------

    def _report_applied(self) -> None:
        if not self._pending:
            return
        used = [member.settings_version for member in self.active()]
        for version in [v for v in self._pending if used and v <= min(used)]:
            done = self._pending.pop(version)
            self._publish(CommandApplied(time.time(), done.command, done.detail))

    def _overtake(self, command: str, names: frozenset[str]) -> None:
        """Report an earlier change of the same settings, which some will never see."""
        for version, earlier in list(self._pending.items()):
            if (earlier.command, earlier.names) == (command, names):
                del self._pending[version]
                detail = f"{earlier.detail}: a later change has taken its place"
                self._publish(CommandApplied(time.time(), command, detail))

    def _report_calm(self) -> None:
        """Say once that chaos has ended by itself; what it was need not take effect any more."""
        if self._calm or self.chaos:
            return
        self._calm = True
        waiting = {v: p for v, p in self._pending.items() if p.command != Command.CHAOS}
        self._pending = waiting
        self._publish(CommandApplied(time.time(), Command.CHAOS, "off: it has run its course"))

    def _report_pause(self) -> None:
        if self._pausing and all(member.waiting for member in self.active()):
            self._pausing = False
            self._publish(CommandApplied(time.time(), Command.PAUSE, "every worker waits"))
