"""Copies a run that trains: its ledger and its parameters at one moment, while pushes wait."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..blocks.partitioners import AnyPartitioner
from ..errors import CheckpointError, WaitTimeout
from .exchange import ApartTrainer, Trainer
from .job_span import DataLayout
from .ledger import Ledger
from .settings import Settings
from .state import ControlState

Asked = tuple[int, AnyPartitioner]
"""A repartition: into how many partitions, and by what."""


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The place of a run in its epochs.

    Parameters
    ----------
    epoch : int
        The first one that is not done.
    between : bool
        Whether the data gets another layout for it, if one is asked for.
    layout : DataLayout or None
        The present layout; None for the first one.
    earlier : DataLayout or None
        The one before, whose rows are compared until all of those of the new one are known.
    """

    epoch: int
    between: bool
    layout: DataLayout | None
    earlier: DataLayout | None = None


BEGINNING = RunPosition(0, False, None)
"""Nothing is done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The part of a run that is done: every batch that is in the center, and no other.

    Parameters
    ----------
    ledger : mapping
        `Ledger.to_json`, from `reached.epoch` on: what is done before needs no proof.
    copied : object
        What `Trainer.snapshot` returned.
    samples : mapping of int
        Rows of the partitions that are done, by unfinished epoch.
    rows : mapping of int
        Rows of each partition, as far as they are known.
    reached : RunPosition
    """

    ledger: Mapping[str, Any]
    copied: Any
    samples: Mapping[int, int]
    rows: Mapping[int, int]
    reached: RunPosition


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    Parameters
    ----------
    progress : Progress
    settings : Settings
    state : str
    stall : float
        Seconds for which pushes had to wait for the copy.
    asked : tuple of int and Partitioner, or None
        A repartition that is still to be done.
    swaps : int
        How often another strategy has taken the run over in this process.
    swap : object, optional
        A swap of the strategy that is still to be done.
    gone_by : Settings, optional
        The settings that workers went by; see `ControlState.gone_by`.
    """

    progress: Progress
    settings: Settings
    state: str
    stall: float
    asked: Asked | None = None
    swaps: int = 0
    swap: Any = None
    gone_by: Settings | None = None


class Snapshotter:
    """Copies a run, and restores it.

    Parameters
    ----------
    state : ControlState
    trainer : Trainer
        Has the parameters.
    """

    def __init__(self, state: ControlState, trainer: Trainer) -> None:
        self._state = state
        self._trainer = trainer
        # How often another strategy has taken over.
        self._swaps = 0
        self._copying = threading.Lock()

    @contextmanager
    def between(self) -> Iterator[None]:
        """Keep a copy from being made inside."""
        with self._copying:
            yield

    def swap(self, trainer: Trainer) -> None:
        """Copy what another strategy trains from now on; `between` copies."""
        self._trainer = trainer
        self._swaps += 1

    def snapshot(
        self,
        asked: Callable[[], Asked | None] = lambda: None,
        last: bool = False,
        swap: Callable[[], object] = lambda: None,
        apart: bool = False,
    ) -> Snapshot | None:
        """Copy what is done; None before the first Spark job.

        None, too, while a resumed run does not know yet that it has the same data.

        No push is admitted until those under way are merged and the copy has its place among the
        merges; later ones then follow behind it.

        Parameters
        ----------
        asked : callable
            Returns a repartition that is still to be done.
        last : bool
            Whether no other copy follows, so that data that are not known to be the same are an
            error.
        swap : callable
            Returns a swap of the strategy that is still to be done.
        apart : bool
            Whether `Progress.copied` may be a `CopyApart`.

        Raises
        ------
        WaitTimeout
            A push is still being merged after `Timeouts.hold`.
        CheckpointError
            The combiner keeps something that cannot be saved, or the center is not what the
            ledger says: a push was merged in part, or counts and was not merged. Or it is the
            last one, and the data are not known to be the same.
        """
        with self._copying:
            began = time.perf_counter()
            with self._trainer.quiesce():
                return self._snapshot(began, asked, last, swap, apart)

    def _snapshot(
        self,
        began: float,
        asked: Callable[[], Asked | None],
        last: bool,
        swap: Callable[[], object],
        apart: bool,
    ) -> Snapshot | None:
        state, trainer = self._state, self._trainer
        copy = trainer.snapshot
        if apart and isinstance(trainer, ApartTrainer):
            copy = trainer.snapshot_apart
        with state.changed:
            span = state.span
            if span is None:
                return None
            if state.rows.spoiled:
                raise CheckpointError(
                    "Some rows that were trained are not those from before, so no checkpoint is "
                    "written of them."
                )
            if state.rows.unconfirmed:
                self._not_yet(last)
                return None
            if not state.gate.hold(state.timeouts.hold):
                self._release_gate()
                raise WaitTimeout(f"A push is still being merged after {state.timeouts.hold:g} s.")
            epoch = state.ledger.open_epoch(span.first_epoch)
            reached = RunPosition(epoch, epoch > span.last_epoch, span.layout, state.earlier)
            ledger, wanted, swapping = state.ledger.to_json(epoch), asked(), swap()
            samples = dict(state.samples)
            # The rows of another layout say nothing of the next.
            rows = {} if reached.between else dict(state.rows.counts)
        seen: list[tuple[Settings, str, float]] = []

        def entered() -> None:
            # The combiner that the settings name is the one whose state is copied.
            with self._state.changed:
                self._release_gate()
                stalled = time.perf_counter() - began
                seen.append((self._state.settings, str(self._state.machine.state), stalled))

        try:
            copied = copy(entered)
        finally:
            self._release_gate()
        progress = Progress(ledger, copied, samples, rows, reached)
        gone_by = state.gone_by
        return Snapshot(progress, *seen[0], wanted, self._swaps, swapping, gone_by)

    def _not_yet(self, last: bool) -> None:
        if last:
            raise CheckpointError(
                "The functions of datasets did not show in time that they return the records that "
                f"were trained before: partitions {sorted(self._state.rows.unconfirmed)}. No "
                "checkpoint has the training since then. The previous one is unchanged."
            )

    def _release_gate(self) -> None:
        with self._state.changed:
            self._state.gate.release()

    def restore(self, progress: Progress) -> None:
        """Continue from what was done, before any worker joins.

        Raises
        ------
        CheckpointError
            It is of other parameters, or of another combiner; nothing was changed.
        """
        # All that can fail comes first.
        ledger = Ledger.from_json(progress.ledger)
        samples, rows = Counter(progress.samples), dict(progress.rows)
        self._trainer.restore(progress.copied)
        with self._state.lock:
            self._state.ledger, self._state.samples = ledger, samples
            self._state.rows.counts = rows
            self._state.layout = progress.reached.layout
            self._state.earlier = progress.reached.earlier
            if ledger.contents.beginnings():
                # What a function makes is known by its first batches only, until an epoch ends.
                self._state.rows.unproven = set(rows)
            self._state.rows.unconfirmed = {
                partition
                for epoch, partition in ledger.contents.streams()
                if not ledger.is_finished(epoch, partition)
            }
