"""The driver's side of all-reduce among the workers, for one run."""

from __future__ import annotations

from ...archive.runner import Updater
from ...coordination.cohort import Cohort
from ...coordination.exchange import WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...errors import CheckpointError
from ..base import TrainerSetup
from .mesh_reduction import MeshPeer, MeshReduction
from .outer import OuterOptimizer
from .settings import ReduceSettings
from .trainer import Copied, ReduceTrainer


class MeshTrainer(ReduceTrainer):
    """Counts what workers make together, and holds a copy of it; see `Trainer`.

    Parameters
    ----------
    setup, updater
        See `ReduceTrainer`.
    detours : bool
        Whether the run may go through the driver, where workers cannot reach each other. Else it
        fails.
    """

    _reduction: MeshReduction

    def __init__(self, setup: TrainerSetup, updater: Updater | None, detours: bool) -> None:
        super().__init__(setup, updater)
        own: ReduceSettings = setup.settings.strategy
        # Workers make its steps; here it says what its state looks like.
        self._outer = None if own.outer is None else OuterOptimizer(setup.layout, own.outer)
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
