"""Which pushes are committed: the book that makes every batch count exactly once.

Pure state: no locks, no clock, no sockets. A push is known by its epoch, partition and
sequence, which counts the pushes of that epoch and partition from 0. A partition belongs
to one task at a time, the one with the largest id; older ones are superseded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from ..common.content import NO_DIGEST
from ..errors import RemoteProtocolError
from .contents import Contents


class Admission(Enum):
    """What became of a push, a finish or a begin."""

    COMMIT = "commit"
    """It is new, and recorded now."""
    DUPLICATE = "duplicate"
    """It is the last one once more; the reply got lost. Apply nothing."""
    SUPERSEDED = "superseded"
    """A newer task owns the partition; this one must end."""


# Python 3.11 calls a function to look a member up in its enumeration: too long for every push.
_COMMIT = Admission.COMMIT


@dataclass(frozen=True, slots=True)
class Position:
    """Where a partition continues: in `epoch`, after `steps` batches, with push `sequence`."""

    epoch: int
    steps: int
    sequence: int


@dataclass(slots=True)
class _Record:
    steps: int = 0
    sequence: int = 0
    last: int = 0
    finished: bool = False


@dataclass(slots=True)
class _Owner:
    task: int
    epoch: int


class Ledger:
    """The committed pushes of one run.

    Parameters
    ----------
    partitions : int, optional
        How many partitions there are; set the attribute again after a repartition. A push
        from any other partition is a protocol error. Not checked by default.

    Attributes
    ----------
    contents : Contents
        The content of the rows that were pushed.
    """

    def __init__(self, partitions: int | None = None) -> None:
        self.partitions = partitions
        self.contents = Contents()
        self._owners: dict[int, _Owner] = {}
        self._records: dict[tuple[int, int], _Record] = {}
        self._finished: Counter[int] = Counter()

    def begin(
        self, partition: int, task: int, first_epoch: int
    ) -> Position | Literal[Admission.SUPERSEDED]:
        """Give a partition to a task: a later attempt, or the one that has it already.

        Parameters
        ----------
        partition : int
        task : int
            Spark's task attempt id: unique in a Spark context, and larger for a later try.
        first_epoch : int
            The first epoch of the task's job; earlier ones are not its business.

        Returns
        -------
        Position or Admission.SUPERSEDED
            Where it continues: the first epoch from `first_epoch` on that this partition has
            not finished (it may lie behind the run's last), with what is committed of it.
            SUPERSEDED if a newer task owns the partition.
        """
        self._check_partition(partition)
        owner = self._owners.get(partition)
        if owner is not None and task < owner.task:
            return Admission.SUPERSEDED
        epoch = first_epoch
        while self._record(epoch, partition).finished:
            epoch += 1
        self._owners[partition] = _Owner(task, epoch)
        return self.committed(epoch, partition)

    def owner(self, partition: int) -> int | None:
        """Return the task that began a partition last, after which none else has pushed."""
        owner = self._owners.get(partition)
        return None if owner is None else owner.task

    def supersede(self, partition: int, task: int) -> None:
        """Admit nothing more of a task; the next one may begin the partition."""
        if self._owner(partition, task) is not None:
            self._owners[partition].task = task + 1

    def admit(self, epoch: int, partition: int, task: int, sequence: int, steps: int) -> Admission:
        """Record a push, at once and for good unless `revoke` takes it back.

        Parameters
        ----------
        epoch, partition, task : int
        sequence : int
            The push's number in its epoch and partition, from 0.
        steps : int
            Batches that went into it, at least 1.

        Raises
        ------
        RemoteProtocolError
            The task never began, left a push or an epoch out, or repeats another push's
            number with other contents.
        """
        admission = self.check(epoch, partition, task, sequence, steps)
        if admission is _COMMIT:
            place = epoch, partition
            record = self._records.get(place)
            before = 0 if record is None else record.steps
            self._records[place] = _Record(before + steps, sequence + 1, steps)
        return admission

    def admit_all(
        self, epoch: int, partition: int, task: int, sequence: int, steps: Sequence[int]
    ) -> None:
        """Record pushes that follow each other, and of which none was admitted before.

        Parameters
        ----------
        epoch, partition, task : int
        sequence : int
            The first push's.
        steps : sequence of int
            Batches of each of them.

        Raises
        ------
        RemoteProtocolError
            They are not the pushes that come next; nothing was recorded.
        """
        admission = self.check(epoch, partition, task, sequence, steps[0])
        before = self._record(epoch, partition)
        if admission is not _COMMIT or min(steps) < 1:
            raise RemoteProtocolError(
                f"Partition {partition}, epoch {epoch + 1}: expected push {before.sequence} next, "
                f"but those from {sequence} on of task {task} were merged: {admission.value}."
            )
        record = _Record(before.steps + sum(steps), sequence + len(steps), steps[-1])
        self._records[epoch, partition] = record

    def keep_digest(self, epoch: int, partition: int, digest: bytes, steps: int) -> None:
        """Keep what an admitted push says of its stream's rows; see `Contents.commit`."""
        if digest != NO_DIGEST:
            self.contents.commit(epoch, partition, digest.hex(), steps, self.partitions or 0)

    def next_push(self, partition: int, task: int) -> tuple[int, int] | None:
        """Return epoch and sequence of a task's next push; None if another task has its place."""
        owner = self._owners.get(partition)
        if owner is None or owner.task != task:
            return None
        return owner.epoch, self._record(owner.epoch, partition).sequence

    def check(self, epoch: int, partition: int, task: int, sequence: int, steps: int) -> Admission:
        """Return what `admit` would, and record nothing.

        Parameters
        ----------
        epoch, partition, task, sequence, steps : int
            See `admit`.

        Raises
        ------
        RemoteProtocolError
            See `admit`.
        """
        self._check_partition(partition)
        owner = self._owners.get(partition)
        if owner is None or owner.task != task:
            # Raises for a task that never began.
            self._owner(partition, task)
            return Admission.SUPERSEDED
        record = self._records.get((epoch, partition)) or _Record()
        if sequence < record.sequence:
            _check_repeat(f"Partition {partition}, epoch {epoch + 1}", record, sequence, steps)
            return Admission.DUPLICATE
        if epoch != owner.epoch:
            raise RemoteProtocolError(
                f"Partition {partition}, epoch {epoch + 1}: expected a push of epoch "
                f"{owner.epoch + 1}, which comes next."
            )
        if sequence > record.sequence or steps < 1:
            raise RemoteProtocolError(
                f"Partition {partition}, epoch {epoch + 1}: expected push {record.sequence} with "
                f"at least 1 step, got push {sequence} with {steps} steps."
            )
        return _COMMIT

    def revoke(self, epoch: int, partition: int, task: int, sequence: int) -> bool:
        """Take the last admitted push back, because it could not be merged.

        Returns
        -------
        bool
            False if a newer task has taken the partition over since: it was told that
            the push is committed, so the push stays counted.

        Raises
        ------
        RemoteProtocolError
            The push is not the last one that was admitted, or the epoch is finished.
        """
        if self._owner(partition, task) is None:
            return False
        record = self._record(epoch, partition)
        if record.finished or not record.last or sequence != record.sequence - 1:
            raise RemoteProtocolError(
                f"Partition {partition}, epoch {epoch + 1}: push {sequence} is not the last one "
                f"admitted; expected push {record.sequence - 1} of an unfinished epoch."
            )
        self._records[epoch, partition] = _Record(record.steps - record.last, sequence)
        self.contents.revoke(epoch, partition)
        return True

    def finish(self, epoch: int, partition: int, task: int) -> Admission:
        """Record that a partition is used up in an epoch; the second time changes nothing.

        Raises
        ------
        RemoteProtocolError
            The task never began, or an earlier epoch is unfinished.
        """
        self._check_partition(partition)
        owner = self._owner(partition, task)
        if owner is None:
            return Admission.SUPERSEDED
        record = self._record(epoch, partition)
        if record.finished:
            return Admission.DUPLICATE
        if epoch != owner.epoch:
            raise RemoteProtocolError(
                f"Partition {partition} cannot finish epoch {epoch + 1}: epoch {owner.epoch + 1} "
                "comes next."
            )
        record.finished = True
        self._records[epoch, partition] = record
        self._finished[epoch] += 1
        owner.epoch += 1
        return Admission.COMMIT

    def give_up(self, epoch: int, partition: int) -> None:
        """Record a partition as used up in an epoch, though no task has trained it to the end."""
        record, owner = self._record(epoch, partition), self._owners.get(partition)
        if record.finished:
            return
        record.finished = True
        self._records[epoch, partition] = record
        self._finished[epoch] += 1
        if owner is not None and owner.epoch == epoch:
            owner.epoch += 1

    def finished(self, epoch: int) -> int:
        """Return how many partitions are used up in an epoch."""
        return self._finished[epoch]

    def epoch_done(self, epoch: int, partitions: int) -> bool:
        """Return whether all of `partitions` partitions are used up in an epoch."""
        return self._finished[epoch] >= partitions

    def is_finished(self, epoch: int, partition: int) -> bool:
        """Return whether a partition is used up in an epoch."""
        return self._record(epoch, partition).finished

    def committed(self, epoch: int, partition: int) -> Position:
        """Return what is committed of a partition in an epoch."""
        record = self._record(epoch, partition)
        return Position(epoch, record.steps, record.sequence)

    def open_epoch(self, first: int) -> int:
        """Return the first epoch from `first` on that some partition has not finished."""
        epoch, partitions = first, self.partitions or 0
        while partitions and self.epoch_done(epoch, partitions):
            epoch += 1
        return epoch

    def latest_epoch(self) -> int:
        """Return the latest epoch of which anything is committed or finished; -1 if none is."""
        return max((epoch for epoch, _ in self._records), default=-1)

    def to_json(self, first: int = 0) -> dict[str, Any]:
        """Return the committed pushes, from an epoch on, as plain JSON values.

        Without the owners: task ids mean nothing in the Spark context of a resumed run.
        """
        records = [
            [epoch, partition, r.steps, r.sequence, r.last, r.finished]
            for (epoch, partition), r in sorted(self._records.items())
            if epoch >= first
        ]
        contents = self.contents.to_json(first, self.partitions)
        return {"partitions": self.partitions, "records": records, "contents": contents}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ledger:
        """Rebuild a ledger from `to_json`'s value; every task has to begin again."""
        ledger = cls(value["partitions"])
        ledger.contents = Contents.from_json(value["contents"])
        for epoch, partition, steps, sequence, last, finished in value["records"]:
            ledger._records[epoch, partition] = _Record(steps, sequence, last, finished)
            ledger._finished[epoch] += finished
        return ledger

    def _record(self, epoch: int, partition: int) -> _Record:
        return self._records.get((epoch, partition)) or _Record()

    def _owner(self, partition: int, task: int) -> _Owner | None:
        owner = self._owners.get(partition)
        if owner is None or task > owner.task:
            raise RemoteProtocolError(
                f"Task {task} pushes to partition {partition} without having begun it; "
                "expected a begin first."
            )
        return owner if task == owner.task else None

    def _check_partition(self, partition: int) -> None:
        if self.partitions is not None and not 0 <= partition < self.partitions:
            raise RemoteProtocolError(
                f"Expected a partition from 0 to {self.partitions - 1}, got {partition}."
            )


def _check_repeat(where: str, record: _Record, sequence: int, steps: int) -> None:
    # A worker that pushes has the reply to the push before: only the last one may come again.
    # After a revoke `last` is 0: that one was answered, too.
    last = record.sequence - 1
    if sequence != last:
        raise RemoteProtocolError(
            f"{where}: push {sequence} came again; expected push {last} or {record.sequence}."
        )
    if steps < 1 or steps != record.last:
        raise RemoteProtocolError(
            f"{where}: push {sequence} came again with {steps} steps; it had {record.last}."
        )
