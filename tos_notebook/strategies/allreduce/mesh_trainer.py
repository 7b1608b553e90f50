"""The driver's side of all-reduce among the workers, for one run."""

from __future__ import annotations

from ...coordination.cohort import Cohort
from ...coordination.exchange import WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from .mesh_reduction import MeshPeer, MeshReduction
from .trainer import Copied, ReduceTrainer


class MeshTrainer(ReduceTrainer):
    """Counts what workers make together, and holds a copy of it; see `Trainer`."""

    _reduction: MeshReduction

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports = reports
        self._reduction = MeshReduction(
            self._parameters, self._updater, cohort, reports, requests, self._non_finite
        )

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`; what workers share with the driver is of no use here."""
        return MeshPeer(self._reduction)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        super().restore(copied)
        self._reduction.restore(copied.state)
