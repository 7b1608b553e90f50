"""The server's state of one run: who trains what, and what each worker is told.

Threads of all connections call in here; the state is changed under one lock, in short
pieces. Merging parameters, the long part, happens outside of it, in the store.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .combiners.base import Combiner, Pushes
from .control import Command, Machine, RunEvent, RunState
from .data.source import DataSource
from .errors import (
    NonFiniteUpdate,
    RemoteProtocolError,
    SessionClosed,
    TosError,
    WorkerError,
)
from .events import (
    CommandAccepted,
    CommandApplied,
    EpochFinished,
    Event,
    MilestoneCommitted,
    PartitionFinished,
    StateChanged,
    UpdateSkipped,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)
from .ps.ledger import Admission, Ledger, Position
from .ps import store as ps
from .wire.messages import (
    Directive,
    Failed,
    Finish,
    Join,
    Joined,
    Poll,
    Proceed,
    Push,
    Reply,
    Status,
)

log = logging.getLogger(__name__)

NonFinite = Literal["raise", "skip"]
"""What a non-finite update does: end the run, or be left out."""

LONG_POLL = 0.5
"""Seconds for which a waiting worker's question is held back, so that it hears at once."""

SETTLE = 5.0
"""Seconds that the end of a run waits for pushes that are being merged."""


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
    waiting: bool = False
    left: bool = False

    def who(self) -> dict[str, Any]:
        """Return what events say of it."""
        names = ("partition", "attempt", "executor", "host")
        return {name: getattr(self, name) for name in names}


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
class _Settings:
    sync_interval: int
    learning_rate: float | None
    combiner: Combiner

    def for_worker(self) -> dict[str, Any]:
        return {
            "sync_interval": self.sync_interval,
            "learning_rate": self.learning_rate,
            "pushes": self.combiner.pushes,
        }


class Training:
    """One run, from the server's side.

    Parameters
    ----------
    run_id : str
    store : ps.store.Store
        The center parameters.
    combiner : Combiner
    sync_interval : int
        Batches between two exchanges.
    publish : callable
        Takes an event.
    locate : callable
        Takes a Spark task attempt id, returns (executor id, host).
    on_failure : callable
        Called once, from a connection's thread, when the run cannot go on.
    non_finite : {"raise", "skip"}
    """

    def __init__(
        self,
        run_id: str,
        store: ps.Store,
        combiner: Combiner,
        sync_interval: int,
        publish: Callable[[Event], None],
        locate: Callable[[int], tuple[str, str]],
        on_failure: Callable[[], None],
        non_finite: NonFinite = "raise",
    ) -> None:
        self.run_id = run_id
        self.store = store
        self.machine = Machine()
        self.failures: list[WorkerError] = []
        self.error: TosError | None = None
        self._publish = publish
        self._locate = locate
        self._on_failure = on_failure
        self._non_finite = non_finite
        self._ledger = Ledger()
        self._members: dict[int, Member] = {}
        self._leg: Leg | None = None
        self._settings = [_Settings(sync_interval, None, combiner)]
        self._pending: dict[int, tuple[str, str]] = {}
        self._pausing = False
        self._merging = 0
        self._samples: Counter[int] = Counter()
        # Orders changes of settings, and is taken before all other locks. Never wait for the
        # store under the state's lock: a user's combiner may hold the store for long.
        self._steering = threading.Lock()
        # Reentrant, so that small helpers can say for themselves what they guard.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    # -- the driver's side ------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in force for whoever asks next, and the combiner."""
        return self._settings[-1].for_worker() | {"combiner": self._settings[-1].combiner}

    def begin_leg(self, source: DataSource, first_epoch: int, last_epoch: int) -> Leg:
        """Let the workers of the next Spark job in."""
        with self._lock:
            self._leg = Leg(source, first_epoch, last_epoch)
            self._ledger.partitions = source.partitions
            self._members.clear()
            return self._leg

    def command(self, command: Command, detail: str) -> None:
        """Apply a command to the state machine.

        Raises
        ------
        InvalidTransition
            The state does not allow it; nothing was changed.
        """
        with self._changed:
            before = self.machine.state
            self.machine.command(command)
            self._publish(CommandAccepted(time.time(), command, detail))
            self._report_state(before)
            self._pausing = command is Command.PAUSE or (self._pausing and command in PASSIVE)
            self._changed.notify_all()

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened.

        At the end of a run, waits for the pushes under way; none is merged afterwards.
        """
        with self._changed:
            before = self.machine.state
            self.machine.event(event)
            self._report_state(before)
            self._changed.notify_all()
            if event is RunEvent.ENDED and not self._changed.wait_for(self._is_idle, SETTLE):
                log.warning("A push of %s is still being merged after its end.", self.run_id)

    def change_settings(self, command: Command, detail: str, **changes: Any) -> None:
        """Change sync_interval, learning_rate or combiner, from each worker's next milestone on.

        Raises
        ------
        InvalidTransition
            The run is over.
        """
        with self._steering:
            self.command(command, f"{detail}, from the next milestone on")
            if "combiner" in changes:
                # The store must know it before the first worker prepares a push for it.
                self.store.swap(changes["combiner"])
            with self._lock:
                self._settings.append(replace(self._settings[-1], **changes))
                self._pending[len(self._settings) - 1] = (command, detail)

    def end_leg_early(self, detail: str) -> None:
        """Let the workers leave when the latest epoch that any of them has begun is done."""
        with self._lock:
            self.command(Command.REPARTITION, detail)
            if self._leg is not None:
                self._leg.last_epoch = min(self._leg.last_epoch, self._leg.started)

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts, even one that comes after the end."""
        with self._lock:
            self.error = self.error or error
            if not self.machine.active:
                return
            self.report(RunEvent.FAILED)
        try:
            self._on_failure()
        except Exception:
            log.warning("The job of %s could not be cancelled.", self.run_id, exc_info=True)

    # -- the workers' side ------------------------------------------------------------

    def join(
        self, message: Join, center: npt.NDArray[np.uint8], shared: bool
    ) -> tuple[Member, Joined]:
        """Let a worker open its partition.

        Parameters
        ----------
        message : Join
        center : ndarray, shape (layout.nbytes,), uint8
            Filled with the parameters that the worker begins with.
        shared : bool
            Whether payloads lie in the worker's segment.

        Raises
        ------
        SessionClosed
            It belongs to a run or a job that is over.
        """
        executor, host = self._locate(message.task)
        with self._lock:
            leg, position = self._begin(message)
            version = len(self._settings) - 1
            member = Member(
                message.partition,
                message.attempt,
                message.task,
                executor,
                host if host != "?" else message.host,
                version,
            )
            self._replace(member)
            if self.machine.state is RunState.STARTING:
                self.report(RunEvent.STARTED)
            now = time.time()
            self._publish(
                WorkerJoined(now, **member.who(), epoch=position.epoch, resumed_at=position.steps)
            )
            settings, last_epoch = self._settings[-1].for_worker(), leg.last_epoch
            directive = self._next(member, position.epoch)
        return member, Joined(
            position.epoch,
            position.steps,
            position.sequence,
            self.store.read(center)[1],
            last_epoch,
            settings,
            version,
            directive,
            shared,
        )

    def push(self, member: Member, message: Push, update: npt.NDArray[np.uint8]) -> Reply:
        """Merge a push; on return `update` holds what the worker adopts.

        Raises
        ------
        RemoteProtocolError
            The push contradicts itself, or what was committed before; nothing was changed.
        """
        with self._lock:
            kind = self._checked(message).combiner.pushes
            status = self._admit(member, message)
            workers = sum(not m.left for m in self._members.values())
        version = None
        if status == "committed":
            version = self._merge(member, message, update, kind, max(1, workers))
            status = "skipped" if version is None else status
        if version is None:
            version = self.store.read(update)[1]
        with self._lock:
            self._acknowledge(member, message.settings_version)
            news = self._news(message.settings_version)
            return Reply(version, status, self._tell(member), *news)

    def _merge(
        self,
        member: Member,
        message: Push,
        update: npt.NDArray[np.uint8],
        kind: Pushes,
        workers: int,
    ) -> int | None:
        """Return the version that the push made, None if it was refused."""
        push = ps.Push(
            member.partition, message.base_version, message.steps, message.samples, workers, kind
        )
        try:
            self.store.check_finite(update)
            merged = self.store.merge(update, push)
            self._publish(_milestone(member, message, merged, update.nbytes))
        except Exception as error:
            self._refuse(member, message, error)
            return None
        finally:
            with self._changed:
                self._merging -= 1
                self._changed.notify_all()
        return merged.version

    def _refuse(self, member: Member, message: Push, error: Exception) -> None:
        """Deal with an update that was not merged: leave it out, or end the run."""
        if isinstance(error, NonFiniteUpdate) and self._non_finite == "skip":
            place = (message.epoch, member.partition, member.attempt, message.sequence)
            self._publish(UpdateSkipped(time.time(), *place, str(error)))
            return
        with self._lock:
            self._ledger.revoke(message.epoch, member.partition, member.task, message.sequence)
        if not isinstance(error, TosError):
            raise error
        self.fail(error)

    def finish(self, member: Member, message: Finish) -> Proceed:
        """Take note that a worker used up its partition in one epoch.

        Raises
        ------
        RemoteProtocolError
            It did not train what was committed: the data is another one than before.
        """
        with self._lock:
            if self._is_current(member) and self.machine.active:
                self._check_finish(member, message)
                admission = self._ledger.finish(message.epoch, member.partition, member.task)
                if admission is Admission.COMMIT:
                    self._report_finish(member, message)
            return Proceed(
                self._next(member, message.epoch + 1), *self._news(member.settings_version)
            )

    def poll(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker: at once if it may go on, else after `LONG_POLL`."""
        with self._changed:
            member.waiting = True
            self._report_pause()
            self._changed.wait_for(
                lambda: self._directive(member) is not Directive.WAIT, timeout=LONG_POLL
            )
            directive = self._tell(member)
            member.waiting = directive is Directive.WAIT
            return Proceed(directive, *self._news(message.settings_version))

    def failed(self, member: Member, message: Failed) -> Proceed:
        """Record what a worker raised; the second time at one place it ends the run.

        What a superseded attempt raises, or one whose run is over, is nobody's business.
        """
        leave = Proceed(Directive.LEAVE, member.settings_version, None)
        error = WorkerError(message.message, **member.who(), frames=message.frames)
        with self._lock:
            if not self._is_current(member) or not self.machine.active:
                return leave
            again = any(
                (e.message, e.partition) == (error.message, error.partition) for e in self.failures
            )
            self.failures.append(error)
            self._publish(
                WorkerFailed(
                    time.time(), **member.who(), message=error.message, frames=error.frames
                )
            )
            self._leave(member)
        if again:
            self.fail(error)
        return leave

    def lost(self, member: Member, reason: str) -> None:
        """Take note that a worker's connection ended."""
        with self._lock:
            if self._is_current(member) and self.machine.active and not member.left:
                self._publish(WorkerLost(time.time(), **member.who(), reason=reason))
                self._leave(member)

    def rows(self, member: Member, column: int) -> npt.NDArray[Any]:
        """Return one column of a worker's partition, which the driver holds."""
        with self._lock:
            leg = self._leg if self._is_current(member) else None
        rows = None if leg is None else leg.source.rows(member.partition)
        if rows is None or not 0 <= column < len(rows):
            raise RemoteProtocolError(f"There is no column {column} to fetch.")
        return np.ascontiguousarray(rows[column])

    # -- under the lock ---------------------------------------------------------------

    def _begin(self, message: Join) -> tuple[Leg, Position]:
        leg = self._leg
        if message.run != self.run_id or leg is None or not self.machine.active:
            raise SessionClosed(f"Run {message.run} is over; this is run {self.run_id}.")
        position = self._ledger.begin(message.partition, message.task, leg.first_epoch)
        if position is Admission.SUPERSEDED:
            raise SessionClosed(f"Partition {message.partition} belongs to a later attempt by now.")
        return leg, position

    def _replace(self, member: Member) -> None:
        """Let a member have its partition, in place of an earlier attempt."""
        earlier = self._members.get(member.partition)
        if earlier is not None:
            self.lost(earlier, "a later attempt has taken its place")
        self._members[member.partition] = member

    def _admit(self, member: Member, message: Push) -> Status:
        if not self._is_current(member):
            return "superseded"
        if not self.machine.active:
            return "skipped"
        admission = self._ledger.admit(
            message.epoch, member.partition, member.task, message.sequence, message.steps
        )
        self._merging += admission is Admission.COMMIT
        return _STATUS[admission]

    def _check_finish(self, member: Member, message: Finish) -> None:
        committed = self._ledger.committed(message.epoch, member.partition).steps
        if message.steps != committed or message.samples < 0:
            raise RemoteProtocolError(
                f"Partition {member.partition}, epoch {message.epoch}: expected {committed} batches "
                f"as committed, got {message.steps} of {message.samples} rows. A partition must "
                "hold the same rows at every attempt: cache the data."
            )

    def _report_finish(self, member: Member, message: Finish) -> None:
        epoch, now = message.epoch, time.time()
        self._samples[epoch] += message.samples
        self._publish(PartitionFinished(now, epoch, member.partition, message.samples))
        if self._ledger.epoch_done(epoch, self._ledger.partitions or 0):
            self._publish(EpochFinished(now, epoch, self._samples.pop(epoch)))

    def _next(self, member: Member, epoch: int) -> Directive:
        """Return what a worker does that is about to begin an epoch."""
        leg = self._leg
        if not self._is_current(member) or leg is None or epoch > leg.last_epoch:
            self._leave(member)
            return Directive.LEAVE
        leg.started = max(leg.started, epoch)
        return self._tell(member)

    def _report_state(self, before: str) -> None:
        if self.machine.state != before:
            self._publish(StateChanged(time.time(), self.machine.state))

    def _is_current(self, member: Member) -> bool:
        return self._members.get(member.partition) is member

    def _is_idle(self) -> bool:
        return self._merging == 0

    def _directive(self, member: Member) -> Directive:
        if not self._is_current(member):
            return Directive.STOP
        return DIRECTIVES.get(self.machine.state, Directive.STOP)

    def _tell(self, member: Member) -> Directive:
        """Return what a worker does next; one that is told to stop leaves in order."""
        directive = self._directive(member)
        if directive is Directive.STOP:
            self._leave(member)
        return directive

    def _leave(self, member: Member) -> None:
        """Expect nothing more of a member, nor let anything wait for it."""
        member.left = True
        self._report_pause()
        self._report_applied()

    def _news(self, known: int) -> tuple[int, dict[str, Any] | None]:
        """Return the settings' version, and the settings if the worker has older ones."""
        newest = len(self._settings) - 1
        return newest, None if known == newest else self._settings[-1].for_worker()

    def _checked(self, message: Push) -> _Settings:
        """Return the settings under which a worker prepared its push."""
        _check_range("settings_version", message.settings_version, 0, len(self._settings) - 1)
        _check_range("base_version", message.base_version, 0, self.store.version)
        _check_range("samples", message.samples, 1, math.inf)
        return self._settings[message.settings_version]

    def _acknowledge(self, member: Member, version: int) -> None:
        member.settings_version = version
        self._report_applied()

    def _report_applied(self) -> None:
        """Report the changed settings that by now every active worker has used."""
        used = [m.settings_version for m in self._members.values() if not m.left]
        for pending in [v for v in self._pending if used and v <= min(used)]:
            self._publish(CommandApplied(time.time(), *self._pending.pop(pending)))

    def _report_pause(self) -> None:
        """Report a pause once every active worker waits."""
        if self._pausing and all(m.waiting or m.left for m in self._members.values()):
            self._pausing = False
            self._publish(CommandApplied(time.time(), Command.PAUSE, "every worker waits"))


def _check_range(field_name: str, value: int, low: int, high: float) -> None:
    if not low <= value <= high:
        raise RemoteProtocolError(f"Push.{field_name}: expected {low} to {high}, got {value}.")


def _milestone(member: Member, message: Push, merged: ps.Merge, nbytes: int) -> MilestoneCommitted:
    return MilestoneCommitted(
        time=time.time(),
        **member.who(),
        epoch=message.epoch,
        sequence=message.sequence,
        steps=message.steps,
        samples=message.samples,
        loss=message.loss,
        staleness=merged.staleness,
        version=merged.version,
        compute=message.compute,
        wait=message.wait,
        exchange=message.exchange,
        bytes_up=nbytes,
        bytes_down=nbytes,
        metrics=message.metrics,
    )


_STATUS: dict[Admission, Status] = {
    Admission.COMMIT: "committed",
    Admission.DUPLICATE: "duplicate",
    Admission.SUPERSEDED: "superseded",
}

DIRECTIVES = {
    RunState.STARTING: Directive.GO,
    RunState.RUNNING: Directive.GO,
    RunState.PAUSED: Directive.WAIT,
}
"""What workers are told in each state; in all others they stop."""

PASSIVE = (Command.SET, Command.SWAP_COMBINER, Command.REPARTITION)
"""Commands that do not end a pause."""
