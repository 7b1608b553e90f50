"""A run's Spark jobs, as its workers' requests show them: where each begins, ends, and gets to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ..blocks.source import DataSource
from ..steering.machine import Command
from .job_span import DataLayout, JobSpan
from .state import ControlState


class Mark(NamedTuple):
    """How far a run was when a Spark job began."""

    committed: Counter[int]
    """Milestones of each partition."""
    joins: Counter[int]
    finished: set[int]
    """Partitions that were done."""


class Gain(NamedTuple):
    """What a Spark job has brought."""

    least: int
    """Milestones of the slowest of the partitions that were tried and are not done."""
    finished: int
    """Partitions that got done."""


class Jobs:
    """The jobs of a run, one after the other; see `Coordinator`."""

    state: ControlState

    def begin_span(
        self,
        source: DataSource,
        first_epoch: int,
        last_epoch: int,
        layout: DataLayout | None = None,
    ) -> JobSpan:
        """Begin the next Spark job, whose workers may join."""
        with self.state.lock:
            if layout != self.state.layout:
                if self.state.ledger.contents.turn(self.state.ledger.partitions):
                    self.state.earlier = self.state.layout
                self.state.layout = layout
                self.state.rows.forget_counts()
                # The rows of another layout say nothing of how many these are to be.
                self.state.rows.unproven.clear()
                self.state.labels.clear()
                self.state.skew = ()
            self.state.span = JobSpan(source, first_epoch, last_epoch, layout)
            # Of a run that was resumed, some partitions may be in a later one already.
            self.state.span.started = max(first_epoch, self.state.ledger.latest_epoch())
            self.state.ledger.partitions = self.state.membership.partitions = source.partitions
            self.state.membership.clear()
            # No epoch will show it of those that are done.
            self.state.rows.unproven -= self._finished()
            return self.state.span

    @property
    def started(self) -> int:
        """The latest epoch that a worker has begun; -1 before the first job."""
        with self.state.lock:
            return -1 if self.state.span is None else self.state.span.started

    @property
    def latest_epoch(self) -> int:
        """The latest epoch of which anything is done; -1 if nothing is."""
        with self.state.lock:
            return self.state.ledger.latest_epoch()

    def has_trained(self, span: JobSpan) -> bool:
        """Return whether every partition was used up in a span's last epoch."""
        with self.state.lock:
            return self.state.ledger.epoch_done(span.last_epoch, span.source.partitions)

    def mark(self) -> Mark:
        """Return how far each partition is, to be compared with later on."""
        with self.state.lock:
            state = self.state
            return Mark(state.committed.copy(), state.membership.joins.copy(), self._finished())

    def since(self, mark: Mark, slots: int) -> Gain:
        """Return what a Spark job has brought.

        Partitions that wait for a slot do not count.

        Parameters
        ----------
        mark : Mark
            Of when the job began.
        slots : int
            Tasks that Spark runs at once.
        """
        with self.state.lock:
            state, finished = self.state, self._finished()
            count = 0 if state.span is None else state.span.source.partitions
            tried = (
                partition
                for partition in set(range(count)) - finished
                if count <= slots or state.membership.joins[partition] > mark.joins[partition]
            )
            least = min((state.committed[p] - mark.committed[p] for p in tried), default=0)
            return Gain(least, len(finished - mark.finished))

    def _finished(self) -> set[int]:
        """Return the partitions that are used up in the last epoch of the present job."""
        span, ledger = self.state.span, self.state.ledger
        if span is None:
            return set()
        partitions = range(span.source.partitions)
        return {p for p in partitions if ledger.is_finished(span.last_epoch, p)}

    def missing(self) -> list[int]:
        """Return the partitions that are not used up and that no worker trains."""
        if self.state.span is None:
            return []
        last = self.state.span.last_epoch
        return [
            partition
            for partition in range(self.state.span.source.partitions)
            if self.state.membership.present(partition) is None
            and not self.state.ledger.is_finished(last, partition)
        ]

    def end_span_early(
        self, command: Command, detail: str, accepted: Callable[[], object] = lambda: None
    ) -> None:
        """End the job once the latest epoch that any worker has begun is done.

        Parameters
        ----------
        command : Command
            What follows then.
        detail : str
        accepted : callable
            Called if the state allows it, before any worker can know.

        Raises
        ------
        InvalidTransition
            The state does not allow it, or `accepted` does not; nothing was changed.
        """
        with self.state.lock:
            self.state.machine.require(command)
            accepted()
            self.state.command(command, detail)
            if self.state.span is not None:
                self.state.span.last_epoch = min(
                    self.state.span.last_epoch, self.state.span.started
                )
