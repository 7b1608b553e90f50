"""The driver's side of MLlib's gradient descent, for one run."""

from __future__ import annotations

from ...coordination.cohort import Cohort, Step
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ..allreduce.parameters import StepParameters
from ..allreduce.reduction import Reduction
from ..allreduce.trainer import ReduceTrainer
from ..base import NonFinite
from .descent import GradientDescent

CONVERGED = "the parameters have converged (convergence_tol)"
"""Why a run stops before its last epoch."""


class Aggregation(Reduction):
    """Makes an iteration of each step, and stops the run once it has converged.

    Parameters
    ----------
    parameters : StepParameters
    descent : GradientDescent
    cohort : Cohort
    reports : Reports
    requests : WorkerRequests
    non_finite : {"raise", "skip"}
    """

    def __init__(
        self,
        parameters: StepParameters,
        descent: GradientDescent,
        cohort: Cohort,
        reports: Reports,
        requests: WorkerRequests,
        non_finite: NonFinite,
    ) -> None:
        super().__init__(parameters, descent, cohort, reports, requests, non_finite)
        self._descent = descent

    def _merge(self, step: Step, good: Step) -> int:
        for report in good:
            self._descent.iteration = report.message.epoch + 1
        return super()._merge(step, good)

    def _publish(self, step: Step, version: int) -> None:
        super()._publish(step, version)
        # As in MLlib, the first update is not compared with what the parameters began with.
        if step and version > 1 and self._descent.converged:
            self._reports.stop(CONVERGED)


class TreeTrainer(ReduceTrainer):
    """Adds up gradients, and lets `GradientDescent` make the step; see `Trainer`.

    Parameters
    ----------
    parameters : StepParameters
    descent : GradientDescent
    settings : Settings
        Those that the run begins with.
    non_finite : {"raise", "skip"}
    """

    def __init__(
        self,
        parameters: StepParameters,
        descent: GradientDescent,
        settings: Settings,
        non_finite: NonFinite,
    ) -> None:
        super().__init__(parameters, descent, settings, non_finite)
        self._descent = descent

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports = reports
        self._reduction = Aggregation(
            self._parameters, self._descent, cohort, reports, requests, self._non_finite
        )
