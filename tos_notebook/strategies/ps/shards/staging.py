"""Updates in a shard, from when they come until the driver has counted them.

A worker first leaves its update at every shard. Then the driver counts it, or refuses it. Only
then do shards merge it. So every shard merges what counts, and nothing else: if the worker dies in
between, what the next attempt, or the driver, says of the partition tells what became of it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....combiners.base import PushInfo
from ....common.arrays import Buffer
from ....errors import RemoteProtocolError, SessionClosed
from ..push import Push
from ..rows.update import RowUpdate
from ..served.shard import RowChanges, ServedRows
from .center import ShardCenter
from .traffic import Traffic

Place = tuple[int, int]
"""Epoch and sequence of a push."""


class Reached(NamedTuple):
    """How far a partition is that the driver counts."""

    place: Place
    """That behind its last push that counts."""
    workers: int
    """Active ones when that was counted: rules of rounds divide by them."""


NO_ROWS = ServedRows((), 0, 1)
"""Of a model without served tables."""


class _Staged:
    """An update that is not merged yet, or is, and has become its reply."""

    def __init__(
        self, place: Place, update: Buffer | RowUpdate, push: Push, changes: Sequence[RowChanges]
    ) -> None:
        self.place, self.update, self.push = place, update, push
        self.changes = changes
        self.version: int | None = None
        """That it has made; None as long as it is not merged."""
        self.lock = threading.Lock()


class Staging:
    """The updates that wait in one shard.

    Threads of all connections call in here.

    Parameters
    ----------
    center : ShardCenter
        Of the shard's part.
    rows : ServedRows
        Likewise.
    """

    def __init__(self, center: ShardCenter, rows: ServedRows = NO_ROWS) -> None:
        self.center = center
        self.rows = rows
        self.traffic = Traffic()
        self.failed: Exception | None = None
        """Why a part of an update that counts could not be merged."""
        self._changed = threading.Condition()
        self._owners: dict[int, int] = {}
        self._staged: dict[int, _Staged] = {}

    def attach(self, partition: int, task: int, reached: Reached) -> None:
        """Give a partition to a task, and settle what the one before has left.

        Parameters
        ----------
        partition, task : int
        reached : Reached
            Behind all that counts.

        Raises
        ------
        SessionClosed
            A later attempt has the partition.
        """
        with self._changed:
            if task < self._owners.get(partition, task):
                raise self._superseded(partition)
            self._owners[partition] = task
            left = self._staged.get(partition)
        if left is None:
            return
        if left.place < reached.place:
            # It stays in its place meanwhile, where who makes a copy waits for it.
            self._merge(left, reached.workers)
        with self._changed:
            if self._staged.get(partition) is left:
                del self._staged[partition]

    def stage(
        self,
        partition: int,
        task: int,
        place: Place,
        update: Buffer | RowUpdate,
        push: Push,
        changes: Sequence[RowChanges] = (),
    ) -> None:
        """Keep an update until the driver has counted it.

        Parameters
        ----------
        partition, task : int
        place : tuple of int
        update : ndarray, shape (layout.nbytes,), uint8, or RowUpdate
            Stays as it is until it is merged or withdrawn.
        push : Push
        changes : sequence of RowChanges, optional
            Of served tables; they stay as they are likewise.

        Raises
        ------
        SessionClosed
            A later attempt has the partition.
        RemoteProtocolError
            An earlier update of the partition waits, or this one could not be merged.
        """
        self.center.require(push)
        with self._changed:
            self._require(partition, task)
            left = self._staged.get(partition)
            if left is not None and left.version is None:
                raise RemoteProtocolError(
                    f"Partition {partition}: expected that update {left.place} is merged or "
                    f"withdrawn first, got update {place}."
                )
            self._staged[partition] = _Staged(place, update, push, changes)

    def merge(self, partition: int, task: int, place: Place, workers: int) -> int | None:
        """Merge an update that counts, unless that was done.

        Parameters
        ----------
        partition, task : int
        place : tuple of int
        workers : int
            Active ones when it was counted.

        Returns
        -------
        int or None
            The version that it made; None if there is no such update.
        """
        with self._changed:
            self._require(partition, task)
            staged = self._staged.get(partition)
        if staged is None or staged.place != place:
            return None
        return self._merge(staged, workers)

    def withdraw(self, partition: int, task: int) -> None:
        """Forget an update that does not count."""
        with self._changed:
            self._require(partition, task)
            self._staged.pop(partition, None)

    def resolve(self, reached: Mapping[int, Reached]) -> None:
        """Merge all updates that count by now.

        Parameters
        ----------
        reached : mapping of int
            Each partition that has a push which counts.
        """
        with self._changed:
            due = [
                (staged, reached[partition].workers)
                for partition, staged in self._staged.items()
                if partition in reached and staged.place < reached[partition].place
            ]
        for staged, workers in due:
            self._merge(staged, workers)

    def owns(self, partition: int, task: int) -> bool:
        """Return whether a task has a partition."""
        return self._owners.get(partition) == task

    def wait(self, version: int, timeout: float) -> bool:
        """Wait until the center has a version; return whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.center.version >= version, timeout)

    def _merge(self, staged: _Staged, workers: int) -> int:
        if workers < 1:
            # Rules divide by them.
            raise RemoteProtocolError(
                "Expected at least 1 worker to have been active when an update counted, got 0."
            )
        with staged.lock:
            if staged.version is None:
                push = staged.push._replace(workers=workers)
                try:
                    staged.version = self._merge_all(staged, push)
                except Exception as error:
                    self.failed = self.failed or error
                    raise
                with self._changed:
                    self._changed.notify_all()
            return staged.version

    def _merge_all(self, staged: _Staged, push: Push) -> int:
        if not self.rows.tables:
            return self.center.merge(staged.update, push).version
        with self.rows.lock:
            merged = self.center.merge(staged.update, push)
            count = merged.version - 1
            told = push.worker, merged.staleness, push.steps, push.samples, push.workers, count
            self.rows.merge(staged.changes, self.center.combiner, PushInfo(*told))
        return merged.version

    def _require(self, partition: int, task: int) -> None:
        if self._owners.get(partition) != task:
            raise self._superseded(partition)

    def _superseded(self, partition: int) -> SessionClosed:
        return SessionClosed(f"Partition {partition} belongs to a later attempt by now.")
