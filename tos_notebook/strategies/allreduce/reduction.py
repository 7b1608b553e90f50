"""Takes what all workers bring for a step, and makes the step by its mean."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, NamedTuple

from ...archive.runner import Updater
from ...common.arrays import Array, Buffer
from ...coordination.cohort import Cohort, Step, StepReport
from ...coordination.membership import Member, Traffic
from ...coordination.reports import Reports, check_range
from ...coordination.requests import WorkerRequests
from ...errors import CombinerError, NonFiniteUpdate, SessionClosed, TosError
from ...transport.fast_path import Peer
from ...wire.messages import Directive, Poll, Proceed, Push, Reply
from ..base import NonFinite
from ..ps.non_finite import find_non_finite
from .mean import mean
from .parameters import StepParameters


class Brought(NamedTuple):
    """What one worker brings for a step."""

    buffer: Buffer
    """Gradients or parameters, by the layout."""
    traffic: tuple[int, int]
    """Bytes that have come from the worker, and gone to it, since it reported last."""


class Reduction:
    """Makes steps; see `strategies.ps.peer.Merger`. Threads of all connections call in here.

    Parameters
    ----------
    parameters : StepParameters
    updater : Updater or None
        The optimizer that takes mean gradients; None where workers bring parameters.
    cohort : Cohort
    reports : Reports
    requests : WorkerRequests
    non_finite : {"raise", "skip"}
        What becomes of what a worker brings with NaN or infinity.

    Attributes
    ----------
    lock : Lock
        Held while a step is made.
    """

    keeps_own = False
    blocks = True

    def __init__(
        self,
        parameters: StepParameters,
        updater: Updater | None,
        cohort: Cohort,
        reports: Reports,
        requests: WorkerRequests,
        non_finite: NonFinite = "raise",
    ) -> None:
        self._parameters = parameters
        self._updater = updater
        self._cohort = cohort
        self._reports = reports
        self._requests = requests
        self._non_finite = non_finite
        self._mean = parameters.layout.allocate()
        self.lock = threading.Lock()

    def push(
        self, member: Member, message: Push, update: Buffer, traffic: tuple[int, int] = (0, 0)
    ) -> Reply:
        """See `Merger.push`; waits a while for the other workers of the step."""
        reply = self._enter(member, message, Brought(update, traffic))
        if reply.directive is Directive.WAIT:
            return reply
        return reply._replace(version=self._parameters.read(update)[1])

    def arm(self, member: Member, peer: Peer, update: Buffer, apart: bool) -> None:
        """See `Merger.arm`: a push that waits for others takes no fast path."""

    def _enter(self, member: Member, message: Push, brought: Any) -> Reply:
        """Wait a while for the others of a step; a reply without it has the version before."""
        check_range("base_version", message.base_version, 0, self._parameters.version)
        report = StepReport(member, message, brought)
        status = self._cohort.enter(report)
        if status is None:
            reply = self._gather(report)
        else:
            version = self._parameters.version
            reply, _ = self._reports.decide(member, message, status, False, version)
        if reply is None:
            return Reply(
                message.base_version, message.settings_version, "committed", Directive.WAIT, None
            )
        return reply

    def poll(self, member: Member, message: Poll, center: Buffer, owed: bool) -> Proceed:
        """See `Merger.poll`."""
        proceed = self._proceed(member, message)
        go = proceed.directive is Directive.GO
        return replace(proceed, version=self._parameters.read(center)[1] if go else None)

    def _proceed(self, member: Member, message: Poll) -> Proceed:
        """Answer a waiting worker; with the version after its step, if that is made by now."""
        report = self._cohort.waiting(member)
        if report is None and not self._cohort.wait_made():
            return Proceed(Directive.WAIT, message.settings_version, None)
        if report is None:
            return self._requests.poll(member, message)
        reply = self._gather(report)
        if reply is None:
            return Proceed(Directive.WAIT, message.settings_version, None)
        if reply.status == "superseded":
            raise SessionClosed(f"Partition {member.partition} belongs to a later attempt by now.")
        return Proceed(reply.directive, reply.settings_version, reply.settings, reply.version)

    def _gather(self, report: StepReport) -> Reply | None:
        """Wait for the others; make the step, if this is the thread that is to do so."""
        step = self._cohort.gather(report)
        if step is not None:
            self._make(step)
        return report.reply

    def _make(self, step: Step) -> None:
        try:
            good = [report for report in step if self._is_good(report)]
            with self.lock:
                version = self._merge(step, good)
            self._publish([report for report in good if report.counts], version)
        except BaseException as error:
            self._fail(step, error)
            return
        finally:
            for report in step:
                report.member.suspect = None
        self._cohort.commit(step, version)

    def _publish(self, step: Step, version: int) -> None:
        steps = self._optimizer_steps(step)
        for report in step:
            traffic = self._traffic(report)
            self._reports.merged(
                report.member, report.message, version, 0, traffic, len(step), steps
            )
            # All have made them together.
            steps = 0

    def _traffic(self, report: StepReport) -> tuple[int, int] | Traffic:
        """Return the bytes of a worker's milestone."""
        traffic: tuple[int, int] = report.brought.traffic
        return traffic

    def _optimizer_steps(self, step: Step) -> int:
        """Return how many steps the optimizer has made: here one, on workers one for each batch."""
        if self._updater is not None:
            return 1
        return max((report.message.steps for report in step), default=0)

    def _merge(self, step: Step, good: Step) -> int:
        """Return the version that the step has made."""
        layout = self._parameters.layout
        parts = self._parts(good)
        if not parts:
            return self._parameters.version
        mean(layout, parts, self._mean)
        if self._updater is None:
            return self._parameters.replace(list(layout.tensors(self._mean).values()))
        means = layout.vectors(self._mean)
        try:
            return self._parameters.replace(self._updater.update(self._parameters.vectors, means))
        except BaseException:
            self._parameters.torn = "The optimizer has begun a step that does not count."
            raise

    def _parts(self, good: Step) -> list[tuple[Buffer, int]]:
        """Return what is averaged, and the rows of each."""
        return [(report.brought.buffer, report.message.samples) for report in good]

    def _is_good(self, report: StepReport) -> bool:
        """Whether what a worker brings is finite; else it is left out, or ends the run."""
        scaled = self._updater is not None and self._updater.scales_loss
        if report.message.finite or scaled:
            return True
        member, message = report.member, report.message
        found = self._find_non_finite(report)
        if found is None:
            return True
        error = self._reports.explain(member, message, found)
        if self._non_finite != "skip":
            raise error
        return self._leave_out(report, error)

    def _leave_out(self, report: StepReport, error: TosError) -> bool:
        """Publish what is left out; return whether the rest counts."""
        self._reports.skip(report.member, report.message, error)
        return False

    def _find_non_finite(self, report: StepReport) -> NonFiniteUpdate | None:
        return find_non_finite(self._parameters.layout, report.brought.buffer)

    def state(self) -> list[Array]:
        """Return the optimizer's state, copied."""
        return [] if self._updater is None else self._updater.state()

    def _fail(self, step: Step, error: BaseException) -> None:
        """End the run: the step counts for no worker."""
        for report in step:
            if report.counts:
                self._reports.revoke(report.member, report.message, self._tear)
        if not isinstance(error, TosError):
            first = step[0].message
            made = CombinerError(
                f"Step {first.sequence} of epoch {first.epoch + 1} was not made: "
                f"{type(error).__name__}: {error}. It counts for no worker."
            )
            made.__cause__ = error
            error = made
        self._reports.fail(error)
        self._cohort.abandon(step)

    def _tear(self) -> None:
        self._parameters.torn = "The parameters lack a step that counts as made."

    def check(self) -> NonFiniteUpdate | None:
        """Return the error of parameters that are not finite."""
        found = find_non_finite(self._parameters.layout, self._parameters.read()[0])
        if found is not None:
            self._parameters.torn = "The parameters hold NaN or infinity."
        return found
