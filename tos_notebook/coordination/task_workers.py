"""The workers of a run that have no connection: each epoch is a Spark job.

Before a job the driver asks what to compute. After it, the reports of its tasks are counted.
Pauses, stops and settings take effect in between. The rules are those of workers that connect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ..common.arrays import Buffer
from ..errors import SessionClosed
from ..wire.messages import Directive, Failed, Finish, Labelled, Loaded, Push, Suspect
from ..wire.settings import WorkerSettings
from ..wire.tasks import Assignment, TaskReport, Total
from .cohort import Cohort, Step, StepReport
from .membership import Doing, Member
from .requests import WorkerRequests
from .state import DIRECTIVES, ControlState

Locate = Callable[[TaskReport], tuple[str, str]]
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


class _Counted(NamedTuple):
    """What counts of a task report."""

    member: Member
    push: Push | None
    finish: Finish | None


class TaskWorkers:
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
        # By partition: settings with chaos in the next epoch.
        self._chaos: dict[int, WorkerSettings] = {}
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
            own, self._chaos = self._chaos, {}
            return Assignment(
                epoch,
                -1 if span.layout is None else span.layout.epoch,
                state.settings_log.version,
                state.settings.for_worker(),
                own,
            )

    def _note(self, member: Member, settings: WorkerSettings | None) -> None:
        """Keep chaos in a worker's next epoch, if an answer says so."""
        if settings is not None and settings.chaos:
            self._chaos[member.partition] = settings

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
            # It is in force, even if no task has ended so far.
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
        task_reports = sorted(
            total.task_reports, key=lambda task_report: task_report.join.partition
        )
        reports, finishes = [], {}
        for task_report in task_reports:
            if not self._state.machine.active:
                # What another worker has said has ended the run.
                return
            counted = self._hear(task_report, assignment.epoch, locate)
            if counted.push is None:
                self._finish(counted)
                continue
            exchange = max(0.0, seconds - counted.push.compute)
            # Settings that gradients do not depend on: those of the step count, which is made now.
            version = max(counted.push.settings_version, counted.member.settings_version)
            message = counted.push._replace(exchange=exchange, settings_version=version)
            reports.append(StepReport(counted.member, message, task_report.spoiled))
            finishes[counted.member.partition] = counted
        self._step(reports, total.mean)
        for report in reports:
            if report.reply is not None and report.reply.status == "committed":
                self._note(report.member, report.reply.settings)
                self._finish(finishes[report.member.partition])

    def _hear(self, task_report: TaskReport, epoch: int, locate: Locate) -> _Counted:
        """Hear what a worker says; return what counts of it."""
        member, fresh = self._enter(task_report, epoch, locate)
        push = finish = None
        for message in task_report.messages:
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
        return _Counted(member, push if fresh else None, finish)

    def _enter(self, task_report: TaskReport, epoch: int, locate: Locate) -> tuple[Member, bool]:
        """Return who a worker is, and whether its push is of a step that is not made yet."""
        join, place = task_report.join, (task_report.join.host, task_report.join.pid)
        partition, fresh = join.partition, True
        member = self._members.get(partition)
        if member is None:
            member, joined = self._requests.join(join, False, place=locate(task_report))
            self._members[partition] = member
            fresh = (joined.epoch, joined.steps) == (epoch, 0)
        elif place != self._places[partition]:
            member.executor, member.host = locate(task_report)
        self._places[partition] = place
        member.attempt, member.pid = join.attempt, join.pid
        return member, fresh

    def _finish(self, counted: _Counted) -> None:
        ledger = self._state.ledger
        if counted.finish is None or ledger.is_finished(
            counted.finish.epoch, counted.member.partition
        ):
            return
        if self._state.trains(counted.member):
            self._note(
                counted.member, self._requests.finish(counted.member, counted.finish).settings
            )

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
