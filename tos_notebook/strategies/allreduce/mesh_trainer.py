"""The driver's side of all-reduce among the workers, for one run."""

from __future__ import annotations

from ...archive.spec import Updater
from ...coordination.cohort import Cohort
from ...coordination.exchange import WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import CheckpointError
from ..base import NonFinite
from .mesh_reduction import MeshPeer, MeshReduction
from .outer import OuterOptimizer
from .parameters import StepParameters
from .settings import ReduceSettings
from .trainer import Copied, ReduceTrainer


class MeshTrainer(ReduceTrainer):
    """Counts what workers make together, and holds a copy of it; see `Trainer`.

    Parameters
    ----------
    parameters, updater, settings, non_finite
        See `ReduceTrainer`.
    detours : bool
        Whether the run may go through the driver, where workers cannot reach each other. Else it
        fails.
    """

    _reduction: MeshReduction

    def __init__(
        self,
        parameters: StepParameters,
        updater: Updater | None,
        settings: Settings,
        non_finite: NonFinite,
        detours: bool,
    ) -> None:
        super().__init__(parameters, updater, settings, non_finite)
        own: ReduceSettings = settings.strategy
        # Workers make its steps; here it says what its state looks like.
        self._outer = None if own.outer is None else OuterOptimizer(parameters.layout, own.outer)
        # The driver has no outer optimizer.
        self._detours = detours and self._outer is None

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports = reports
        self._reduction = MeshReduction(
            self._parameters,
            self._updater,
            cohort,
            reports,
            requests,
            self._non_finite,
            detours=self._detours,
        )
        if self._outer is not None:
            self._reduction.restore(self._outer.state())

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`; what workers share with the driver is of no use here."""
        return MeshPeer(self._reduction)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        super().restore(copied)
        if self._outer is not None:
            try:
                self._outer.restore(copied.state)
            except ValueError as error:
                raise CheckpointError(f"The checkpoint is of another combiner: {error}.") from None
        self._reduction.restore(copied.state)
