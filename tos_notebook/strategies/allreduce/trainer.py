"""The driver's side of all-reduce through the driver, for one run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from ...archive.runner import Updater
from ...common.arrays import Array, Buffer
from ...coordination.cohort import Cohort
from ...coordination.exchange import HandedOver, WorkerExchange
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import CheckpointError, NonFiniteUpdate
from ...transport.shared import attach
from ..base import TrainerSetup
from ..ps.peer import PeerExchange
from .parameters import StepParameters
from .reduction import Reduction


class Copied(NamedTuple):
    """Parameters and the optimizer's state, as of one version."""

    center: Buffer
    version: int
    state: list[Array]


class ReduceTrainer:
    """Averages what workers bring; see `Trainer`.

    Parameters
    ----------
    setup : TrainerSetup
    updater : Updater or None
        The optimizer; None where workers bring parameters.
    """

    _reduction: Reduction
    _reports: Reports

    def __init__(self, setup: TrainerSetup, updater: Updater | None) -> None:
        self._parameters = StepParameters(setup.layout, setup.initial)
        self._updater = updater
        self._non_finite = setup.non_finite
        self._set_learning_rate(setup.settings)

    def _set_learning_rate(self, settings: Settings) -> None:
        if self._updater is not None and settings.learning_rate is not None:
            self._updater.set_learning_rate(settings.learning_rate)

    @property
    def parameters(self) -> StepParameters:
        """See `Trainer.parameters`."""
        return self._parameters

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports = reports
        self._reduction = Reduction(
            self._parameters, self._updater, cohort, reports, requests, self._non_finite
        )

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`."""
        layout = self._parameters.layout
        return PeerExchange(layout, self._reduction, self._reports, attach(segment, layout.nbytes))

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`; a step is made before it or after, for all workers."""
        with self._reduction.lock:
            if "learning_rate" in names:
                self._set_learning_rate(settings)
            entered()

    def final(self) -> NonFiniteUpdate | None:
        """See `Trainer.final`."""
        return self._reduction.check()

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`."""
        state = None if self._updater is None else self._reduction.state()
        return HandedOver(self._parameters.version, self._parameters.torn, state)

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`."""
        self._parameters.version, self._parameters.torn = handed.version, handed.torn
        if self._updater is None or handed.optimizer is None:
            return False
        self._updater.restore(handed.optimizer)
        return True

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`: workers have copies."""
        return nullcontext()

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`."""
        if self._parameters.torn is not None:
            raise CheckpointError(f"{self._parameters.torn} No checkpoint is written of them.")
        with self._reduction.lock:
            entered()
            center, version = self._parameters.read()
            return Copied(center, version, self._reduction.state())

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        layout = self._parameters.layout
        if len(copied.center) != layout.nbytes:
            raise CheckpointError(
                f"The checkpoint has {len(copied.center)} bytes of parameters; expected "
                f"{layout.nbytes}."
            )
        if self._updater is not None:
            try:
                self._updater.restore(copied.state)
            except ValueError as error:
                raise CheckpointError(f"The checkpoint is of another optimizer: {error}.") from None
        self._parameters.restore(copied.center, copied.version)
