"""The workers of a run that have no connection: each epoch is a Spark job, which tells of them.

Before a job the driver asks what it is to compute, and after it tells what each worker has said.
Pauses, stops and settings take effect in between. The rules are those of workers that connect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..common.arrays import Buffer
from ..errors import SessionClosed
from ..wire.account import Account, Assignment, Total
from ..wire.messages import Directive, Failed, Finish, Labelled, Loaded, Push, Suspect
from ..wire.settings import WorkerSettings
from .cohort import Cohort, Step, StepReport
from .membership import Doing, Member
from .requests import WorkerRequests
from .state import DIRECTIVES, ControlState

Locate = Callable[[Account], tuple[str, str]]
"""Returns executor and host of a worker whose task has ended."""


class StepMaker(Protocol):
    """A trainer that makes a step by what others have added up."""

    def make(self, step: Step, mean: Buffer | None) -> None:
        """Make a step, and answer its reports.

        Parameters
        ----------
        step : Step
            What `Cohort.gather` returned. A report has brought its update if that is not finite.
        mean : ndarray, shape (layout.nbytes,), uint8, or None
            The mean over rows of all other updates; None without any.
        """


class _Told(NamedTuple):
    """What an account is about."""

    member: Member
    push: Push | None
    finish: Finish | None


class Crew:
    """The workers of one Spark job after another; see `StepMaker`.

    Parameters
    ----------
    state : ControlState
    requests : WorkerRequests
    cohort : Cohort
    maker : StepMaker
    """

    def __init__(
        self, state: ControlState, requests: WorkerRequests, cohort: Cohort, maker: StepMaker
    ) -> None:
        self._state = state
        self._requests = requests
        self._cohort = cohort
        self._maker = maker
        self._members: dict[int, Member] = {}
        # By partition: settings with what is to go wrong in the next epoch.
        self._mishaps: dict[int, WorkerSettings] = {}
        # By partition: host and process of the latest worker.
        self._places: dict[int, tuple[str, int]] = {}

    def next(self) -> Assignment | None:
        """Wait until the next epoch may begin.

        Returns
        -------
        Assignment or None
            What to compute; None if the job's last epoch is done, or the run ends.
        """
        state = self._state
        with state.changed:
            self._wait()
            span = state.span
            epoch = -1 if span is None else state.ledger.open_epoch(span.first_epoch)
            ends = self._directive() is not Directive.GO
            if span is None or ends or epoch > span.last_epoch:
                self._leave()
                return None
            span.started = max(span.started, epoch)
            for member in self._members.values():
                member.waiting = False
                member.hear(Doing.TRAIN)
                self._note(member, state.news(member, state.settings_log.version, Directive.GO)[1])
            own, self._mishaps = self._mishaps, {}
            return Assignment(
                epoch,
                -1 if span.layout is None else span.layout.epoch,
                state.settings_log.version,
                state.settings.for_worker(),
                own,
            )

    def _note(self, member: Member, settings: WorkerSettings | None) -> None:
        """Keep what is to go wrong in a worker's next epoch, if an answer says so."""
        if settings is not None and settings.chaos:
            self._mishaps[member.partition] = settings

    def _directive(self) -> Directive:
        if self._state.settled:
            return Directive.STOP
        return DIRECTIVES.get(self._state.machine.state, Directive.STOP)

    def _wait(self) -> None:
        """Let all workers wait, as long as the run is paused."""
        state = self._state
        for member in self._members.values():
            if state.trains(member):
                state.wait(member)
        while self._directive() is Directive.WAIT:
            for member in self._members.values():
                member.hear(Doing.WAIT)
            # It is in force, even if no task has told of a worker so far.
            state.acknowledgements.report_pause()
            state.changed.wait(state.timeouts.long_poll)

    def _leave(self) -> None:
        for member in self._members.values():
            if self._state.trains(member):
                self._state.leave(member)

    def take(self, assignment: Assignment, total: Total, seconds: float, locate: Locate) -> None:
        """Count an epoch that a Spark job has computed, and make its step.

        Parameters
        ----------
        assignment : Assignment
            What `next` returned.
        total : Total
            What the job returned.
        seconds : float
            That the job took.
        locate : callable

        Raises
        ------
        SessionClosed
            Another job has taken over.
        """
        accounts = sorted(total.accounts, key=lambda account: account.join.partition)
        reports, finishes = [], {}
        for account in accounts:
            if not self._state.machine.active:
                # What another worker has said has ended the run.
                return
            told = self._hear(account, assignment.epoch, locate)
            if told.push is None:
                self._finish(told)
                continue
            exchange = max(0.0, seconds - told.push.compute)
            # Settings that gradients do not depend on: those of the step count, which is made now.
            version = max(told.push.settings_version, told.member.settings_version)
            message = told.push._replace(exchange=exchange, settings_version=version)
            reports.append(StepReport(told.member, message, account.spoiled))
            finishes[told.member.partition] = told
        self._step(reports, total.mean)
        for report in reports:
            if report.reply is not None and report.reply.status == "committed":
                self._note(report.member, report.reply.settings)
                self._finish(finishes[report.member.partition])

    def _hear(self, account: Account, epoch: int, locate: Locate) -> _Told:
        """Hear what a worker says; return what counts of it."""
        member, fresh = self._enter(account, epoch, locate)
        push = finish = None
        for message in account.messages:
            match message:
                case Labelled():
                    self._requests.labelled(member, message)
                case Loaded():
                    self._requests.loaded(member, message)
                case Suspect():
                    self._requests.suspect(member, message)
                case Failed():
                    self._requests.failed(member, message)
                case Push():
                    push = message
                case Finish():
                    finish = message
        return _Told(member, push if fresh else None, finish)

    def _enter(self, account: Account, epoch: int, locate: Locate) -> tuple[Member, bool]:
        """Return who a worker is, and whether its push is of a step that is not made yet."""
        join, place = account.join, (account.join.host, account.join.pid)
        partition, fresh = join.partition, True
        member = self._members.get(partition)
        if member is None:
            member, joined = self._requests.join(join, False, place=locate(account))
            self._members[partition] = member
            fresh = (joined.epoch, joined.steps) == (epoch, 0)
        elif place != self._places[partition]:
            member.executor, member.host = locate(account)
        self._places[partition] = place
        member.attempt, member.pid = join.attempt, join.pid
        return member, fresh

    def _finish(self, told: _Told) -> None:
        ledger = self._state.ledger
        if told.finish is None or ledger.is_finished(told.finish.epoch, told.member.partition):
            return
        if self._state.trains(told.member):
            self._note(told.member, self._requests.finish(told.member, told.finish).settings)

    def _step(self, reports: list[StepReport], mean: Buffer | None) -> None:
        for report in reports:
            status = self._cohort.enter(report)
            if status == "superseded":
                raise SessionClosed(
                    f"Partition {report.member.partition} belongs to a later attempt by now."
                )
            if status is not None:
                return
        while reports and reports[-1].reply is None:
            step = self._cohort.gather(reports[-1])
            if step is not None:
                self._maker.make(step, mean)
