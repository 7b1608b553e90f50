"""Steps that all workers make together: committed for every partition, or for none.

A step is complete when each partition that is not used up has reported it. Until then nothing of
it is recorded. A worker that dies takes its report along, and the attempt that follows makes the
same step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RemoteProtocolError
from ..wire.messages import Awaiting, Directive, Formed, Proceed, Push, Ready, Reply, Status
from .absences import Absences
from .ledger import Admission
from .membership import Doing, Member
from .rendezvous import Rendezvous
from .reports import Reports, check_report
from .state import ControlState


@dataclass(eq=False, slots=True)
class StepReport:
    """What one worker has for a step.

    Parameters
    ----------
    member : Member
    message : Push
        Once it waits, with the worker's last wait for others as `wait` instead of `exchange`.
    brought : object
        What the strategy needs of it, such as gradients.
    reply : Reply, optional
        There once the step is dealt with.
    since : float, optional
        When it began to wait, by the monotonic clock; None once it no longer does so in its push.
    taken : bool
        Whether its step is being made: it is recorded, and not answered yet.
    """

    member: Member
    message: Push
    brought: Any
    reply: Reply | None = None
    since: float | None = None
    taken: bool = False

    @property
    def counts(self) -> bool:
        """Whether there is anything to record: the worker has rows left, and trained some."""
        return self.message.steps > 0

    def enter(self) -> None:
        """Begin to wait for the others of the step."""
        message, held = self.message, self.member.held
        exchange = max(0.0, message.exchange - held)
        self.message = message._replace(wait=message.wait + held, exchange=exchange)
        self.since = time.monotonic()

    def count_wait(self) -> None:
        """Note how long the push has waited; the worker itself counts what it waits after that."""
        if self.since is not None:
            self.member.held = time.monotonic() - self.since
            self.since = None


Step = Sequence[StepReport]
"""The reports of a step, by partition."""


class Cohort:
    """The workers of a run that make each step together. It knows no parameters.

    Parameters
    ----------
    state : ControlState
    reports : Reports
        Admits what is committed, and says what each worker does next.
    """

    def __init__(self, state: ControlState, reports: Reports) -> None:
        self._state = state
        self._reports = reports
        self._rendezvous = Rendezvous(state)
        self._absences = Absences(state)
        self._waiting: dict[int, StepReport] = {}

    def form(self, member: Member, message: Ready) -> Formed | Proceed:
        """Let a worker wait for others that it connects to; see `Rendezvous.wait`.

        Others whose milestone waits for one that is lost are told to train it again.

        Raises
        ------
        SessionClosed
            A later attempt has taken its place.
        """
        with self._state.changed:
            self._state.check_current(member)
            self._absences.apply(message.epoch)
            member.epoch = message.epoch
            member.hear(Doing.WAIT)
            if self._rendezvous.enter(member, message):
                self._repeat([r for r in self._waiting.values() if self._open(r)])
        if not self.wait_made():
            return Proceed(Directive.WAIT, member.settings_version, None)
        return self._rendezvous.wait(member, message.epoch)

    def continue_without(self, partitions: Iterable[int]) -> None:
        """Make steps without some partitions that have no worker; see `Absences`."""
        with self._state.changed:
            self._absences.continue_without(partitions)

    def wait_on(
        self, member: Member, message: Awaiting, unconnected: Callable[[str], object]
    ) -> Proceed:
        """Say whether a worker still needs another one of its generation.

        Parameters
        ----------
        member : Member
        message : Awaiting
        unconnected : callable
            Takes a sentence that says which workers cannot reach each other, once it is clear.

        Raises
        ------
        SessionClosed
            See `form`.
        """
        with self._state.changed:
            self._state.check_current(member)
            member.hear(Doing.WAIT)
            needed = self._rendezvous.lasts(member, message.generation)
            found = None
            if needed and message.problem:
                needed, found = False, self._rendezvous.blame(member, message)
        if found is not None:
            # Without the lock, since it may end the Spark job.
            unconnected(found)
        with self._state.lock:
            directive = self._state.issue_directive(member)
            if directive is not Directive.STOP:
                directive = Directive.WAIT if needed else Directive.GO
            return Proceed(directive, member.settings_version, None)

    def enter(self, report: StepReport) -> Status | None:
        """Let a worker wait for the others of its step.

        Returns
        -------
        {"duplicate", "skipped", "superseded", "again"} or None
            Why it does not count; None if it waits.

        Raises
        ------
        RemoteProtocolError
            The report contradicts itself, or what was committed before.
        """
        member, message, state = report.member, report.message, self._state
        if report.counts or not self._rendezvous.used:
            check_report(member, message)
        with state.lock:
            member.epoch = message.epoch
            member.hear(Doing.MERGE)
            if not state.membership.is_current(member):
                return "superseded"
            if state.settled or not state.machine.active:
                return "skipped"
            # None but its own worker is to learn of settings that it cannot have.
            state.settings_log.get(message.settings_version)
            if self._rendezvous.used and not self._rendezvous.holds(member):
                return "again"
            self._absences.apply(message.epoch)
            admission = self._check(report)
            if admission is not Admission.COMMIT:
                return "duplicate" if admission is Admission.DUPLICATE else "superseded"
            self._waiting[member.partition] = report
            report.enter()
            return None

    def _check(self, report: StepReport) -> Admission:
        """Return what the ledger says of a report; one without rows is not recorded in it."""
        member, message, ledger = report.member, report.message, self._state.ledger
        place = message.epoch, member.partition
        if report.counts:
            return ledger.check(*place, member.task, message.sequence, message.steps)
        if ledger.is_finished(*place):
            raise RemoteProtocolError(
                f"Partition {member.partition}: expected a report of an epoch that is not over, "
                f"got one of epoch {message.epoch + 1}."
            )
        return Admission.COMMIT

    def waiting(self, member: Member) -> StepReport | None:
        """Return a worker's report of a step that was not answered."""
        with self._state.lock:
            report = self._waiting.get(member.partition)
            return report if report is not None and report.member is member else None

    def wait_made(self) -> bool:
        """Wait for a step that is being made, for `Timeouts.long_poll` at most.

        Returns
        -------
        bool
            Whether none is. While one is, a worker that has just come must not continue: its
            partition may be a step further than the parameters.
        """
        with self._state.changed:
            return self._state.changed.wait_for(
                lambda: not any(report.taken for report in self._waiting.values()),
                self._state.timeouts.long_poll,
            )

    def gather(self, report: StepReport) -> Step | None:
        """Wait for the others of a step, for `Timeouts.long_poll` at most.

        Parameters
        ----------
        report : StepReport
            As `enter` has let it wait.

        Returns
        -------
        Step or None
            The whole step, for the one caller that is to deal with it: it is recorded as
            committed. None for all others; then the report has its reply, or waits on.
        """
        state = self._state
        with state.changed:
            report.member.hear(Doing.WAIT)
            if not report.taken:
                state.wait(report.member)
            state.changed.wait_for(lambda: self._over(report), state.timeouts.long_poll)
            over = self._is_used_up(report)
            if not over and self._complete(report):
                return self._take(report.message.epoch)
            report.count_wait()
            if self._open(report) and (over or self._ends(report.member)):
                self._answer(report, "skipped", 0)
            return None

    def _over(self, report: StepReport) -> bool:
        if not self._open(report):
            return report.reply is not None
        return self._ends(report.member) or self._complete(report)

    def _open(self, report: StepReport) -> bool:
        """Whether a report waits for others: its step is neither made, nor being made."""
        return report.reply is None and not report.taken

    def _is_used_up(self, report: StepReport) -> bool:
        """Whether a worker has ended the epoch of which it reports."""
        return self._state.ledger.is_finished(report.message.epoch, report.member.partition)

    def _ends(self, member: Member) -> bool:
        return self._state.directive(member) is Directive.STOP

    def _complete(self, report: StepReport) -> bool:
        """Whether every partition with rows left has reported a report's step."""
        state, epoch = self._state, report.message.epoch
        ledger, own = state.ledger, self._waiting.get(report.member.partition)
        if own is not report or not self._open(report):
            return False
        if state.gate.held or state.settled or not state.machine.active:
            return False
        return all(
            ledger.is_finished(epoch, partition) or self._reports_now(partition, epoch)
            for partition in range(ledger.partitions or 0)
        )

    def _reports_now(self, partition: int, epoch: int) -> bool:
        report = self._waiting.get(partition)
        if report is None or report.taken or report.message.epoch != epoch:
            return False
        # One that has left, or whose place another has taken, makes the step again.
        return self._state.membership.present(partition) is report.member

    def _take(self, epoch: int) -> Step | None:
        open_ones = [p for p in self._waiting if not self._state.ledger.is_finished(epoch, p)]
        step = [self._waiting[p] for p in sorted(open_ones) if self._reports_now(p, epoch)]
        if self._rendezvous.used and self._differ(step):
            # When they have connected again, all have the same settings, and make the same steps.
            self._repeat(step)
            return None
        self._rendezvous.note_step()
        # They stay until they are answered, so that none of their workers continues before. What
        # else there is has been left by workers that are gone.
        self._waiting = {report.member.partition: report for report in step}
        for report in step:
            report.count_wait()
            report.taken = True
            # A pause is not over before the step is.
            report.member.waiting = False
            if report.counts:
                self._reports.admit(report.member, report.message)
                partition = report.member.partition
                self._absences.count(epoch, partition, report.message.samples)
        return step

    def _differ(self, step: Step) -> bool:
        """Whether workers have made other steps, or with one that they continue without by now."""
        versions = {report.message.settings_version for report in step}
        return len(versions) > 1 or self._rendezvous.lacks([r.member.partition for r in step])

    def _repeat(self, reports: Step) -> None:
        """Let workers that have trained a milestone together train it again."""
        for report in reports:
            self._answer(report, "again", report.message.base_version)
        self._state.changed.notify_all()

    def commit(self, step: Step, version: int) -> None:
        """Answer all workers of a step, at one moment: they get the same settings.

        Parameters
        ----------
        step : Step
            What `gather` returned.
        version : int
            That of the parameters after it.
        """
        with self._state.changed:
            for report in step:
                self._answer(report, "committed" if report.counts else "skipped", version)
            self._state.changed.notify_all()

    def abandon(self, step: Step) -> None:
        """Answer all workers of a step that has come to nothing; the run has failed."""
        with self._state.changed:
            for report in step:
                self._reports.abandon(report.counts)
                self._answer(report, "skipped", 0)
            self._state.changed.notify_all()

    def _answer(self, report: StepReport, status: Status, version: int) -> None:
        merged = status == "committed"
        report.member.waiting = False
        report.reply, _ = self._reports.decide(
            report.member, report.message, status, merged, version
        )
        if report.reply.directive is Directive.WAIT:
            self._state.wait(report.member)
        if self._waiting.get(report.member.partition) is report:
            del self._waiting[report.member.partition]
