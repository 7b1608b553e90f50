"""Counts what workers have trained, each by itself, on variables that all share."""

from __future__ import annotations

from dataclasses import replace

from ...coordination.membership import Member
from ...coordination.reports import Reports, check_range
from ...coordination.requests import WorkerRequests
from ...errors import NonFiniteUpdate, TosError
from ...wire.messages import Directive, Poll, Proceed, Push, Reply
from .parameters import ServedParameters

NON_FINITE = "The loss is NaN or infinity, and the variables that all workers share may be, too."


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

    def push(self, member: Member, message: Push) -> Reply:
        """See `peer.Counter.push`."""
        check_range("base_version", message.base_version, 0, self._parameters.version)
        status, _, workers = self._reports.admit(member, message)
        merging, version = status == "committed", self._parameters.version
        try:
            if merging and message.finite:
                version = self._parameters.count()
                # Others change the variables between this worker's steps, and nobody counts that.
                self._reports.merged(member, message, version, None, (0, 0), workers)
            elif merging:
                self._refuse(member, message)
                status = "skipped"
        except BaseException:
            self._reports.abandon(merging)
            raise
        finally:
            member.suspect = None
        return self._reports.decide(member, message, status, merging, version)[0]

    def _refuse(self, member: Member, message: Push) -> None:
        """End the run: what is in the variables cannot be left out."""
        self._reports.revoke(member, message, lambda: None)
        self._parameters.torn = NON_FINITE
        self._reports.fail(self._reports.explain(member, message, NonFiniteUpdate(NON_FINITE)))

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
