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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .combiners.base import Combiner, Pushes
from .control import Command, Machine, RunEvent, RunState
from .data.blocks import Columns
from .data.source import DataSource
from .errors import NonFiniteUpdate, RemoteProtocolError, SessionClosed, TosError, WorkerError
from .events import (
    CommandAccepted,
    EpochFinished,
    Event,
    PartitionFinished,
    StateChanged,
    UpdateSkipped,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)
from .ps import store as ps
from .ps.ledger import Admission, Ledger, Position
from .roster import Leg, Member, Roster, Settings
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
        self._roster = Roster(Settings(sync_interval, None, combiner), publish)
        self._leg: Leg | None = None
        self._merging = 0
        self._settled = False
        self._samples: Counter[int] = Counter()
        # Orders changes of settings; taken before all other locks.
        self._steering = threading.Lock()
        # Reentrant, so that small helpers can say for themselves what they guard. Nobody waits
        # for the store while holding it: a user's combiner may keep the store for long.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    # -- the driver's side ------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in force for whoever asks next, and the combiner."""
        settings = self._roster.settings
        return settings.for_worker() | {"combiner": settings.combiner}

    def begin_leg(self, source: DataSource, first_epoch: int, last_epoch: int) -> Leg:
        """Let the workers of the next Spark job in."""
        with self._lock:
            self._leg = Leg(source, first_epoch, last_epoch)
            self._ledger.partitions = source.partitions
            self._roster.clear()
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
            if command not in PASSIVE:
                self._roster.watch_pause(command is Command.PAUSE)
            self._changed.notify_all()

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        with self._changed:
            before = self.machine.state
            self.machine.event(event)
            self._report_state(before)
            self._changed.notify_all()

    def settle(self) -> None:
        """Merge no further push, and wait for those under way: the center is final."""
        with self._changed:
            self._settled = True
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._merging == 0, SETTLE):
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
                self._roster.change(command, detail, **changes)

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
        RemoteProtocolError
            There is no such partition.
        """
        executor, host = self._locate(message.task)
        with self._lock:
            leg, position = self._begin(message)
            version = self._roster.version
            member = Member(
                message.partition,
                message.attempt,
                message.task,
                executor,
                host if host != "?" else message.host,
                version,
                tuple(message.metrics),
            )
            self._enter(member, position)
            settings, last_epoch = self._roster.settings.for_worker(), leg.last_epoch
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
        _check_range("base_version", message.base_version, 0, self.store.version)
        _check_range("samples", message.samples, max(1, message.steps), math.inf)
        _check_range("metrics", len(message.metrics), *[len(member.metrics)] * 2)
        with self._lock:
            kind = self._roster.settings_of(message.settings_version).combiner.pushes
            status = self._admit(member, message)
            workers = max(1, len(self._roster.active()))
        version = None
        if status == "committed":
            version = self._merge(member, message, update, kind, workers)
            status = "skipped" if version is None else status
        if version is None:
            version = self.store.read(update)[1]
        with self._lock:
            self._roster.acknowledge(member, message.settings_version)
            newest, settings = self._roster.news(message.settings_version)
            return Reply(version, newest, status, self._tell(member), settings)

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
            member.partition,
            message.base_version,
            message.steps,
            message.samples,
            workers,
            kind,
            message.finite,
        )
        try:
            merged = self.store.merge(update, push)
        except Exception as error:
            self._refuse(member, message, error)
            return None
        else:
            self._publish(member.milestone(message, merged, update.nbytes))
            return merged.version
        finally:
            with self._changed:
                self._merging -= 1
                self._changed.notify_all()

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
            It did not train what was committed: its rows are others than before.
        """
        with self._lock:
            if self._roster.is_current(member) and self.machine.active:
                self._check_finish(member, message)
                admission = self._ledger.finish(message.epoch, member.partition, member.task)
                if admission is Admission.COMMIT:
                    self._report_finish(member, message)
            directive = self._next(member, message.epoch + 1)
            return Proceed(directive, *self._roster.news(member.settings_version))

    def poll(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker: at once if it may go on, else after `LONG_POLL`."""
        with self._changed:
            self._roster.wait(member)
            self._changed.wait_for(
                lambda: self._directive(member) is not Directive.WAIT, timeout=LONG_POLL
            )
            directive = self._tell(member)
            member.waiting = directive is Directive.WAIT
            return Proceed(directive, *self._roster.news(message.settings_version))

    def failed(self, member: Member, message: Failed) -> Proceed:
        """Record what a worker raised; if it would raise again, that ends the run.

        So it is taken to be for an operation of the program, and for what comes twice from one
        partition. Else Spark may try again.

        What a superseded attempt raises counts for nothing, nor what comes after the end.
        """
        leave = Proceed(Directive.LEAVE, member.settings_version, None)
        error = WorkerError(
            message.message,
            **member.who(),
            frames=message.frames,
            epoch=message.epoch,
            batches=message.batches,
        )
        with self._lock:
            if not self._roster.is_current(member) or not self.machine.active:
                return leave
            again = message.in_program or any(
                (e.message, e.partition) == (error.message, error.partition) for e in self.failures
            )
            self.failures.append(error)
            self._publish(
                WorkerFailed(
                    time.time(),
                    **member.who(),
                    message=error.message,
                    frames=error.frames,
                    epoch=error.epoch,
                    batches=error.batches,
                )
            )
            self._roster.leave(member)
        if again:
            self.fail(error)
        return leave

    def lost(self, member: Member, reason: str) -> None:
        """Take note that a worker's connection ended."""
        with self._lock:
            if self._roster.present(member.partition) is member and self.machine.active:
                self._publish(WorkerLost(time.time(), **member.who(), reason=reason))
                self._roster.leave(member)

    def rows(self, member: Member) -> Columns:
        """Return the rows of a worker's partition, which the driver holds.

        Raises
        ------
        RemoteProtocolError
            Spark has them, or the partition is not the worker's any more.
        """
        with self._lock:
            leg = self._leg if self._roster.is_current(member) else None
        rows = None if leg is None else leg.source.rows(member.partition)
        if rows is None:
            raise RemoteProtocolError("There are no rows to fetch: expected them from Spark.")
        return rows

    # -- under the lock ---------------------------------------------------------------

    def _begin(self, message: Join) -> tuple[Leg, Position]:
        leg = self._leg
        if message.run != self.run_id or leg is None or not self.machine.active:
            raise SessionClosed(f"Run {message.run} is over; this is run {self.run_id}.")
        position = self._ledger.begin(message.partition, message.task, leg.first_epoch)
        if position is Admission.SUPERSEDED:
            raise SessionClosed(f"Partition {message.partition} belongs to a later attempt by now.")
        return leg, position

    def _enter(self, member: Member, position: Position) -> None:
        earlier = self._roster.present(member.partition)
        if earlier is not None:
            self.lost(earlier, "a later attempt has taken its place")
        self._roster.enter(member)
        if self.machine.state is RunState.STARTING:
            self.report(RunEvent.STARTED)
        self._publish(
            WorkerJoined(
                time.time(), **member.who(), epoch=position.epoch, resumed_at=position.steps
            )
        )

    def _admit(self, member: Member, message: Push) -> Status:
        if not self._roster.is_current(member):
            return "superseded"
        if self._settled or not self.machine.active:
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
                f"Partition {member.partition}, epoch {message.epoch}: expected {committed} "
                f"batches, as committed; got {message.steps} batches of {message.samples} rows. "
                "A partition must hold the same rows at every attempt: cache the data."
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
        if leg is None or epoch > leg.last_epoch:
            self._roster.leave(member)
            return Directive.LEAVE
        if self._roster.is_current(member):
            leg.started = max(leg.started, epoch)
        return self._tell(member)

    def _tell(self, member: Member) -> Directive:
        """Return what a worker does next; one that is told to stop leaves in order."""
        directive = self._directive(member)
        if directive is Directive.STOP:
            self._roster.leave(member)
        return directive

    def _directive(self, member: Member) -> Directive:
        if self._settled or not self._roster.is_current(member):
            return Directive.STOP
        return DIRECTIVES.get(self.machine.state, Directive.STOP)

    def _report_state(self, before: str) -> None:
        if self.machine.state != before:
            self._publish(StateChanged(time.time(), self.machine.state))


def _check_range(name: str, value: int, low: int, high: float) -> None:
    if not low <= value <= high:
        raise RemoteProtocolError(f"Push.{name}: expected {low} to {high}, got {value}.")


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
