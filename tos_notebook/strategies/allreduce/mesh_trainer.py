"""The driver's side of all-reduce among the workers, for one run."""

from __future__ import annotations

from typing import Any

from ...coordination.cohort import Cohort
from ...coordination.exchange import WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from .mesh_reduction import MeshPeer, MeshReduction
from .trainer import Copied, ReduceTrainer


class MeshTrainer(ReduceTrainer):
    """Counts what workers make together, and holds a copy of it; see `Trainer`.

    Parameters
    ----------
    *arguments
        Of `ReduceTrainer`.
    detours : bool
        Whether the run may go through the driver, where workers cannot reach each other. Else it
        fails.
    """

    _reduction: MeshReduction

    def __init__(self, *arguments: Any, detours: bool) -> None:
        super().__init__(*arguments)
        self._detours = detours

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

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`; what workers share with the driver is of no use here."""
        return MeshPeer(self._reduction)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        super().restore(copied)
        self._reduction.restore(copied.state)
