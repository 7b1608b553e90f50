"""What the server answers to workers: the only one who admits, merges and counts what they push.

Threads of all connections call in here; the state is changed under its lock, in short
pieces. Merging parameters, the long part, happens outside of it, in the store.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .content import DIGEST_SIZE
from .data.blocks import Columns
from .data.labels import Counts
from .data.skew import MOST_LABELS, skew
from .errors import (
    CombinerError,
    DataError,
    NonFiniteUpdate,
    RemoteProtocolError,
    TosError,
    WorkerError,
)
from .events import LabelsSkewed, UpdateSkipped, WorkerFailed
from .ps import store as ps
from .ps.ledger import Admission
from .readable import with_cells
from .roster import Doing, Member
from .settings import Settings
from .state import KEPT_FAILURES, TrainingState, log
from .wire.messages import (
    Directive,
    Failed,
    Finish,
    Join,
    Joined,
    Labelled,
    Loaded,
    Poll,
    Proceed,
    Push,
    Reply,
    Suspect,
)

LONG_POLL = 0.5
"""Seconds for which a waiting worker's question is held back, so that it hears at once."""

_BRIEF = 200
"""Characters."""


class Answers(TrainingState):
    """The workers' side of one run; its parameters are those of `TrainingState`."""

    def join(
        self, message: Join, shared: bool, let_go: Callable[[], object] = lambda: None
    ) -> tuple[Member, Joined]:
        """Let a worker open its partition.

        Parameters
        ----------
        message : Join
        shared : bool
            Whether payloads lie in the worker's segment.
        let_go : callable
            Called when two others have taken the worker's place after each other: it will have no
            answer but that.

        Raises
        ------
        SessionClosed
            It belongs to a run or a job that is over.
        RemoteProtocolError
            There is no such partition.
        """
        executor, host = self._locate(message.task)
        with self._lock:
            leg, position, before = self._begin(message)
            version = self._roster.version
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
                told=version,
                let_go=let_go,
            )
            self._enter(member, position)
            last_epoch = leg.last_epoch
            directive = self._next(member, position.epoch)
            if directive is Directive.GO:
                # It loads its rows and the program first, and asks for what is newest by then.
                directive = Directive.WAIT
                self._roster.wait(member)
            settings = self.settings.for_worker()
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
        with self._lock:
            self._check_current(member)
            member.hear()
            error = self._other_rows(member, message) if self.machine.active else None
        if error is not None:
            return self._refuse_rows(member, error)
        return Proceed(Directive.WAIT, member.settings_version, None)

    def _refuse_rows(self, member: Member, error: DataError) -> Proceed:
        with self._lock:
            self._leave(member)
        self.fail(error)
        return Proceed(Directive.LEAVE, member.settings_version, None)

    def find_settings(self, version: int) -> Settings | None:
        """Return a version of the settings; None if no current worker may still use it."""
        return self._roster.find_settings(version)

    def push(
        self,
        member: Member,
        message: Push,
        update: npt.NDArray[np.uint8],
        traffic: tuple[int, int] = (0, 0),
    ) -> Reply:
        """Merge a push; on return `update` holds what the worker adopts.

        Parameters
        ----------
        member : Member
        message : Push
        update : ndarray, shape (layout.nbytes,), uint8
        traffic : tuple of int, optional
            Bytes of parameters that have come from the worker, and gone to it, since its last push.

        Raises
        ------
        RemoteProtocolError
            The push contradicts itself, or what was committed before; nothing was changed.
        """
        _check_range("base_version", message.base_version, 0, self.store.version)
        _check_range("samples", message.samples, max(1, message.steps), math.inf)
        metrics = len(member.metrics)
        _check_range("metrics", len(message.metrics), metrics, metrics)
        with self._lock:
            if self._holding:
                # Whoever copies the run lets go within `snapshots.PATIENCE`.
                self._changed.wait_for(lambda: not self._holding)
            # A superseded attempt may know such settings only as nobody else uses any more.
            current = self._roster.is_current(member)
            known = self._roster.settings_of(message.settings_version) if current else None
            status = self._admit(member, message)
            workers = max(1, len(self._roster.active()))
            member.epoch = message.epoch
            member.hear(Doing.MERGE)
        admitted, version = status == "committed", None
        try:
            if admitted:
                version = self._merge(member, message, update, known, workers, traffic)
                status = "skipped" if version is None else status
            if version is None:
                version = self.store.read(update)[1]
        except BaseException:
            with self._lock:
                self._end_merge(admitted)
            raise
        with self._lock:
            self._end_merge(admitted)
            member.hear(Doing.TRAIN)
            self._roster.acknowledge(member, message.settings_version)
            if status in ("committed", "skipped"):
                self._roster.tick(member)
            directive = self._tell(member)
            if not self._roster.is_current(member):
                # Perhaps only since it was admitted: what it has pushed counts, but it must end.
                status = "superseded"
            newest, settings = self._roster.news(member, message.settings_version, directive)
            bounded = self._roster.settings.sync.slack is not None
        if bounded and directive is Directive.GO and not self.keeps_own:
            # Others may have reached this milestone since the merge: nobody waits, so none must
            # go on without what they pushed.
            version = self._catch_up(version, update)
        return Reply(version, newest, status, directive, settings)

    def _end_merge(self, admitted: bool) -> None:
        """Let go whoever waits for merges under way, and for milestones that others reach."""
        self._merging -= admitted
        self._changed.notify_all()

    def _catch_up(self, version: int, update: npt.NDArray[np.uint8]) -> int:
        """Fill in the center if there is a newer one; return the version that `update` holds."""
        return version if self.store.version == version else self.store.read(update)[1]

    def labelled(self, member: Member, message: Labelled) -> Proceed:
        """Compare the labels of a worker's rows with those of the others; tell of it once.

        Raises
        ------
        RemoteProtocolError
            What the worker says cannot be.
        """
        counts = _counts_of(message)
        with self._lock:
            self._labels[member.partition] = counts
            told = None if self._skew else skew(self._labels)
            if told is not None:
                self._skew = (told,)
                log.warning("Run %s: %s", self.run_id, told)
                self._publish(LabelsSkewed(time.time(), told))
            return Proceed(Directive.WAIT, member.settings_version, None)

    def suspect(self, member: Member, message: Suspect) -> Proceed:
        """Note what a worker has found in the rows of the push that comes next."""
        with self._lock:
            member.suspect = message
            return Proceed(Directive.GO, member.settings_version, None)

    def _merge(
        self,
        member: Member,
        message: Push,
        update: npt.NDArray[np.uint8],
        settings: Settings | None,
        workers: int,
        traffic: tuple[int, int],
    ) -> int | None:
        """Return the version that the push made, None if it was refused."""
        push = ps.Push(
            member.partition,
            message.base_version,
            message.steps,
            message.samples,
            workers,
            None if settings is None else settings.combiner.pushes,
            message.finite,
            skip=self._non_finite == "skip",
        )
        try:
            merged = self.store.merge(update, push)
            if merged.left_out is not None:
                self._skip(member, message, self._explain(member, message, merged.left_out))
                return None
        except BaseException as error:
            self._refuse(member, message, error)
            return None
        finally:
            member.suspect = None
        self._publish(member.milestone(message, merged, traffic, workers))
        return merged.version

    def _refuse(self, member: Member, message: Push, error: BaseException) -> None:
        """Deal with an update that was not merged: leave it out, or end the run.

        What nobody foresaw is raised, so that Spark tries the push again; unless the ledger has
        told a later attempt that the push counts.
        """
        if isinstance(error, NonFiniteUpdate):
            error = self._explain(member, message, error)
            if self._non_finite == "skip":
                self._skip(member, message, error)
                return
        with self._lock:
            revoked = self._revoke(member, message)
            if not revoked:
                self.store.tear("The parameters lack a push that counts as merged.")
        if revoked and isinstance(error, TosError):
            self.fail(error)
        elif revoked and isinstance(error, Exception):
            raise error
        else:
            self.fail(_not_merged(member, message, error, revoked))

    def _skip(self, member: Member, message: Push, error: BaseException) -> None:
        """Tell of an update that is not in the center, though the run goes on."""
        place = (message.epoch, member.partition, member.attempt, message.sequence)
        self._leave_out(message, error)
        self._publish(UpdateSkipped(time.time(), *place, str(error)))

    def _leave_out(self, message: Push, error: BaseException) -> None:
        with self._lock:
            if not self._left_out:
                self._left_out_first = str(error)
                log.warning("Run %s: the server left out a batch. %s", self.run_id, error)
            self._left_out += message.steps

    def _revoke(self, member: Member, message: Push) -> bool:
        """Take a push back that was not merged; return False if a later attempt relies on it."""
        place = message.epoch, member.partition, member.task, message.sequence
        try:
            # A task that has come back by another connection relies on it, too.
            return self._roster.present(member.partition) in (None, member) and (
                self._ledger.revoke(*place)
            )
        except RemoteProtocolError:
            return False

    def _explain(self, member: Member, message: Push, error: NonFiniteUpdate) -> TosError:
        found = member.suspect
        return error if found is None else self._blame(member, message.epoch, found)

    def _blame(self, member: Member, epoch: int, found: Suspect) -> DataError:
        """Return an error of the data, with the worker that was given them as its cause."""
        partition = member.partition
        number = None if self._leg is None else self._leg.source.number(partition, found.row)
        place = f"partition {partition}, row {found.row}"
        where = f"row {number} of the arrays ({place})"
        if number is None:
            where = f"{place} of the rows as dealt to the worker, perhaps not in your order"
        others = f" (as in {found.rows - 1} more rows of this milestone)" if found.rows > 1 else ""
        text = (
            f"{where[0].upper()}{where[1:]}, feed {found.feed!r}: expected finite numbers, got "
            f"{found.value}{others}. The update that was learned from them is not finite either. "
            "Leave such rows out of the data, or replace their values."
        )
        error = DataError(text)
        error.__cause__ = WorkerError(f"DataError: {text}", **member.who(), epoch=epoch)
        return error

    def finish(self, member: Member, message: Finish) -> Proceed:
        """Take note that a worker used up its partition in one epoch; other rows end the run.

        Raises
        ------
        RemoteProtocolError
            It has trained other batches than were committed.
        SessionClosed
            A later attempt has taken its place.
        """
        with self._lock:
            self._check_current(member)
            error = self._other_count(member, message) if self.machine.active else None
            if error is None:
                proceed = self._finish(member, message)
                error = self._no_rows(message.epoch) if self.machine.active else None
        return proceed if error is None else self._refuse_rows(member, error)

    def _finish(self, member: Member, message: Finish) -> Proceed:
        if self.machine.active:
            self._check_finish(member, message)
            admission = self._ledger.finish(message.epoch, member.partition, member.task)
            if admission is Admission.COMMIT:
                self._report_finish(member, message)
        directive = self._next(member, message.epoch + 1)
        member.epoch = message.epoch + 1
        member.hear()
        news = self._roster.news(member, member.settings_version, directive)
        return Proceed(directive, *news)

    def poll(
        self,
        member: Member,
        message: Poll,
        center: npt.NDArray[np.uint8] | None = None,
        owed: bool = False,
    ) -> Proceed:
        """Answer a waiting worker: at once if it may go on, else after `LONG_POLL`.

        Parameters
        ----------
        member : Member
        message : Poll
        center : ndarray, shape (layout.nbytes,), uint8, optional
            Filled with the parameters that it goes on with, if those are not its own.
        owed : bool
            Whether it has none of its own: it has just joined, or had to wait and its last reply
            came without.

        Raises
        ------
        SessionClosed
            A later attempt has taken its place.
        """
        proceed = self._poll(member, message)
        if center is None or proceed.directive is not Directive.GO:
            return proceed
        if self.keeps_own and not owed:
            return proceed
        return replace(proceed, version=self.store.read(center)[1])

    @property
    def keeps_own(self) -> bool:
        """Whether workers go on with parameters of their own."""
        return self._roster.settings.combiner.keeps_own

    def _poll(self, member: Member, message: Poll) -> Proceed:
        with self._changed:
            self._check_current(member)
            member.hear(Doing.WAIT)
            self._roster.wait(member)
            self._changed.wait_for(
                lambda: self._directive(member) is not Directive.WAIT, timeout=LONG_POLL
            )
            self._check_current(member)
            directive = self._tell(member)
            member.waiting = directive is Directive.WAIT
            if not member.waiting:
                member.hear(Doing.TRAIN)
            news = self._roster.news(member, message.settings_version, directive)
            return Proceed(directive, *news)

    def failed(self, member: Member, message: Failed) -> Proceed:
        """Record what a worker raised; if it would raise again, that ends the run.

        So it is taken to be for an operation of the program, and for what comes twice from one
        partition. Else Spark may try again.

        What a superseded attempt raises counts for nothing, nor what comes after its end.
        """
        leave = Proceed(Directive.LEAVE, member.settings_version, None)
        error = WorkerError(
            with_cells(message.message),
            **member.who(),
            frames=tuple(map(with_cells, message.frames)),
            epoch=message.epoch,
            batches=message.batches,
        )
        with self._lock:
            if self._roster.present(member.partition) is not member or not self.machine.active:
                return leave
            again = message.in_program or any(
                (e.message, e.partition) == (error.message, error.partition) for e in self.failures
            )
            self.failures.append(error)
            self.raised += 1
            self._report_failure(member, error)
            self._leave(member)
        if again:
            self.fail(error)
        return leave

    def _report_failure(self, member: Member, error: WorkerError) -> None:
        """Tell of an error; briefly, once there were many: events are kept as long as the run."""
        brief = self.raised > KEPT_FAILURES
        if member.told_of:
            self._publish(
                WorkerFailed(
                    time.time(),
                    **member.who(),
                    message=error.message[:_BRIEF] if brief else error.message,
                    frames=() if brief else error.frames,
                    epoch=error.epoch,
                    batches=error.batches,
                )
            )

    def rows(self, member: Member) -> Columns:
        """Return the rows of a worker's partition, which the driver holds.

        Raises
        ------
        RemoteProtocolError
            Spark has them.
        SessionClosed
            A later attempt has taken its place.
        """
        with self._lock:
            self._check_current(member)
            member.hear()
            leg = self._leg
        rows = None if leg is None else leg.source.rows(member.partition)
        if rows is None:
            raise RemoteProtocolError("There are no rows to fetch: expected them from Spark.")
        return rows


def _not_merged(
    member: Member, message: Push, error: BaseException, revoked: bool
) -> CombinerError:
    relies = (
        "It does not count either."
        if revoked
        else "The ledger counts it already. No checkpoint is written of "
        "these parameters. tos.resume continues from the last one before."
    )
    found = CombinerError(
        f"Push {message.sequence} of partition {member.partition}, epoch {message.epoch + 1}, was "
        f"not merged: {type(error).__name__}: {error}. {relies}"
    )
    found.__cause__ = error
    return found


def _counts_of(message: Labelled) -> Counts:
    labels, rows = message.labels, message.rows
    if not len(labels) == len(rows) <= MOST_LABELS or any(count < 1 for count in rows):
        raise RemoteProtocolError(
            f"Labelled: expected at most {MOST_LABELS} labels and at least one row of each, got "
            f"{len(labels)} labels and {len(rows)} counts of rows."
        )
    return dict(zip(labels, rows, strict=True))


def _check_range(name: str, value: int, low: int, high: float) -> None:
    if not low <= value <= high:
        raise RemoteProtocolError(f"Push.{name}: expected {low} to {high}, got {value}.")
