"""Who trains what, under which settings: what a command must wait for to have taken effect.

Pure state: no locks, no sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .combiners.base import Combiner
from .control import Command
from .data.source import DataSource
from .errors import RemoteProtocolError
from .events import CommandApplied, Event, MilestoneCommitted
from .ps.store import Merge
from .wire.messages import Push


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
    waiting: bool = False
    left: bool = False

    def who(self) -> dict[str, Any]:
        """Return what events say of it."""
        return {
            "partition": self.partition,
            "attempt": self.attempt,
            "executor": self.executor,
            "host": self.host,
        }

    def milestone(self, push: Push, merged: Merge, nbytes: int) -> MilestoneCommitted:
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
            staleness=merged.staleness,
            version=merged.version,
            compute=push.compute,
            wait=push.wait,
            exchange=push.exchange,
            bytes_up=nbytes,
            bytes_down=nbytes,
            metrics=dict(zip(self.metrics, push.metrics, strict=True)),
        )


@dataclass(slots=True)
class Leg:
    """The epochs that one Spark job trains, over one layout of the data."""

    source: DataSource
    first_epoch: int
    last_epoch: int
    started: int = field(init=False)
    """The latest epoch that a worker has begun."""

    def __post_init__(self) -> None:
        self.started = self.first_epoch


@dataclass(frozen=True, slots=True)
class Settings:
    """What may change while a run trains."""

    sync_interval: int
    learning_rate: float | None
    combiner: Combiner

    def for_worker(self) -> dict[str, Any]:
        """Return what a worker must know, as plain JSON values."""
        return {
            "sync_interval": self.sync_interval,
            "learning_rate": self.learning_rate,
            "pushes": self.combiner.pushes,
        }


class Roster:
    """The members of a run, at most one for each partition, and its settings by version.

    Parameters
    ----------
    settings : Settings
        Version 0.
    publish : callable
        Takes an event: `CommandApplied`, once each.
    """

    def __init__(self, settings: Settings, publish: Callable[[Event], None]) -> None:
        self._publish = publish
        self._members: dict[int, Member] = {}
        self._settings = [settings]
        self._pending: dict[int, tuple[str, str]] = {}
        self._pausing = False

    # -- members ----------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all members: those of an earlier job are strangers from now on."""
        self._members.clear()

    def enter(self, member: Member) -> None:
        """Let a member have its partition, in place of an earlier one."""
        self._members[member.partition] = member

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

    def leave(self, member: Member) -> None:
        """Expect nothing more of a member; no command waits for it any more."""
        member.left = True
        self._report_pause()
        self._report_applied()

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
        return self._settings[-1]

    @property
    def version(self) -> int:
        """The newest settings' version."""
        return len(self._settings) - 1

    def change(self, command: str, detail: str, **changes: Any) -> None:
        """Add a version; report it once every active member has pushed under it."""
        self._settings.append(replace(self.settings, **changes))
        self._pending[self.version] = (command, detail)

    def settings_of(self, version: int) -> Settings:
        """Return the settings under which a worker prepared its push.

        Raises
        ------
        RemoteProtocolError
            There is no such version.
        """
        if not 0 <= version <= self.version:
            raise RemoteProtocolError(
                f"Push.settings_version: expected 0 to {self.version}, got {version}."
            )
        return self._settings[version]

    def news(self, known: int) -> tuple[int, dict[str, Any] | None]:
        """Return the newest version, and its settings if a worker knows another one."""
        return self.version, None if known == self.version else self.settings.for_worker()

    def acknowledge(self, member: Member, version: int) -> None:
        """Note under which settings a member has pushed."""
        member.settings_version = version
        self._report_applied()

    # -- what took effect -------------------------------------------------------------

    def _report_applied(self) -> None:
        if not self._pending:
            return
        used = [member.settings_version for member in self.active()]
        for version in [v for v in self._pending if used and v <= min(used)]:
            self._publish(CommandApplied(time.time(), *self._pending.pop(version)))

    def _report_pause(self) -> None:
        if self._pausing and all(member.waiting for member in self.active()):
            self._pausing = False
            self._publish(CommandApplied(time.time(), Command.PAUSE, "every worker waits"))
