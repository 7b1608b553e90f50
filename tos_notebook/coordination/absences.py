"""Partitions without which a run continues: those that were lost and have no worker again."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..events import EpochFinished
from .state import ControlState, Untrained, log


class Absences:
    """The partitions without which the workers of a run make their steps.

    What is left of such a partition's epoch counts as lost. Callers hold the run's lock.

    Parameters
    ----------
    state : ControlState
    """

    def __init__(self, state: ControlState) -> None:
        self._state = state
        # By partition: the tasks of those that continue without it.
        self._without: dict[int, frozenset[int]] = {}
        self._trained: dict[int, tuple[int, int]] = {}

    def count(self, epoch: int, partition: int, rows: int) -> None:
        """Note that rows of a partition were trained."""
        of, before = self._trained.get(partition, (epoch, 0))
        self._trained[partition] = epoch, rows + (before if of == epoch else 0)

    def continue_without(self, partitions: Iterable[int]) -> None:
        """Wait for no worker of some partitions, until each comes back."""
        state = self._state
        beside = frozenset(member.task for member in state.membership.active())
        for partition in partitions:
            if state.membership.present(partition) is None:
                self._without[partition] = beside
        epoch = 0 if state.span is None else state.ledger.open_epoch(state.span.first_epoch)
        if state.span is not None and epoch <= state.span.last_epoch:
            self.apply(epoch)
        state.changed.notify_all()

    def apply(self, epoch: int) -> None:
        """Take absent partitions for used up in an epoch that is trained."""
        if not self._without:
            return
        state = self._state
        tasks = {member.task for member in state.membership.active()}
        for partition, beside in list(self._without.items()):
            # In a job of other tasks its own may be as late as all others.
            if state.membership.present(partition) is not None or not beside & tasks:
                del self._without[partition]
            elif not state.ledger.is_finished(epoch, partition):
                self._give_up(epoch, partition)

    def _give_up(self, epoch: int, partition: int) -> None:
        state = self._state
        of, rows = self._trained.get(partition, (epoch, 0))
        trained = rows if of == epoch else 0
        state.ledger.give_up(epoch, partition)
        state.samples[epoch] += trained
        untrained = state.rows.untrained
        lost = untrained.setdefault(partition, Untrained(partition, epoch, epoch))
        lost.last = epoch
        lost.rows -= trained
        lost.uncounted += 1
        # Known once the partition was used up in some epoch, be it a later one.
        if partition in state.rows.counts:
            lost.settle(state.rows.counts[partition])
        log.warning("Run %s: %s", state.run_id, lost)
        if state.ledger.epoch_done(epoch, state.ledger.partitions or 0):
            state.publish(EpochFinished(time.time(), epoch, state.samples.pop(epoch)))
