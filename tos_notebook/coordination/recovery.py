"""Returns a run to a copy in memory when parameters are lost that are outside of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..errors import ClusterUnreachable, TosError, WaitTimeout
from ..steering.machine import ONWARD
from ..steering.shards import ShardLoad
from .cuts import Cuts
from .exchange import Trainer
from .job_span import JobSpan
from .snapshots import Progress, Snapshotter
from .state import ControlState


@runtime_checkable
class RecoverableTrainer(Trainer, Protocol):
    """A trainer whose parameters are elsewhere, where they may be lost."""

    lost: str | None
    """Why parameters are gone that workers have trained, a sentence; None while they are not."""

    def prepare(self, onward: Callable[[], bool]) -> None:
        """Get ready for the workers of a Spark job, with what is restored if parameters were lost.

        Parameters
        ----------
        onward : callable
            Returns whether the run continues.

        Raises
        ------
        ClusterUnreachable
            The cluster has no room.
        """

    def loads(self) -> Sequence[ShardLoad]:
        """Return what the shards of the parameters are busy with."""


def lost_of(trainer: Trainer) -> str | None:
    """Return why parameters are gone that workers have trained; None while they are not."""
    return trainer.lost if isinstance(trainer, RecoverableTrainer) else None


class Recovery:
    """Keeps a copy of one run in memory, while its parameters are where they may be lost.

    Parameters
    ----------
    state : ControlState
    snapshotter : Snapshotter
    """

    def __init__(self, state: ControlState, snapshotter: Snapshotter) -> None:
        self._state = state
        self._snapshotter = snapshotter
        self._cuts = Cuts(snapshotter.snapshot)
        self._last: Progress | None = None

    def begin(self, trainer: Trainer) -> None:
        """Get ready for the workers of a Spark job.

        Raises
        ------
        ClusterUnreachable
            The cluster has no room, or parameters were lost since `bring_back`.
        """
        if not isinstance(trainer, RecoverableTrainer):
            self._cuts.end()
            return
        if trainer.lost is not None:
            raise self._gone(trainer.lost)
        before = self._cuts.latest
        self._cuts.forget()
        try:
            self._ready(trainer)
        except TosError:
            # The run cannot continue, and ends with what it had.
            self._cuts.latest = self._cuts.latest or before
            raise

    def bring_back(self, trainer: Trainer) -> str | None:
        """Return to the last copy, if parameters were lost since a job that was kept.

        Returns
        -------
        str or None
            Why they were lost; None if they are there.

        Raises
        ------
        ClusterUnreachable
            There is no copy of all that has been trained.
        """
        lost = lost_of(trainer)
        if lost is None:
            return None
        with self._snapshotter.between():
            latest = self._cuts.latest
            if latest is None or latest.copied.version != trainer.parameters.version:
                raise self._gone(lost)
            trainer.restore(latest.copied)
        return lost

    @staticmethod
    def _gone(lost: str) -> ClusterUnreachable:
        return ClusterUnreachable(
            f"{lost} It was lost between two jobs. Continue from the last checkpoint with "
            "tos.resume."
        )

    def _ready(self, trainer: RecoverableTrainer) -> None:
        # First, while nothing can be lost: what shards start with is still here.
        self._cuts.begin()
        trainer.prepare(self._onward)

    def _onward(self) -> bool:
        return self._state.machine.state in ONWARD

    def recover(self, trainer: Trainer, span: JobSpan, keep: bool) -> str | None:
        """Return to the last copy, if parameters were lost that workers had trained.

        Parameters
        ----------
        trainer : Trainer
        span : JobSpan
            Of a job that is over.
        keep : bool
            Whether to copy what is there: another job, which follows, cannot train it again.

        Returns
        -------
        str or None
            Why they were lost; None if they are there.

        Raises
        ------
        ClusterUnreachable
            There is no copy, or no room in the cluster.
        WaitTimeout
            A push is still being counted.
        """
        if not isinstance(trainer, RecoverableTrainer):
            return None
        reason = trainer.lost or span.ended
        if reason is None and keep:
            self._cuts.copy()
            reason = trainer.lost or span.ended
        if reason is None:
            return None
        with self._snapshotter.between():
            progress = self._cuts.latest
            if progress is None:
                raise ClusterUnreachable(f"{reason} There is no copy of them yet.")
            self._return_to(progress, span)
        self._ready(trainer)
        return reason

    def _return_to(self, progress: Progress, span: JobSpan) -> None:
        state = self._state
        with state.changed:
            # What is counted by now is counted among what is lost; nothing is from here on.
            state.membership.clear()
            idle = state.gate.hold(state.timeouts.hold)
        try:
            if not idle:
                raise WaitTimeout(f"A push is still counted after {state.timeouts.hold:g} s.")
            self._snapshotter.restore(progress)
            with state.lock:
                # A copy has no records of epochs that are done.
                for epoch in range(span.first_epoch, progress.reached.epoch):
                    for partition in range(span.source.partitions):
                        state.ledger.give_up(epoch, partition)
                span.ended = None
                span.started = max(span.first_epoch, state.ledger.latest_epoch())
        finally:
            with state.changed:
                state.gate.release()

    def end(self, trainer: Trainer) -> TosError | None:
        """Copy no more; return to the last copy, if parameters are lost, since it is over.

        Returns
        -------
        TosError or None
            That they were lost.
        """
        last = self._cuts.latest
        self._cuts.end()
        returned = self._fall_back(trainer, last)
        self._last = last if returned is None else None
        return returned

    def conclude(self, trainer: Trainer) -> TosError | None:
        """Return to that copy, if parameters were lost before the driver had them; see `end`."""
        last, self._last = self._last, None
        return self._fall_back(trainer, last)

    def _fall_back(self, trainer: Trainer, last: Progress | None) -> TosError | None:
        lost = lost_of(trainer)
        if lost is None or last is None:
            return None
        # A part of the training is better than none.
        with self._snapshotter.between():
            self._snapshotter.restore(last)
        return ClusterUnreachable(f"{lost} The run has ended with the last copy of them.")
