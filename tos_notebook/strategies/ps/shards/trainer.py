"""The driver's side of a run whose parameters are in shards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext

from ....coordination.cohort import Cohort
from ....coordination.exchange import HandedOver, WorkerExchange
from ....coordination.reports import Reports
from ....coordination.requests import WorkerRequests
from ....coordination.settings import Settings
from ....errors import ClusterUnreachable, NonFiniteUpdate, TosError
from ....steering.shards import ShardLoad
from ...base import TrainerSetup
from ..non_finite import find_non_finite
from ..push import Copied
from ..settings import settings_in
from .commits import CommitExchange
from .copies import ShardedCopy
from .parameters import ShardedParameters


class ShardedTrainer:
    """Counts what workers train, and lets shards merge it; see `RecoverableTrainer`.

    Parameters
    ----------
    setup : TrainerSetup
    shards : int
    stripe_bytes : int
    """

    def __init__(self, setup: TrainerSetup, shards: int, stripe_bytes: int) -> None:
        self._non_finite = setup.non_finite
        self.lost: str | None = None
        """Why parameters are gone that workers have trained; None while they are not."""
        self.parameters = ShardedParameters(
            setup.layout,
            setup.initial,
            settings_in(setup.settings).combiner,
            shards,
            stripe_bytes,
            setup.beside,
            self._lose,
            setup.rows,
        )
        self._reports: Reports
        self._requests: WorkerRequests

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """See `Trainer.begin`."""
        self._reports, self._requests = reports, requests

    def prepare(self, onward: Callable[[], bool]) -> None:
        """See `RecoverableTrainer.prepare`."""
        self.parameters.serve(onward)

    def loads(self) -> Sequence[ShardLoad]:
        """See `RecoverableTrainer.loads`."""
        group = self.parameters.commits.group
        return () if group is None else group.loads()

    def _lose(self, error: TosError) -> None:
        if isinstance(error, ClusterUnreachable):
            self.lost = str(error)
            self._reports.end_job(str(error))
            return
        self.parameters.torn = "A part of a push is not in the parameters."
        self._reports.fail(error)

    def exchange(self, segment: str) -> WorkerExchange:
        """See `Trainer.exchange`."""
        return CommitExchange(
            self.parameters.commits, self._reports, self._requests, self._non_finite
        )

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """See `Trainer.change`."""
        if "combiner" in names:
            self.parameters.swap(settings_in(settings).combiner, entered)
        else:
            entered()

    def final(self) -> TosError | None:
        """See `Trainer.final`; the shards end."""
        try:
            self.parameters.close()
        except TosError as error:
            self.parameters.torn = "The parameters were lost with their shards."
            return error
        return self._found()

    def _found(self) -> NonFiniteUpdate | None:
        found = find_non_finite(self.parameters.layout, self.parameters.read()[0])
        if found is not None:
            self.parameters.torn = "The parameters hold NaN or infinity."
        return found

    def hand_over(self) -> HandedOver:
        """See `Trainer.hand_over`; what the combiner keeps ends with it."""
        self.parameters.close()
        return HandedOver(self.parameters.version, self.parameters.torn, rows=self.parameters.rows)

    def take_over(self, handed: HandedOver) -> bool:
        """See `Trainer.take_over`; workers have the optimizers."""
        self.parameters.go_on(handed.version, handed.torn, handed.rows)
        return False

    def quiesce(self) -> AbstractContextManager[object]:
        """See `Trainer.quiesce`: workers have copies."""
        return nullcontext()

    def snapshot(self, entered: Callable[[], object]) -> Copied:
        """See `Trainer.snapshot`."""
        return self.parameters.copy(entered)

    def snapshot_apart(self, entered: Callable[[], object]) -> Copied | ShardedCopy:
        """See `ApartTrainer.snapshot_apart`."""
        return self.parameters.copy_apart(entered)

    def restore(self, copied: Copied) -> None:
        """See `Trainer.restore`; shards that are there end."""
        self.parameters.restore(copied)
        self.lost = None
