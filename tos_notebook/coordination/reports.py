"""Reports of what workers have trained: admitted once, answered with what comes next.

A strategy asks here before it touches parameters, and again when it has: `Reports` counts batches
and knows no parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..errors import DataError, NonFiniteUpdate, RemoteProtocolError, TosError, WorkerError
from ..events import UpdateSkipped
from ..steering.machine import ONWARD, Command
from ..wire.messages import Directive, Push, Reply, Status, Suspect
from .fast_reports import FastReports
from .ledger import Admission
from .membership import Doing, Links, Member, Traffic
from .settings import Settings
from .state import ControlState

# Python 3.11 calls a function to look a member up in its enumeration: too long for every push.
_COMMIT, _MERGE, _TRAIN = Admission.COMMIT, Doing.MERGE, Doing.TRAIN
_STOP = Directive.STOP


class Reports:
    """Admits what workers have trained.

    Attributes
    ----------
    fast : FastReports
        For pushes that are merged without being admitted here.
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self.fast = FastReports(state)

    def find_settings(self, version: int) -> Settings | None:
        """Return a version of the settings; None if no current worker may still use it."""
        return self._state.settings_log.find(version)

    @property
    def bounded(self) -> bool:
        """Whether the sync mode bounds how far workers may be apart."""
        return self._state.settings.sync.slack is not None

    def admit(self, member: Member, message: Push) -> tuple[Status, Settings | None, int]:
        """Count what a worker has trained, once; wait while a thread copies the run.

        Returns
        -------
        status : {"committed", "duplicate", "skipped", "superseded"}
            Only what is committed is to be merged.
        settings : Settings or None
            Those that the worker trained under; None for a superseded attempt.
        workers : int
            Active ones.

        Raises
        ------
        RemoteProtocolError
            The report contradicts itself, or what was committed before; nothing was changed.
        """
        check_report(member, message)
        state = self._state
        with state.lock.unchanged():
            if state.gate.held:
                state.gate.wait_open()
            # A superseded attempt may know such settings only as no other uses any more.
            current = state.membership.is_current(member)
            known = state.settings_log.get(message.settings_version) if current else None
            status = self._admit(member, message) if current else "superseded"
            member.epoch = message.epoch
            member.hear(_MERGE)
            return status, known, len(state.membership.active()) or 1

    def _admit(self, member: Member, message: Push) -> Status:
        state = self._state
        if state.settled or not state.machine.active:
            return "skipped"
        admission = self._count(member, message)
        if admission is _COMMIT:
            state.gate.enter()
            return "committed"
        return "duplicate" if admission is Admission.DUPLICATE else "superseded"

    def _count(self, member: Member, message: Push) -> Admission:
        ledger = self._state.ledger
        place = message.epoch, member.partition
        admission = ledger.admit(*place, member.task, message.sequence, message.steps)
        if admission is _COMMIT:
            ledger.keep_digest(*place, message.digest, message.steps)
        return admission

    def commit(
        self, member: Member, message: Push, merge: Callable[[Settings, int], int | None]
    ) -> Reply | None:
        """Admit a push, have it merged and answer it in one step, in which nothing else happens.

        Parameters
        ----------
        member : Member
        message : Push
        merge : callable
            Takes settings and workers as `admit` returns them; returns the version that it makes.
            It is short, and waits for nothing. None if it has failed: the push then is one that was
            admitted, and is still to be decided on.

        Returns
        -------
        Reply or None
            What the worker does next. None also if nothing was changed, because the push does not
            count, or has to wait: it takes `admit`.

        Raises
        ------
        RemoteProtocolError
            See `admit`.
        """
        check_report(member, message)
        state = self._state
        with state.lock.unchanged():
            if state.gate.held or not state.membership.is_current(member):
                return None
            version = message.settings_version
            settings = state.settings_log.find(version) or state.settings_log.get(version)
            if self._admit(member, message) != "committed":
                return None
            member.epoch = message.epoch
            member.hear(_MERGE)
            workers = len(state.membership.active()) or 1
            try:
                made = merge(settings, workers)
            except BaseException:
                state.gate.leave(True)
                raise
            return None if made is None else self._decide(member, message, "committed", True, made)

    def abandon(self, merging: bool) -> None:
        """Count a merge as ended that has raised; see `decide`."""
        with self._state.lock:
            self._state.gate.leave(merging)

    def decide(
        self, member: Member, message: Push, status: Status, merging: bool, version: int
    ) -> tuple[Reply, bool]:
        """Return what a worker does next, once its report was dealt with.

        Parameters
        ----------
        member : Member
        message : Push
        status : {"committed", "duplicate", "skipped", "superseded"}
            What has become of it.
        merging : bool
            Whether it was admitted, so that the run waits for it.
        version : int
            Of the parameters that the worker adopts.

        Returns
        -------
        reply : Reply
        bounded : bool
            Whether the sync mode bounds how far workers may be apart.
        """
        with self._state.lock.unchanged():
            reply = self._decide(member, message, status, merging, version)
            return reply, self.bounded

    def _decide(
        self, member: Member, message: Push, status: Status, merging: bool, version: int
    ) -> Reply:
        state = self._state
        state.gate.leave(merging)
        member.hear(_TRAIN)
        state.acknowledge(member, message.settings_version)
        if status == "committed":
            state.committed[member.partition] += 1
        if status in ("committed", "skipped"):
            state.tick(member)
        directive = state.issue_directive(member)
        if directive is _STOP and not state.membership.is_current(member):
            # Perhaps only since it was admitted: what it has pushed counts, but it must end.
            status = "superseded"
        newest, settings = state.news(member, message.settings_version, directive)
        return Reply(version, newest, status, directive, settings)

    def merged(
        self,
        member: Member,
        message: Push,
        version: int,
        staleness: int | None,
        traffic: tuple[int, int] | Traffic,
        workers: int,
        optimizer_steps: int | None = None,
    ) -> None:
        """Publish a milestone.

        Parameters
        ----------
        member : Member
        message : Push
        version : int
            That it made.
        staleness : int or None
            How many came between its base and this; None if that is unknown.
        traffic : tuple of int, or Traffic
            Bytes of parameters that came from the worker, and went to it.
        workers : int
            Active ones.
        optimizer_steps : int, optional
            By how many the global step is further; by default the worker's own batches.
        """
        steps = message.steps if optimizer_steps is None else optimizer_steps
        self._state.publish(member.milestone(message, version, staleness, traffic, workers, steps))

    def describe_links(self, algorithm: str, text: str) -> None:
        """Tell the user by which algorithm workers exchange with each other, and why, if at all."""
        with self._state.lock:
            self._state.membership.links = Links(algorithm, text) if text else None

    def skip(self, member: Member, message: Push, error: BaseException) -> None:
        """Publish that an update is not in the parameters, though the run continues."""
        place = (message.epoch, member.partition, member.attempt, message.sequence)
        self._state.leave_out(message.steps, error)
        self._state.publish(UpdateSkipped(time.time(), *place, str(error)))

    def revoke(self, member: Member, message: Push, otherwise: Callable[[], object]) -> bool:
        """Take back what counted and was not merged.

        Parameters
        ----------
        member : Member
        message : Push
        otherwise : callable
            Called before any thread can copy the run, if a later attempt relies on the push.

        Returns
        -------
        bool
            False if a later attempt relies on it.
        """
        with self._state.lock:
            revoked = self._revoke(member, message)
            if not revoked:
                otherwise()
            return revoked

    def _revoke(self, member: Member, message: Push) -> bool:
        """Take a push back that was not merged; return False if a later attempt relies on it."""
        place = message.epoch, member.partition, member.task, message.sequence
        try:
            # A task that has come back by another connection relies on it, too.
            return self._state.membership.present(member.partition) in (None, member) and (
                self._state.ledger.revoke(*place)
            )
        except RemoteProtocolError:
            return False

    def fail(self, error: TosError) -> None:
        """End the run."""
        self._state.fail(error)

    def end_job(self, reason: str) -> None:
        """End the Spark job in the midst of an epoch, so that another strategy continues.

        Parameters
        ----------
        reason : str
            In a sentence.
        """
        with self._state.changed:
            if self._state.span is not None:
                self._state.span.ended = reason
                self._state.changed.notify_all()

    def stop(self, reason: str) -> None:
        """Stop the run as its user may, unless it is about to end."""
        with self._state.lock:
            if self._state.machine.state in ONWARD:
                self._state.command(Command.STOP, reason, {})

    def explain(self, member: Member, message: Push, error: NonFiniteUpdate) -> TosError:
        """Return the error of the data that a worker suspects; the one that is given, if none."""
        found = member.suspect
        return error if found is None else self._blame(member, message.epoch, found)

    def _blame(self, member: Member, epoch: int, found: Suspect) -> DataError:
        """Return an error of the data, with the worker that was given them as its cause."""
        partition = member.partition
        number = (
            None
            if self._state.span is None
            else self._state.span.source.number(partition, found.row)
        )
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


def check_report(member: Member, message: Push) -> None:
    """Raise RemoteProtocolError for a push that contradicts itself."""
    least, metrics = max(1, message.steps), len(member.metrics)
    if message.samples < least or len(message.metrics) != metrics:
        check_range("samples", message.samples, least, math.inf)
        check_range("metrics", len(message.metrics), metrics, metrics)


def check_range(name: str, value: int, low: int, high: float) -> None:
    """Raise RemoteProtocolError for a field of a push that is out of range."""
    if not low <= value <= high:
        raise RemoteProtocolError(f"Push.{name}: expected {low} to {high}, got {value}.")
