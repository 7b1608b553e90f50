"""Counts what workers have trained, each by itself, on variables that all share."""

from __future__ import annotations

from dataclasses import replace

from ...coordination.counting import Counted, MilestoneCounter
from ...coordination.membership import Member
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...errors import NonFiniteUpdate, TosError
from ...wire.messages import Directive, Poll, Proceed, Push, Reply
from .parameters import ServedParameters

NON_FINITE = "The loss is NaN or infinity, and so may be the variables that all workers share."


class Counting:
    """Counts milestones of workers that wait for none; see `peer.Counter`.

    Parameters
    ----------
    parameters : ServedParameters
    reports : Reports
    requests : WorkerRequests
    """

    def __init__(
        self, parameters: ServedParameters, reports: Reports, requests: WorkerRequests
    ) -> None:
        self._parameters, self._reports, self._requests = parameters, reports, requests
        self._counter = MilestoneCounter(
            reports,
            lambda: parameters.version,
            self._count,
            lambda: NonFiniteUpdate(NON_FINITE),
            tear=self._tear,
        )

    def push(self, member: Member, message: Push) -> Reply:
        """See `peer.Counter.push`."""
        return self._counter.push(member, message).reply

    def _count(self, member: Member, message: Push, workers: int) -> Counted:
        # Others change the variables between this worker's steps, which is not counted.
        return Counted(self._parameters.count(), None)

    def _tear(self) -> None:
        """Note that what is in the variables cannot be left out."""
        self._parameters.torn = NON_FINITE

    def poll(self, member: Member, message: Poll) -> Proceed:
        """See `peer.Counter.poll`."""
        try:
            self._parameters.check()
        except TosError as error:
            self._reports.fail(error)
        proceed = self._requests.poll(member, message)
        if proceed.directive is not Directive.GO:
            return proceed
        return replace(proceed, version=self._parameters.version)
