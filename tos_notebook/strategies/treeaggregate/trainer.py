"""The driver's side of MLlib's gradient descent, for one run."""

from __future__ import annotations

import numpy as np

from ...common.arrays import Buffer
from ...coordination.cohort import Cohort, Step
from ...coordination.exchange import HandedOver
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ..allreduce.parameters import StepParameters
from ..allreduce.reduction import Brought, Reduction
from ..allreduce.trainer import ReduceTrainer
from ..base import NonFinite, TrainerSetup
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
        self._summed: Buffer | None = None

    def make(self, step: Step, mean: Buffer | None) -> None:
        """See `StepMaker.make`."""
        nbytes = self._parameters.layout.nbytes
        for report in step:
            # Of good ones only the mean has come.
            buffer = np.empty(0, np.uint8) if report.brought is None else report.brought
            report.brought = Brought(buffer, (nbytes, nbytes))
        self._summed = mean
        self._make(step)

    def _parts(self, good: Step) -> list[tuple[Buffer, int]]:
        if self._summed is None:
            return super()._parts(good)
        return [(self._summed, 1)]

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
    setup : TrainerSetup
    descent : GradientDescent
    """

    _reduction: Aggregation

    def __init__(self, setup: TrainerSetup, descent: GradientDescent) -> None:
        super().__init__(setup, descent)
        self._descent = descent

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports = reports
        self._reduction = Aggregation(
            self._parameters, self._descent, cohort, reports, requests, self._non_finite
        )

    def make(self, step: Step, mean: Buffer | None) -> None:
        """See `StepMaker.make`."""
        self._reduction.make(step, mean)

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`; MLlib's updaters have no state."""
        return super().hand_over()._replace(optimizer=None)

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`; what a program's optimizer keeps ends with it."""
        return super().take_over(handed._replace(optimizer=None))
