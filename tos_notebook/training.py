"""The server's state of one run: who trains what, and what each worker is told.

Threads of all connections call in here; the state is changed under one lock, in short
pieces. Merging parameters, the long part, happens outside of it, in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
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
from .ps.ledger import Admission, Ledger
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

NonFinite = Literal["raise", "skip"]
"""What a non-finite update does: end the run, or be left out."""

LONG_POLL = 0.5
"""Seconds for which a waiting worker's question is held back, so that it hears at once."""


@dataclass(eq=False, slots=True)
class Member:
    """A worker that has joined, as the server sees it."""

    partition: int
    attempt: int
    task: int
    executor: str
    host: str
    epoch: int
    settings_version: int
    waiting: bool = False
    left: bool = False


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
            self._emit(CommandAccepted(time.time(), command, detail))
            self._report_state(before)
            self._pausing = command is Command.PAUSE or (self._pausing and command in PASSIVE)
            self._changed.notify_all()

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        with self._changed:
            before = self.machine.state
            self.machine.event(event)
            self._report_state(before)
            self._changed.notify_all()

    def change_settings(self, command: Command, detail: str, **changes: Any) -> None:
        """Change sync_interval, learning_rate or combiner, from each worker's next milestone on.

        Raises
        ------
        InvalidTransition
            The run is over.
        """
        with self._lock:
            self.command(command, f"{detail}, from the next milestone on")
            last = self._settings[-1]
            values = {n: getattr(last, n) for n in ("sync_interval", "learning_rate", "combiner")}
            self._settings.append(_Settings(**(values | changes)))
            self.store.swap(self._settings[-1].combiner)
            self._pending[len(self._settings) - 1] = (command, detail)

    def end_leg_early(self, detail: str) -> None:
        """Let the workers leave when the latest epoch that any of them has begun is done."""
        with self._lock:
            self.command(Command.REPARTITION, detail)
            if self._leg is not None:
                self._leg.last_epoch = min(self._leg.last_epoch, self._leg.started)

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts."""
        with self._changed:
            if self.error is not None or not self.machine.active:
                return
            self.error = error
            self.report(RunEvent.FAILED)
        self._on_failure()

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
            leg = self._leg
            if message.run != self.run_id or leg is None:
                raise SessionClosed(f"Run {message.run} is over; this is run {self.run_id}.")
            position = self._ledger.begin(message.partition, message.task, leg.first_epoch)
            if position is Admission.SUPERSEDED:
                raise SessionClosed(
                    f"Partition {message.partition} belongs to a later attempt by now."
                )
            leg.started = max(leg.started, position.epoch)
            version = len(self._settings) - 1
            member = Member(
                message.partition,
                message.attempt,
                message.task,
                executor,
                host if host != "?" else message.host,
                position.epoch,
                version,
            )
            self._members[message.partition] = member
            if self.machine.state is RunState.STARTING:
                self.report(RunEvent.STARTED)
            self._emit(
                WorkerJoined(
                    time.time(),
                    member.partition,
                    member.attempt,
                    member.executor,
                    member.host,
                    position.epoch,
                    position.steps,
                )
            )
            return member, Joined(
                position.epoch,
                position.steps,
                position.sequence,
                self.store.read(center)[1],
                leg.last_epoch,
                self._settings[-1].for_worker(),
                version,
                self._directive(member),
                shared,
            )

    def push(self, member: Member, message: Push, update: npt.NDArray[np.uint8]) -> Reply:
        """Merge a push; on return `update` holds what the worker adopts."""
        with self._lock:
            admission = self._ledger.admit(
                message.epoch, member.partition, member.task, message.sequence, message.steps
            )
            kind = self._settings_of(message.settings_version).combiner.pushes
            workers = sum(not m.left for m in self._members.values())
        version, status = None, _STATUS[admission]
        if admission is Admission.COMMIT:
            version = self._merge(member, message, update, kind, max(1, workers))
            status = "skipped" if version is None else "committed"
        if version is None:
            version = self.store.read(update)[1]
        with self._lock:
            self._acknowledge(member, message.settings_version)
            return Reply(
                version,
                status,
                self._directive(member),
                *self._news(message.settings_version),
            )

    def _merge(
        self,
        member: Member,
        message: Push,
        update: npt.NDArray[np.uint8],
        kind: Pushes,
        workers: int,
    ) -> int | None:
        """Return the version that the push made, None if it was refused."""
        nbytes = update.nbytes
        push = ps.Push(
            member.partition, message.base_version, message.steps, message.samples, workers, kind
        )
        try:
            self.store.check_finite(update)
            merged = self.store.merge(update, push)
        except TosError as error:
            self._refuse(member, message, error)
            return None
        self._publish(
            MilestoneCommitted(
                time=time.time(),
                epoch=message.epoch,
                partition=member.partition,
                executor=member.executor,
                host=member.host,
                attempt=member.attempt,
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
        )
        return merged.version

    def _refuse(self, member: Member, message: Push, error: TosError) -> None:
        """Deal with an update that was not merged: leave it out, or end the run."""
        if isinstance(error, NonFiniteUpdate) and self._non_finite == "skip":
            self._publish(
                UpdateSkipped(
                    time.time(),
                    message.epoch,
                    member.partition,
                    member.attempt,
                    message.sequence,
                    str(error),
                )
            )
            return
        with self._lock:
            self._ledger.revoke(message.epoch, member.partition, member.task, message.sequence)
        self.fail(error)

    def finish(self, member: Member, message: Finish) -> Proceed:
        """Take note that a worker used up its partition in one epoch."""
        with self._lock:
            admission = self._ledger.finish(message.epoch, member.partition, member.task)
            leg = self._leg
            if admission is Admission.SUPERSEDED or leg is None:
                return self._proceed(member, Directive.LEAVE, message_version=None)
            self._emit(
                PartitionFinished(time.time(), message.epoch, member.partition, message.samples)
            )
            if self._ledger.epoch_done(message.epoch, leg.source.partitions):
                self._emit(EpochFinished(time.time(), message.epoch, 0))
            if message.epoch >= leg.last_epoch:
                member.left = True
                return self._proceed(member, Directive.LEAVE, message_version=None)
            member.epoch = message.epoch + 1
            leg.started = max(leg.started, member.epoch)
            return self._proceed(member, self._directive(member), message_version=None)

    def poll(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker: at once if it may go on, else after `LONG_POLL`."""
        with self._changed:
            member.waiting = True
            self._report_pause()
            self._changed.wait_for(
                lambda: self._directive(member) is not Directive.WAIT, timeout=LONG_POLL
            )
            directive = self._directive(member)
            member.waiting = directive is Directive.WAIT
            return self._proceed(member, directive, message.settings_version)

    def failed(self, member: Member, message: Failed) -> Proceed:
        """Record what a worker raised; the second time at one place it ends the run."""
        error = WorkerError(
            message.message,
            member.executor,
            member.host,
            member.partition,
            member.attempt,
            message.frames,
        )
        with self._lock:
            member.left = True
            again = any(
                (e.message, e.partition) == (error.message, error.partition) for e in self.failures
            )
            self.failures.append(error)
            self._emit(
                WorkerFailed(
                    time.time(),
                    member.partition,
                    member.attempt,
                    member.executor,
                    member.host,
                    message.message,
                    tuple(message.frames),
                )
            )
        if again:
            self.fail(error)
        return Proceed(Directive.LEAVE, member.settings_version, None)

    def lost(self, member: Member, reason: str) -> None:
        """Take note that a worker's connection ended."""
        with self._lock:
            if member.left or not self.machine.active:
                return
            member.left = True
            self._emit(
                WorkerLost(
                    time.time(),
                    member.partition,
                    member.attempt,
                    member.executor,
                    member.host,
                    reason,
                )
            )

    def rows(self, member: Member, column: int) -> npt.NDArray[Any]:
        """Return one column of a worker's partition, which the driver holds."""
        leg = self._leg
        rows = None if leg is None else leg.source.rows(member.partition)
        if rows is None or not 0 <= column < len(rows):
            raise RemoteProtocolError(f"There is no column {column} to fetch.")
        return np.ascontiguousarray(rows[column])

    # -- under the lock ---------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        self._publish(event)

    def _report_state(self, before: str) -> None:
        if self.machine.state != before:
            self._emit(StateChanged(time.time(), self.machine.state))

    def _directive(self, member: Member) -> Directive:
        if self._members.get(member.partition) is not member:
            return Directive.STOP
        return DIRECTIVES.get(self.machine.state, Directive.STOP)

    def _news(self, known: int) -> tuple[int, dict[str, Any] | None]:
        """Return the settings' version, and the settings if the worker has older ones."""
        newest = len(self._settings) - 1
        return newest, None if known == newest else self._settings[-1].for_worker()

    def _proceed(
        self, member: Member, directive: Directive, message_version: int | None
    ) -> Proceed:
        known = member.settings_version if message_version is None else message_version
        return Proceed(directive, *self._news(known))

    def _settings_of(self, version: int) -> _Settings:
        """Return the settings under which a worker prepared its push."""
        if not 0 <= version < len(self._settings):
            raise RemoteProtocolError(
                f"Push.settings_version: expected 0 to {len(self._settings) - 1}, got {version}."
            )
        return self._settings[version]

    def _acknowledge(self, member: Member, version: int) -> None:
        """Report the changed settings that by now every active worker has used."""
        member.settings_version = version
        if not self._pending:
            return
        slowest = min(
            (m.settings_version for m in self._members.values() if not m.left), default=version
        )
        for pending in [v for v in self._pending if v <= slowest]:
            self._emit(CommandApplied(time.time(), *self._pending.pop(pending)))

    def _report_pause(self) -> None:
        """Report a pause once every active worker waits."""
        if self._pausing and all(m.waiting or m.left for m in self._members.values()):
            self._pausing = False
            self._emit(CommandApplied(time.time(), Command.PAUSE, "every worker waits"))


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
