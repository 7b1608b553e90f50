"""The server's state of one run, under one lock: what `answers` and `training` work on."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Literal

from .content import NO_DIGEST, Content
from .control import Machine, RunEvent, RunState
from .data.labels import Counts
from .errors import DataError, RemoteProtocolError, SessionClosed, TosError, WorkerError, blamed
from .events import EpochFinished, Event, PartitionFinished, StateChanged, WorkerJoined, WorkerLost
from .ps import store as ps
from .ps.ledger import Admission, Ledger, Position
from .roster import LaidOut, Leg, Member, Roster
from .settings import Settings
from .wire.messages import Directive, Finish, Join, Loaded, Push, Status

log = logging.getLogger(__name__)

NonFinite = Literal["raise", "skip"]
"""What a non-finite update does: end the run, or be left out."""


KEPT_FAILURES = 64
"""What workers have raised, of which the whole text is kept."""

KEPT_JOINS = 1000
"""Attempts at one partition of a job of which events tell. Spark gives up long before; more come
only from what is no worker of Spark's, and would fill the history."""


class TrainingState:
    """One run's ledger, roster and state machine; every change is a short one under the lock.

    Parameters
    ----------
    run_id : str
    store : ps.store.Store
        The center parameters.
    settings : Settings
        Those that it begins with.
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
        settings: Settings,
        publish: Callable[[Event], None],
        locate: Callable[[int], tuple[str, str]],
        on_failure: Callable[[], None],
        non_finite: NonFinite = "raise",
    ) -> None:
        self.run_id = run_id
        self.store = store
        self.machine = Machine()
        self.failures: deque[WorkerError] = deque(maxlen=KEPT_FAILURES)
        self.raised = 0
        """How many there were, with those that are not kept any more."""
        self.error: TosError | None = None
        self._skew: tuple[str, ...] = ()
        # Batches of updates that were not finite, and why the first was left out.
        self._left_out = 0
        self._left_out_first = ""
        self._publish = publish
        self._locate = locate
        self._on_failure = on_failure
        self._non_finite = non_finite
        self._ledger = Ledger()
        self._roster = Roster(settings, publish)
        self._leg: Leg | None = None
        self._merging = 0
        # Whether pushes wait outside, so that ledger and center can be copied as one.
        self._holding = False
        # The layout that the ledger's contents are of, and `_rows`: of each partition, as far as
        # one was used up.
        self._layout: LaidOut | None = None
        self._rows: dict[int, int] = {}
        # The layout that the ledger's earlier contents are of.
        self._earlier: LaidOut | None = None
        # Rows of each label in the partitions of a layout in which the rows came.
        self._labels: dict[int, Counts] = {}
        # Partitions of a resumed run whose streams must first show that they are the same.
        self._unconfirmed: set[int] = set()
        self._settled = False
        self._samples: Counter[int] = Counter()
        # Orders changes of settings; taken before all other locks.
        self._steering = threading.Lock()
        # Reentrant, so that small helpers can say for themselves what they guard. Nobody waits
        # for the store while holding it: a user's combiner may keep the store for long.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    @property
    def settings(self) -> Settings:
        """The settings in force for whoever asks next."""
        return self._roster.settings

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of the data: that partitions differ, what was left out."""
        with self._lock:
            if not self._left_out:
                return self._skew
            batches = "1 batch" if self._left_out == 1 else f"{self._left_out} batches"
            return *self._skew, f"The server left out {batches}. The first: {self._left_out_first}"

    def report(self, event: RunEvent) -> None:
        """Move the state machine by something that happened."""
        with self._changed:
            before = self.machine.state
            self.machine.event(event)
            self._report_state(before)
            self._changed.notify_all()

    def fail(self, error: TosError) -> None:
        """End the run with an error; the first one counts, even one that comes after the end."""
        with self._lock:
            self.error = self.error or blamed(error)
            if not self.machine.active:
                return
            self.report(RunEvent.FAILED)
        try:
            self._on_failure()
        except Exception:
            log.warning("The job of %s could not be cancelled.", self.run_id, exc_info=True)

    def trains(self, member: Member) -> bool:
        """Return whether a partition is a worker's, and it has not left."""
        with self._lock:
            return self._roster.present(member.partition) is member

    def lost(self, member: Member, reason: str) -> None:
        """Take note that a worker's connection ended."""
        with self._lock:
            if self._roster.present(member.partition) is member and self.machine.active:
                if member.told_of:
                    self._publish(WorkerLost(time.time(), **member.who(), reason=reason))
                self._leave(member)

    # -- under the lock ---------------------------------------------------------------

    def _begin(self, message: Join) -> tuple[Leg, Position, int | None]:
        leg = self._leg
        if message.run != self.run_id or leg is None or not self.machine.active:
            raise SessionClosed(f"Run {message.run} is over; this is run {self.run_id}.")
        before = self._ledger.owner(message.partition)
        position = self._ledger.begin(message.partition, message.task, leg.first_epoch)
        if position is Admission.SUPERSEDED:
            raise SessionClosed(f"Partition {message.partition} belongs to a later attempt by now.")
        return leg, position, before

    def _enter(self, member: Member, position: Position) -> None:
        earlier = self._roster.present(member.partition)
        if earlier is not None:
            self.lost(earlier, "a later attempt has taken its place")
        self._roster.enter(member)
        if self.machine.state is RunState.STARTING:
            self.report(RunEvent.STARTED)
        joins = self._roster.joins[member.partition]
        member.told_of = joins <= KEPT_JOINS
        if member.told_of:
            who, at = member.who(), position
            self._publish(WorkerJoined(time.time(), **who, epoch=at.epoch, resumed_at=at.steps))
        elif joins == KEPT_JOINS + 1:
            log.warning(
                "Run %s: partition %d was joined %d times. Events tell of no further attempt.",
                *(self.run_id, member.partition, joins),
            )

    def _admit(self, member: Member, message: Push) -> Status:
        if not self._roster.is_current(member):
            return "superseded"
        if self._settled or not self.machine.active:
            return "skipped"
        admission = self._ledger.admit(
            message.epoch, member.partition, member.task, message.sequence, message.steps
        )
        if admission is Admission.COMMIT:
            self._merging += 1
            digest = "" if message.digest == NO_DIGEST else message.digest.hex()
            place = message.epoch, member.partition
            self._ledger.contents.commit(
                *place, digest, message.steps, self._ledger.partitions or 0
            )
        return _STATUS[admission]

    def _check_current(self, member: Member) -> None:
        """Let a superseded task fail: Spark takes the partition of one that returns for done."""
        if not self._roster.is_current(member):
            raise SessionClosed(f"Partition {member.partition} belongs to a later attempt by now.")

    def _other_rows(self, member: Member, message: Loaded) -> DataError | None:
        """Return what is wrong with rows that a worker has loaded; None if they are the same."""
        partition, contents = member.partition, self._ledger.contents
        found = Content(message.rows, message.digest)
        digest = contents.streamed(member.epoch, partition)
        if message.streamed or digest:
            if message.digest == digest:
                self._unconfirmed.discard(partition)
                return None
            steps = self._ledger.committed(member.epoch, partition).steps
            expected = f"the {steps} batches that are trained"
            return self._other(member, member.epoch, expected, f"others, of {found}")
        known = contents.keep(partition, found)
        if known == found:
            return None
        return self._other(member, member.epoch, str(known), str(found))

    def _check_finish(self, member: Member, message: Finish) -> None:
        committed = self._ledger.committed(message.epoch, member.partition).steps
        if message.steps != committed or message.samples < committed:
            raise RemoteProtocolError(
                f"Partition {member.partition}, epoch {message.epoch + 1}: expected {committed} "
                f"batches, as committed; got {message.steps} batches of {message.samples} rows."
            )

    def _other_count(self, member: Member, message: Finish) -> DataError | None:
        """Return what is wrong with how many rows an epoch had; None if nothing is."""
        rows = self._rows.get(member.partition, message.samples)
        if message.samples == rows:
            return None
        return self._other(member, message.epoch, f"{rows} rows", f"{message.samples} rows")

    def _other(self, member: Member, epoch: int, expected: str, found: str) -> DataError:
        remedy = "" if self._leg is None else self._leg.source.remedy
        return DataError(
            f"Partition {member.partition}, epoch {epoch + 1}: expected {expected}, got {found}. "
            "A partition must hold the same rows in the same order at every attempt, in every "
            f"epoch and after a resume. {remedy}"
        )

    def _report_finish(self, member: Member, message: Finish) -> None:
        epoch, now = message.epoch, time.time()
        self._samples[epoch] += message.samples
        self._rows[member.partition] = message.samples
        self._publish(PartitionFinished(now, epoch, member.partition, message.samples))
        if self._ledger.epoch_done(epoch, self._ledger.partitions or 0):
            self._publish(EpochFinished(now, epoch, self._samples.pop(epoch)))

    def _no_rows(self, epoch: int) -> DataError | None:
        """Return what is wrong with an epoch that is done without a row; None if nothing is."""
        count = self._ledger.partitions or 0
        pushes = (self._ledger.committed(epoch, partition).steps for partition in range(count))
        if not self._ledger.epoch_done(epoch, count) or any(pushes):
            return None
        return DataError(
            f"Epoch {epoch + 1}: expected at least one row to train on, got none in any partition. "
            "See that the executors find the files, and that not all rows are left out as bad."
        )

    def _next(self, member: Member, epoch: int) -> Directive:
        """Return what a worker does that is about to begin an epoch."""
        leg = self._leg
        if leg is None or epoch > leg.last_epoch:
            self._leave(member)
            return Directive.LEAVE
        leg.started = max(leg.started, epoch)
        return self._tell(member)

    def _tell(self, member: Member) -> Directive:
        """Return what a worker does next; one that is told to stop leaves in order."""
        directive = self._directive(member)
        if directive is Directive.STOP:
            self._leave(member)
        return directive

    def _directive(self, member: Member) -> Directive:
        if self._settled or not self._roster.is_current(member):
            return Directive.STOP
        directive = DIRECTIVES.get(self.machine.state, Directive.STOP)
        if directive is Directive.GO and self._roster.is_ahead(member):
            return Directive.WAIT
        return directive

    def _leave(self, member: Member) -> None:
        """Expect nothing more of a worker, nor let anybody wait for it."""
        self._roster.leave(member)
        self._changed.notify_all()

    def _report_state(self, before: str) -> None:
        if self.machine.state != before:
            self._publish(StateChanged(time.time(), self.machine.state))


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
