"""The driver's side of a run whose variables are on TensorFlow's servers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from ...common.arrays import Array
from ...coordination.cohort import Cohort
from ...coordination.exchange import HandedOver
from ...coordination.reports import Reports
from ...coordination.requests import WorkerRequests
from ...coordination.settings import Settings
from ...errors import CheckpointError, InvalidTransition, TosError
from ..base import TrainerSetup
from ..ps.non_finite import find_non_finite
from .counting import Counting
from .pace import Pace
from .parameters import ServedParameters
from .peer import Counter, SessionPeer

if TYPE_CHECKING:
    from ...errors import NonFiniteUpdate


class Copied(NamedTuple):
    """All variables of the graph, as of one version."""

    values: list[Array]
    version: int


class SessionTrainer:
    """Has TensorFlow's servers, and counts what workers train there; see `Trainer`.

    Parameters
    ----------
    setup : TrainerSetup
    servers : int
    """

    _counter: Counter

    def __init__(self, setup: TrainerSetup, servers: int) -> None:
        from ...runtime.served_graph import PackedGraph

        packed = PackedGraph(setup.archive())
        self._parameters = ServedParameters(
            setup.layout, setup.initial, packed, servers, setup.host
        )
        self._pace = Pace()
        self._set_learning_rate(setup.settings)

    def _set_learning_rate(self, settings: Settings) -> None:
        if settings.learning_rate is not None:
            self._parameters.set_learning_rate(settings.learning_rate)

    @property
    def parameters(self) -> ServedParameters:
        """See `Trainer.parameters`."""
        return self._parameters

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`; the servers start with the first worker."""
        self._counter = Counting(self._parameters, reports, requests)

    def exchange(self, segment: str) -> SessionPeer:
        """See `Trainer.exchange`."""
        return SessionPeer(self._parameters, self._counter, self._pace)

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`; workers' next steps go by the learning rate on the servers."""
        if "learning_rate" in names:
            self._set_learning_rate(settings)
        entered()

    def final(self) -> NonFiniteUpdate | TosError | None:
        """See `Trainer.final`; the servers end."""
        try:
            self._parameters.close()
        except Exception as error:
            self._parameters.torn = "The variables were lost with TensorFlow's servers."
            return (
                error
                if isinstance(error, TosError)
                else TosError(
                    f"{self._parameters.torn} The model has the values from before: {error}"
                )
            )
        found = find_non_finite(self._parameters.layout, self._parameters.read()[0])
        if found is not None:
            self._parameters.torn = "The parameters hold NaN or infinity."
        return found

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`: no other strategy takes over."""
        raise InvalidTransition("running", "swap strategy", "servers have the variables")

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`."""
        self._parameters.version, self._parameters.torn = handed.version, handed.torn
        return False

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`."""
        self._require_whole()
        return self._pace.held()

    def _require_whole(self) -> None:
        if self._parameters.torn is not None:
            raise CheckpointError(f"{self._parameters.torn} No checkpoint is written of them.")

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`."""
        self._require_whole()
        entered()
        return Copied(self._parameters.all(), self._parameters.version)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`."""
        self._parameters.restore(copied.values, copied.version)
