"""Answers what all workers ask of a run: to join, to wait, to finish, to report a failure.

Threads of all connections call in here. The state is changed under its lock, in short pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..blocks.block import Columns
from ..blocks.labels import MOST_LABELS, Counts, skew
from ..common.content import DIGEST_SIZE
from ..errors import DataError, RemoteProtocolError, SessionClosed, WorkerError
from ..events import EpochFinished, LabelsSkewed, PartitionFinished, WorkerFailed, WorkerJoined
from ..readable import with_cells
from ..steering.machine import RunEvent, RunState
from ..wire.messages import (
    Directive,
    Failed,
    Finish,
    Join,
    Joined,
    Labelled,
    Loaded,
    Poll,
    Proceed,
    Suspect,
)
from .job_span import JobSpan
from .ledger import Admission, Position
from .membership import Doing, Member
from .row_checks import RowChecks
from .state import KEPT_FAILURES, KEPT_JOINS, ControlState, log

_BRIEF = 200
"""Characters."""


class WorkerRequests:
    """Answers the requests of workers that have nothing to do with parameters."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._rows = RowChecks(state)

    def join(
        self,
        message: Join,
        shared: bool,
        release: Callable[[], object] = lambda: None,
        place: tuple[str, str] | None = None,
    ) -> tuple[Member, Joined]:
        """Give a worker its partition.

        Parameters
        ----------
        message : Join
        shared : bool
            Whether payloads lie in the worker's segment.
        release : callable
            Called when two others have taken the worker's place after each other: no other answer
            follows.
        place : tuple of str, optional
            Executor and host, where the task has ended.

        Raises
        ------
        SessionClosed
            It belongs to a run or a job that is over.
        RemoteProtocolError
            The run has no such partition.
        """
        executor, host = self._state.locate(message.task) if place is None else place
        with self._state.lock:
            span, position, before = self._begin(message)
            version = self._state.settings_log.version
            member = Member(
                message.partition,
                message.attempt,
                message.task,
                executor,
                host if host != "?" else message.host,
                version,
                tuple(message.metrics),
                pid=message.pid,
                epoch=position.epoch,
                told_version=version,
                release=release,
            )
            self._enter(member, position)
            last_epoch = span.last_epoch
            directive = self._next(member, position.epoch)
            if directive is Directive.GO:
                # It loads its rows and the program first, and asks for what is newest by then.
                directive = Directive.WAIT
                self._state.wait(member)
            settings = self._state.settings.for_worker()
        return member, Joined(
            position.epoch,
            position.steps,
            position.sequence,
            last_epoch,
            settings,
            version,
            directive,
            shared,
            before,
        )

    def _begin(self, message: Join) -> tuple[JobSpan, Position, int | None]:
        span = self._state.span
        if message.run != self._state.run_id or span is None or not self._state.machine.active:
            raise SessionClosed(f"Run {message.run} is over; this is run {self._state.run_id}.")
        before = self._state.ledger.owner(message.partition)
        position = self._state.ledger.begin(message.partition, message.task, span.first_epoch)
        if position is Admission.SUPERSEDED:
            raise SessionClosed(f"Partition {message.partition} belongs to a later attempt by now.")
        return span, position, before

    def _enter(self, member: Member, position: Position) -> None:
        earlier = self._state.membership.present(member.partition)
        if earlier is not None:
            self._state.lost(earlier, "a later attempt has taken its place")
        self._state.membership.enter(member)
        if self._state.machine.state is RunState.STARTING:
            self._state.report(RunEvent.STARTED)
        joins = self._state.membership.joins[member.partition]
        member.announced = joins <= KEPT_JOINS
        if member.announced:
            who, at = member.who(), position
            self._state.publish(
                WorkerJoined(time.time(), **who, epoch=at.epoch, resumed_at=at.steps)
            )
        elif joins == KEPT_JOINS + 1:
            log.warning(
                "Run %s: partition %d was joined %d times. Events tell of no further attempt.",
                *(self._state.run_id, member.partition, joins),
            )

    def loaded(self, member: Member, message: Loaded) -> Proceed:
        """Compare a worker's rows with those that its partition had before; others end the run.

        Raises
        ------
        RemoteProtocolError
            What the worker says cannot be.
        SessionClosed
            A later attempt has taken its place.
        """
        if message.rows < 0 or len(message.digest) != 2 * DIGEST_SIZE:
            raise RemoteProtocolError(
                f"Loaded: expected rows from 0 and {2 * DIGEST_SIZE} digits, got {message.rows} "
                f"and {len(message.digest)}."
            )
        with self._state.lock:
            self._state.check_current(member)
            member.hear()
            error = self._rows.other_rows(member, message) if self._state.machine.active else None
        if error is not None:
            return self._refuse_rows(member, error)
        return Proceed(Directive.WAIT, member.settings_version, None)

    def _refuse_rows(self, member: Member, error: DataError) -> Proceed:
        with self._state.lock:
            self._state.leave(member)
        self._state.fail(error)
        return Proceed(Directive.LEAVE, member.settings_version, None)

    def finish(self, member: Member, message: Finish) -> Proceed:
        """Record that a worker used up its partition in one epoch; other rows end the run.

        Raises
        ------
        RemoteProtocolError
            It has trained other batches than were committed.
        SessionClosed
            A later attempt has taken its place.
        """
        with self._state.lock:
            self._state.check_current(member)
            error = self._rows.other_count(member, message) if self._state.machine.active else None
            if error is None:
                proceed = self._finish(member, message)
                error = self._rows.no_rows(message.epoch) if self._state.machine.active else None
        return proceed if error is None else self._refuse_rows(member, error)

    def _finish(self, member: Member, message: Finish) -> Proceed:
        if self._state.machine.active:
            self._rows.check_finish(member, message)
            admission = self._state.ledger.finish(message.epoch, member.partition, member.task)
            if admission is Admission.COMMIT:
                self._report_finish(member, message)
        member.epoch = message.epoch + 1
        directive = self._next(member, member.epoch)
        member.hear()
        # Others may have waited for a step of this partition.
        self._state.changed.notify_all()
        news = self._state.news(member, member.settings_version, directive)
        return Proceed(directive, *news)

    def _report_finish(self, member: Member, message: Finish) -> None:
        epoch, now = message.epoch, time.time()
        self._state.samples[epoch] += message.samples
        self._state.rows.count(member.partition, message.samples)
        self._state.publish(PartitionFinished(now, epoch, member.partition, message.samples))
        if self._state.ledger.epoch_done(epoch, self._state.ledger.partitions or 0):
            self._state.publish(EpochFinished(now, epoch, self._state.samples.pop(epoch)))

    def _next(self, member: Member, epoch: int) -> Directive:
        """Return what a worker does that is about to begin an epoch."""
        span = self._state.span
        if span is None or epoch > span.last_epoch:
            self._state.leave(member)
            return Directive.LEAVE
        span.started = max(span.started, epoch)
        return self._state.issue_directive(member)

    def poll(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker: at once if it may continue, else after `Timeouts.long_poll`.

        Raises
        ------
        SessionClosed
            A later attempt has taken its place.
        """
        with self._state.changed:
            self._state.check_current(member)
            member.hear(Doing.WAIT)
            self._state.wait(member)
            self._state.changed.wait_for(
                lambda: self._state.directive(member) is not Directive.WAIT,
                self._state.timeouts.long_poll,
            )
            self._state.check_current(member)
            directive = self._state.issue_directive(member)
            member.waiting = directive is Directive.WAIT
            if not member.waiting:
                member.hear(Doing.TRAIN)
            news = self._state.news(member, message.settings_version, directive)
            return Proceed(directive, *news)

    def failed(self, member: Member, message: Failed) -> Proceed:
        """Record what a worker raised; if it would raise again, that ends the run.

        An operation of the program would raise again, and so would what one partition has raised
        twice. After any other error Spark may try again.

        An error of a superseded attempt counts for nothing, nor one after the run's end.
        """
        leave = Proceed(Directive.LEAVE, member.settings_version, None)
        error = WorkerError(
            with_cells(message.message),
            **member.who(),
            frames=tuple(map(with_cells, message.frames)),
            epoch=message.epoch,
            batches=message.batches,
        )
        with self._state.lock:
            if (
                self._state.membership.present(member.partition) is not member
                or not self._state.machine.active
            ):
                return leave
            again = message.in_program or any(
                (e.message, e.partition) == (error.message, error.partition)
                for e in self._state.failures
            )
            self._state.failures.append(error)
            self._state.raised += 1
            self._report_failure(member, error)
            self._state.leave(member)
        if again:
            self._state.fail(error)
        return leave

    def _report_failure(self, member: Member, error: WorkerError) -> None:
        """Publish an error; briefly, once there were many: events are kept as long as the run."""
        brief = self._state.raised > KEPT_FAILURES
        if member.announced:
            self._state.publish(
                WorkerFailed(
                    time.time(),
                    **member.who(),
                    message=error.message[:_BRIEF] if brief else error.message,
                    frames=() if brief else error.frames,
                    epoch=error.epoch,
                    batches=error.batches,
                )
            )

    def labelled(self, member: Member, message: Labelled) -> Proceed:
        """Compare the labels of all workers' rows; publish once that they differ.

        Raises
        ------
        RemoteProtocolError
            What the worker says cannot be.
        """
        counts = _counts_of(message)
        with self._state.lock:
            self._state.labels[member.partition] = counts
            sentence = None if self._state.skew else skew(self._state.labels)
            if sentence is not None:
                self._state.skew = (sentence,)
                log.warning("Run %s: %s", self._state.run_id, sentence)
                self._state.publish(LabelsSkewed(time.time(), sentence))
            return Proceed(Directive.WAIT, member.settings_version, None)

    def suspect(self, member: Member, message: Suspect) -> Proceed:
        """Note what a worker has found in the rows of the push that comes next."""
        with self._state.lock:
            member.suspect = message
            return Proceed(Directive.GO, member.settings_version, None)

    def rows(self, member: Member) -> Columns:
        """Return the rows of a worker's partition, which the driver holds.

        Raises
        ------
        RemoteProtocolError
            Spark has them.
        SessionClosed
            A later attempt has taken its place.
        """
        with self._state.lock:
            self._state.check_current(member)
            member.hear()
            span = self._state.span
        rows = None if span is None else span.source.rows(member.partition)
        if rows is None:
            raise RemoteProtocolError("The server has no rows to fetch: expected them from Spark.")
        return rows


def _counts_of(message: Labelled) -> Counts:
    labels, rows = message.labels, message.rows
    if not len(labels) == len(rows) <= MOST_LABELS or any(count < 1 for count in rows):
        raise RemoteProtocolError(
            f"Labelled: expected at most {MOST_LABELS} labels and at least one row of each, got "
            f"{len(labels)} labels and {len(rows)} counts of rows."
        )
    return dict(zip(labels, rows, strict=True))
