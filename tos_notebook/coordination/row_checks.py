"""Checks that the rows of a partition are those that it had before."""

from __future__ import annotations

from ..common.content import Content
from ..errors import DataError, RemoteProtocolError
from ..wire.messages import Finish, Loaded
from .membership import Member
from .state import ControlState


class RowChecks:
    """Compares what workers report of their rows; callers hold the run's lock."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def other_rows(self, member: Member, message: Loaded) -> DataError | None:
        """Return what is wrong with rows that a worker has loaded; None if they are the same."""
        partition, contents = member.partition, self._state.ledger.contents
        found = Content(message.rows, message.digest)
        digest = contents.streamed(member.epoch, partition)
        if message.streamed or digest:
            if message.digest == digest:
                self._state.rows.unconfirmed.discard(partition)
                return None
            steps = self._state.ledger.committed(member.epoch, partition).steps
            expected = f"the {steps} batches that are trained"
            return self._other(member, member.epoch, expected, f"others, of {found}")
        known = contents.keep(partition, found)
        if known == found:
            return None
        return self._other(member, member.epoch, str(known), str(found))

    def check_finish(self, member: Member, message: Finish) -> None:
        """Raise RemoteProtocolError if a worker has trained other batches than were committed."""
        committed = self._state.ledger.committed(message.epoch, member.partition).steps
        if message.steps != committed or message.samples < committed:
            raise RemoteProtocolError(
                f"Partition {member.partition}, epoch {message.epoch + 1}: expected {committed} "
                f"batches, as committed; got {message.steps} batches of {message.samples} rows."
            )

    def other_count(self, member: Member, message: Finish) -> DataError | None:
        """Return what is wrong with how many rows an epoch had; None if nothing is."""
        rows = self._state.rows.counts.get(member.partition, message.samples)
        if message.samples == rows:
            self._state.rows.unproven.discard(member.partition)
            return None
        self._state.rows.spoiled = True
        return self._other(member, message.epoch, f"{rows} rows", f"{message.samples} rows")

    def _other(self, member: Member, epoch: int, expected: str, found: str) -> DataError:
        remedy = "" if self._state.span is None else self._state.span.source.remedy
        return DataError(
            f"Partition {member.partition}, epoch {epoch + 1}: expected {expected}, got {found}. "
            "A partition must hold the same rows in the same order at every attempt, in every "
            f"epoch and after a resume. {remedy}"
        )

    def no_rows(self, epoch: int) -> DataError | None:
        """Return what is wrong with an epoch that is done without a row; None if nothing is."""
        count = self._state.ledger.partitions or 0
        pushes = (
            self._state.ledger.committed(epoch, partition).steps for partition in range(count)
        )
        # A sample of some rows may have none.
        found = any(pushes) or any(self._state.rows.counts.values())
        if found or not self._state.ledger.epoch_done(epoch, count):
            return None
        return DataError(
            f"Epoch {epoch + 1}: expected at least one row to train on, got none in any partition. "
            "See that the executors find the files, and that not all rows are left out as bad."
        )
