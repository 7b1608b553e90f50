"""The driver's side of the parameter server, for one run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext

from ...coordination.cohort import Cohort
from ...coordination.exchange import HandedOver, WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import NonFiniteUpdate
from ...transport.shared import attach
from ..base import NonFinite
from .center import Center
from .merging import Merging
from .peer import PeerExchange
from .push import Copied
from .rows.peer import RowPeerExchange
from .settings import settings_in


class ServerTrainer:
    """Merges what workers push into the center; see `Trainer`.

    Parameters
    ----------
    center : Center
    non_finite : {"raise", "skip"}
        If an update has NaN or infinity: end the run, or skip the update.

    Attributes
    ----------
    merging : Merging
        There once the run has begun.
    """

    merging: Merging

    def __init__(self, center: Center, non_finite: NonFinite = "raise") -> None:
        self.center = center
        self._non_finite = non_finite
        self._reports: Reports

    @property
    def parameters(self) -> Center:
        """See `Trainer.parameters`."""
        return self.center

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`; a push is merged when it comes."""
        self._reports = reports
        self.merging = Merging(self.center, reports, requests, self._non_finite)

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`."""
        shared = attach(segment, self.center.layout.nbytes)
        kind = RowPeerExchange if self.center.layout.tables else PeerExchange
        return kind(self.center.layout, self.merging, self._reports, shared)

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`; the same combiner begins with empty state, too."""
        if "combiner" in names:
            self.center.swap(settings_in(settings).combiner, entered)
        else:
            entered()

    def final(self) -> NonFiniteUpdate | None:
        """See `Trainer.final`."""
        return self.center.check(self.center.center)

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`; what the combiner keeps ends with it."""
        return HandedOver(self.center.version, self.center.torn)

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`; workers have the optimizers."""
        self.center.go_on(handed.version, handed.torn)
        return False

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`: workers have copies."""
        return nullcontext()

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`."""
        return self.center.snapshot(entered)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        self.center.restore(copied)
