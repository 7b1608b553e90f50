"""The state of one run, under one lock, on which requests, reports, commands and copies work."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..blocks.labels import Counts
from ..chaos.mishap import NOTHING, Mishap
from ..chaos.rules import Rule
from ..chaos.state import Chaos
from ..errors import SessionClosed, TosError, WorkerError, blamed
from ..events import CommandAccepted, Event, StateChanged, WorkerLost
from ..steering.machine import Command, Machine, RunEvent, RunState
from ..steering.source import source
from ..wire.messages import Directive
from ..wire.settings import WorkerSettings
from .acknowledgements import Acknowledgements
from .job_span import DataLayout, JobSpan
from .ledger import Ledger
from .membership import Member, Membership
from .merge_gate import MergeGate
from .run_lock import RunLock
from .settings import Settings
from .settings_log import SettingsLog
from .timeouts import Timeouts

log = logging.getLogger(__name__)

KEPT_FAILURES = 64
"""Errors of workers of which the whole text is kept."""

KEPT_JOINS = 1000
"""Attempts at one partition of a job that events report. Spark gives up long before; more come
only from a peer that is not a worker of Spark's, and would fill the history."""


@dataclass(slots=True)
class Untrained:
    """Rows of a partition that were not trained, since it had no worker."""

    partition: int
    first: int
    """Epochs, from 0."""
    last: int
    rows: int = 0
    """But for those of the epochs below."""
    uncounted: int = 0
    """Epochs of which it may still be learned how many rows the partition has."""
    unknown: bool = False
    """Whether there are others, of which it will not."""

    def settle(self, count: int) -> None:
        """Take note of how many rows the partition has."""
        self.rows += self.uncounted * count
        self.uncounted = 0

    def __str__(self) -> str:
        first, last = self.first + 1, self.last + 1
        when = f"epoch {first}" if first == last else f"epochs {first} to {last}"
        rows = "an unknown number" if self.uncounted or self.unknown else f"{self.rows:,}"
        return (
            f"Partition {self.partition} had no worker in {when}, and the others continued "
            f"without it: {rows} of its rows were not trained."
        )


@dataclass(slots=True)
class RowRecords:
    """What the run knows of its partitions' rows, and what a resumed one has yet to see."""

    counts: dict[int, int] = field(default_factory=dict)
    """Of each partition, as far as one was used up."""
    unconfirmed: set[int] = field(default_factory=set)
    """Partitions of a resumed run whose streams must first show that they are the same."""
    unproven: set[int] = field(default_factory=set)
    """Partitions of a resumed run of which no epoch has shown yet that it has as many rows."""
    spoiled: bool = False
    """Whether rows were trained that are not those from before."""
    untrained: dict[int, Untrained] = field(default_factory=dict)
    """Of partitions without which the run continued."""

    def count(self, partition: int, rows: int) -> None:
        """Take note of how many rows a partition has, which was used up."""
        self.counts[partition] = rows
        if partition in self.untrained:
            self.untrained[partition].settle(rows)

    def forget_counts(self) -> None:
        """Forget how many rows partitions have, since other ones take their places."""
        self.counts.clear()
        for lost in self.untrained.values():
            lost.unknown |= lost.uncounted > 0
            lost.uncounted = 0


# Python 3.11 calls a function to look a member up in its enumeration: too long for every push.
_GO, _STOP = Directive.GO, Directive.STOP


class ControlState:
    """One run's ledger, members, settings and machine; every change is short, under the lock.

    It has at most 30 attributes: CPython reads those of a larger object from a dictionary, and
    every push reads two dozen of these.

    Parameters
    ----------
    run_id : str
    settings : Settings
        Those that it begins with.
    publish : callable
        Takes an event.
    locate : callable
        Takes a Spark task attempt id, returns (executor id, host).
    on_failure : callable
        Called once, from a connection's thread, when the run cannot continue.
    timeouts : Timeouts
    """

    def __init__(
        self,
        run_id: str,
        settings: Settings,
        publish: Callable[[Event], None],
        locate: Callable[[int], tuple[str, str]],
        on_failure: Callable[[], None],
        timeouts: Timeouts,
    ) -> None:
        self.run_id = run_id
        self.timeouts = timeouts
        self.machine = Machine()
        self.reason: str | None = None
        """Why the run was stopped, if it was and there is a reason."""
        self.failures: deque[WorkerError] = deque(maxlen=KEPT_FAILURES)
        self.raised = 0
        """How many there were, with those that are not kept any more."""
        self.error: TosError | None = None
        self.skew: tuple[str, ...] = ()
        # Batches of updates that were not finite, and why the first was left out.
        self._left_out, self._left_out_first = 0, ""
        self.publish, self.locate = publish, locate
        self._on_failure = on_failure
        self.ledger = Ledger()
        self.membership = Membership()
        self.settings_log = SettingsLog(settings)
        self.acknowledgements = Acknowledgements(self.membership, publish)
        self.chaos = Chaos()
        self.span: JobSpan | None = None
        # The layout that the ledger's contents are of, and `rows`.
        self.layout: DataLayout | None = None
        self.rows = RowRecords()
        # The layout that the ledger's earlier contents are of.
        self.earlier: DataLayout | None = None
        # Rows of each label in the partitions of a layout in which the rows came.
        self.labels: dict[int, Counts] = {}
        # Milestones of each partition.
        self.committed: Counter[int] = Counter()
        self.settled = False
        self.samples: Counter[int] = Counter()
        # Orders changes of settings; taken before all other locks.
        self.steering = threading.Lock()
        # Reentrant, so that each small helper can take it for itself. No thread
        # waits for parameters while it holds this: a user's combiner may keep them for long.
        self.lock = RunLock()
        # Python's own hints know no other locks than its own.
        self.changed = threading.Condition(self.lock)  # type: ignore[arg-type]
        self.gate = MergeGate(self.changed)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.settings_log.settings

    @property
    def gone_by(self) -> Settings:
        """The same; of a run that is over, without what was asked for and never came into force."""
        with self.lock:
            return self.settings if self.machine.active else self.settings_log.used

    @property
    def chaos_rules(self) -> tuple[Rule, ...]:
        """The rules that may still strike."""
        return self.chaos.in_force(self.membership.partitions)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know: that partitions differ, how workers exchange, what is left."""
        with self.lock:
            links = self.membership.links
            notes = self.skew + ((links.text,) if links else ())
            notes += tuple(map(str, self.rows.untrained.values()))
            if not self._left_out:
                return notes
            batches = "1 batch" if self._left_out == 1 else f"{self._left_out} batches"
            return *notes, f"The server left out {batches}. The first: {self._left_out_first}"

    def command(
        self, command: Command, detail: str = "", changes: Mapping[str, str] | None = None
    ) -> None:
        """Apply a command to the state machine; `detail` and `changes` are the event's.

        Raises
        ------
        InvalidTransition
            The state does not allow it; nothing was changed.
        """
        with self.changed:
            before = self.machine.state
            self.machine.command(command)
            if command is Command.STOP:
                self.reason = detail or None
            asked = CommandAccepted(time.time(), command, detail, changes or {}, source())
            self.publish(asked)
            self.report_state(before)
            if command in ENDS_PAUSE:
                self.acknowledgements.expect_pause(command is Command.PAUSE)
            self.changed.notify_all()

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        with self.changed:
            before = self.machine.state
            self.machine.event(event)
            self.report_state(before)
            self.changed.notify_all()

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts, even one that comes after the end."""
        with self.lock:
            self.error = self.error or blamed(error)
            if not self.machine.active:
                return
            self.report(RunEvent.FAILED)
        try:
            self._on_failure()
        except Exception:
            log.warning("The job of %s could not be canceled.", self.run_id, exc_info=True)

    def trains(self, member: Member) -> bool:
        """Return whether a partition is a worker's, and it has not left."""
        with self.lock:
            return self.membership.present(member.partition) is member

    def lost(self, member: Member, reason: str) -> None:
        """Note that a worker's connection has ended."""
        with self.lock:
            if self.membership.present(member.partition) is member and self.machine.active:
                if member.announced:
                    self.publish(WorkerLost(time.time(), **member.who(), reason=reason))
                self.leave(member)

    def check_current(self, member: Member) -> None:
        """Raise SessionClosed for a superseded task.

        If it returned normally, Spark would count its partition as done.
        """
        if not self.membership.is_current(member):
            raise SessionClosed(f"Partition {member.partition} belongs to a later attempt by now.")

    def issue_directive(self, member: Member) -> Directive:
        """Return what a worker does next; one that is told to stop leaves in order."""
        directive = self.directive(member)
        if directive is _STOP:
            self.leave(member)
        return directive

    def directive(self, member: Member) -> Directive:
        """Return what a worker does next."""
        if self.settled or not self.membership.is_current(member):
            return Directive.STOP
        if self.span is not None and self.span.ended is not None:
            return Directive.STOP
        directive = DIRECTIVES.get(self.machine.state, _STOP)
        if directive is _GO and self._is_ahead(member):
            return Directive.WAIT
        return directive

    def _is_ahead(self, member: Member) -> bool:
        """Whether a worker must wait for slower ones."""
        settings = self.settings_log.settings
        if not settings.strategy.lockstep:
            return self.membership.is_ahead(member, settings.sync.slack)
        # Within an epoch it waits with what it reports. The first epoch of a job has none before.
        first = member.epoch if self.span is None else self.span.first_epoch
        partitions = self.ledger.partitions or 0
        return member.epoch > first and not self.ledger.epoch_done(member.epoch - 1, partitions)

    def leave(self, member: Member) -> None:
        """Expect nothing more of a worker; no other worker and no command waits for it."""
        self.lock.changed = True
        self.membership.leave(member)
        self.acknowledgements.report_pause()
        self.acknowledgements.report_changes()
        self.changed.notify_all()

    def wait(self, member: Member) -> None:
        """Note that a worker waits."""
        member.waiting = True
        self.acknowledgements.report_pause()

    def acknowledge(self, member: Member, version: int) -> None:
        """Note under which settings a worker has pushed."""
        member.settings_version = version
        self.settings_log.use(version)
        self.acknowledgements.report_changes()

    def tick(self, member: Member, milestones: int = 1) -> None:
        """Note that a worker has reached milestones, under the settings that it has now."""
        member.clock += milestones
        self.chaos.tick(member.partition, member.settings_version, milestones)

    def change_settings(self, command: str, detail: str, **changes: Any) -> None:
        """Add a version of the settings; report it once every active worker has pushed under it.

        Parameters
        ----------
        command, detail : str
            What the report says.
        **changes
            See `Settings.changed`.
        """
        if "sync" in changes:
            self.membership.reset_clocks()
        self.settings_log.change(self.membership.settings_versions(), **changes)
        version = self.settings_log.version
        self.acknowledgements.expect_change(version, command, detail, frozenset(changes))
        if "chaos" in changes:
            self.chaos = Chaos(self.settings.chaos, version)
            self.acknowledgements.expect_chaos_end(bool(self.settings.chaos))

    def news(
        self, member: Member, known: int, directive: Directive
    ) -> tuple[int, WorkerSettings | None]:
        """Return the newest version, and its settings if a worker must hear of any.

        Parameters
        ----------
        member : Member
        known : int
            The version that it knows.
        directive : Directive
            What it does next.
        """
        version = member.told_version = self.settings_log.version
        if known == version and not self.chaos.asked_for:
            return version, None
        mishap = self._next_mishap(member, directive)
        if known == version and mishap == NOTHING:
            return version, None
        settings = self.settings.for_worker()
        if mishap != NOTHING:
            settings = replace(settings, chaos=mishap.to_json())
        return version, settings

    def _next_mishap(self, member: Member, directive: Directive) -> Mishap:
        """Return what happens to a worker in its next milestone, if it continues."""
        if not self.chaos.asked_for or directive is not Directive.GO:
            return NOTHING
        who = member.partition, member.executor, member.task
        mishap = self.chaos.strike(*who, self.membership.partitions)
        if not self.chaos_rules:
            self.acknowledgements.report_chaos_end()
        return mishap

    def report_state(self, before: str) -> None:
        """Publish the state, if it is not what it was."""
        if self.machine.state != before:
            self.publish(StateChanged(time.time(), self.machine.state))

    def leave_out(self, batches: int, error: BaseException) -> None:
        """Count batches that are not in the parameters, though the run continues."""
        with self.lock:
            if not self._left_out:
                self._left_out_first = str(error)
                log.warning("Run %s: the server left out a batch. %s", self.run_id, error)
            self._left_out += batches


ENDS_PAUSE = (Command.PAUSE, Command.UNPAUSE, Command.STOP)
"""Commands after which an earlier pause is not acknowledged any more."""

DIRECTIVES = {
    RunState.STARTING: Directive.GO,
    RunState.RUNNING: Directive.GO,
    RunState.PAUSED: Directive.WAIT,
}
"""What workers do in each state; in all others they stop."""
