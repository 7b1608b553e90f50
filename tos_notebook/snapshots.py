"""Copies of a run that trains: ledger and center of one moment, while pushes wait outside."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .answers import Answers
from .data.partitioners import AnyPartitioner
from .errors import CheckpointError, WaitTimeout
from .ps.ledger import Ledger
from .ps.store import Copied
from .roster import LaidOut
from .settings import Settings

Asked = tuple[int, AnyPartitioner]
"""A repartition: into how many partitions, and by what."""

PATIENCE = 10.0
"""Seconds that a copy waits for pushes that are being merged, before it is given up."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Where in its epochs a run is.

    Parameters
    ----------
    epoch : int
        The first one that is not done.
    between : bool
        Whether the data is to be laid out for it, if that is due.
    layout : LaidOut or None
        That of the data now; None for the first one.
    earlier : LaidOut or None
        The one before, whose rows are compared until all of those of the new one are known.
    """

    epoch: int
    between: bool
    layout: LaidOut | None
    earlier: LaidOut | None = None


BEGINNING = Reached(0, False, None)
"""Nothing is done."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What of a run is done: every batch that is in the center, and no other.

    Parameters
    ----------
    ledger : mapping
        `Ledger.to_json`, from `reached.epoch` on: what is done before needs no proof.
    copied : Copied
        Center and combiner state.
    samples : mapping of int
        Of each unfinished epoch: rows of the partitions that are done.
    rows : mapping of int
        Of each partition: its rows, as far as they are known.
    reached : Reached
    """

    ledger: Mapping[str, Any]
    copied: Copied
    samples: Mapping[int, int]
    rows: Mapping[int, int]
    reached: Reached


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
    """

    progress: Progress
    settings: Settings
    state: str
    stall: float
    asked: Asked | None = None


class Snapshots(Answers):
    """Copies a run, and restores it; its parameters are those of `TrainingState`."""

    def snapshot(
        self, asked: Callable[[], Asked | None] = lambda: None, last: bool = False
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

        Raises
        ------
        WaitTimeout
            A push is still being merged after `PATIENCE`.
        CheckpointError
            The combiner keeps something that cannot be saved, or the center is not what the
            ledger says: a push was merged in part, or counts and was not merged. Or it is the
            last one, and the data are not known to be the same.
        """
        began = time.perf_counter()
        with self._changed:
            leg = self._leg
            if leg is None:
                return None
            if self._unconfirmed:
                self._not_yet(last)
                return None
            self._holding = True
            if not self._changed.wait_for(lambda: not self._merging, PATIENCE):
                self._let_go()
                raise WaitTimeout(f"A push is still being merged after {PATIENCE:g} s.")
            epoch = self._ledger.open_epoch(leg.first_epoch)
            reached = Reached(epoch, epoch > leg.last_epoch, leg.layout, self._earlier)
            ledger, wanted = self._ledger.to_json(epoch), asked()
            # The rows of another layout say nothing of the next.
            samples, rows = dict(self._samples), {} if reached.between else dict(self._rows)
        seen: list[tuple[Settings, str, float]] = []

        def entered() -> None:
            # The combiner that the settings name is the one whose state is copied.
            with self._changed:
                self._let_go()
                stalled = time.perf_counter() - began
                seen.append((self.settings, str(self.machine.state), stalled))

        try:
            copied = self.store.snapshot(entered)
        finally:
            self._let_go()
        progress = Progress(ledger, copied, samples, rows, reached)
        return Snapshot(progress, *seen[0], wanted)

    def _not_yet(self, last: bool) -> None:
        if last:
            raise CheckpointError(
                "The functions of datasets did not show in time that they return the records that "
                f"were trained before: partitions {sorted(self._unconfirmed)}. What was trained "
                "since is in no checkpoint; the one that the run continued from is as it was."
            )

    def _let_go(self) -> None:
        with self._changed:
            self._holding = False
            self._changed.notify_all()

    def restore(self, progress: Progress) -> None:
        """Go on from what was done, before any worker joins.

        Raises
        ------
        CheckpointError
            It is of other parameters, or of another combiner; nothing was changed.
        """
        # All that can fail comes first.
        ledger = Ledger.from_json(progress.ledger)
        samples, rows = Counter(progress.samples), dict(progress.rows)
        self.store.restore(progress.copied)
        with self._lock:
            self._ledger, self._samples, self._rows = ledger, samples, rows
            self._layout = progress.reached.layout
            self._earlier = progress.reached.earlier
            self._unconfirmed = {
                partition
                for epoch, partition in ledger.contents.streams()
                if not ledger.is_finished(epoch, partition)
            }
