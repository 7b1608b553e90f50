"""Lets all workers make each step together, by the mean of the gradients that wait on servers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...coordination.cohort import Cohort, Step, StepReport
from ...coordination.membership import Member
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import NonFiniteUpdate, TosError
from ...wire.messages import Directive, Poll, Proceed, Push, Reply
from ..allreduce.reduction import Brought, Reduction
from .parameters import ServedParameters
from .trainer import Copied, SessionTrainer


class Averaging(Reduction):
    """Makes a step when all workers have left their gradients on the servers; see `peer.Counter`.

    Parameters
    ----------
    parameters : ServedParameters
    cohort : Cohort
    reports : Reports
    requests : WorkerRequests
    """

    def __init__(
        self,
        parameters: ServedParameters,
        cohort: Cohort,
        reports: Reports,
        requests: WorkerRequests,
    ) -> None:
        super().__init__(cast(Any, parameters), None, cohort, reports, requests)
        self._served = parameters

    def push(self, member: Member, message: Push, *_: Any) -> Reply:
        """See `peer.Counter.push`; waits a while for the other workers of the step."""
        return self._enter(member, message, Brought(np.empty(0, np.uint8), (0, 0)))

    def poll(self, member: Member, message: Poll, *_: Any) -> Proceed:
        """See `peer.Counter.poll`."""
        try:
            self._served.check()
        except TosError as error:
            self._reports.fail(error)
        proceed = self._proceed(member, message)
        go = proceed.directive is Directive.GO
        return replace(proceed, version=self._served.version if go else None)

    def _merge(self, step: Step, good: Step) -> int:
        rows = sum(report.message.samples for report in good)
        shares = {report.member.partition: report.message.samples / rows for report in good}
        try:
            return self._served.update(shares)
        except BaseException:
            self._served.torn = "The optimizer has begun a step that does not count."
            raise

    def _find_non_finite(self, report: StepReport) -> NonFiniteUpdate:
        return NonFiniteUpdate("The loss of a batch is NaN or infinity, and its gradients may be.")


class LockstepTrainer(SessionTrainer):
    """Lets the driver make each step; see `Trainer`."""

    _averaging: Averaging

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._counter = self._averaging = Averaging(self._parameters, cohort, reports, requests)

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`; a step is made before it or after, for all workers."""
        with self._averaging.lock:
            super().change(settings, names, entered)

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`: only the driver changes variables."""
        return nullcontext()

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`; gradients that wait are computed again."""
        self._require_whole()
        with self._averaging.lock:
            entered()
            return Copied(self._parameters.all(), self._parameters.version)
