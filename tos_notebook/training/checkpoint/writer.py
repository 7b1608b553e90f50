"""Writes a run's checkpoints, on a thread of its own, while it trains."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...cluster.files import digest_of
from ...common.arrays import Array
from ...coordination.snapshots import Asked, Snapshot
from ...errors import CheckpointError, SessionClosed, WaitTimeout
from ...events import (
    CheckpointFailed,
    CheckpointWritten,
    EpochFinished,
    Event,
    MilestoneCommitted,
)
from ...persist.described import describe
from ...persist.parts import SavedPart
from ...steering.status import CheckpointStatus
from ...steering.trigger import Trigger
from ...strategies.base import Strategy
from ...strategies.registry import STRATEGIES
from ...telemetry.tally import Totals
from . import folder as names
from .apart import fetched, release, write_apart
from .contents import Origin, to_parts
from .event_log import Record, columns
from .folder import FIRST, Claim, Folder

logger = logging.getLogger(__name__)

FLUSH = 10.0
"""Seconds for the events of what is in a checkpoint to arrive."""

YOUNG = 60.0
"""Seconds for which a checkpoint is not deleted: a disk may not have had the newer ones yet."""

CHECKPOINT_TIMEOUT = 60.0
"""Seconds that the end of a run waits for a checkpoint under way."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is kept, as far as its writer knows it."""

    snapshot: Callable[[Callable[[], Asked | None], bool, Callable[[], object]], Snapshot | None]
    """Takes `asked`, whether this is the last one, and `swap`. Returns what is done, if anything
    is. The parameters may be elsewhere."""
    asked: Callable[[], Asked | None]
    """Returns a repartition that is still to be done, at the moment of the snapshot."""
    totals: Callable[[], Totals]
    publish: Callable[[Event], None]
    flush: Callable[[float], None]
    """Waits so many seconds until all events so far have arrived."""
    proven: Callable[[], bool] = lambda: True
    """Returns whether a resumed run is known to have the same rows as before."""
    spoiled: Callable[[], bool] = lambda: False
    """Returns whether it has trained others."""
    before: int = 0
    """Milestones of before a resume."""
    swap: Callable[[], object] = lambda: None
    """As `asked`, of a swap of the strategy."""


class CheckpointWriter:
    """Writes checkpoints when they are due, and one at the end; keeps the last few.

    A sink, too: it counts milestones, and records the events. A checkpoint that cannot be written
    is reported, and tried again when the next one is due: training continues.

    Parameters
    ----------
    folder : Folder
    origin : Origin
    every : Trigger
    keep : int
        How many to keep.
    claim : Claim
        On the folder; by default that of the process that starts the run.
    history : tuple of str
        Names of the files of its events so far.
    resumed : int, optional
        Number of the checkpoint from which the run continues.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self,
        folder: Folder,
        origin: Origin,
        every: Trigger,
        keep: int,
        claim: Claim = FIRST,
        history: tuple[str, ...] = (),
        resumed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.every = every
        self._origin = origin
        # After each swap of the strategy.
        self._origins = [origin]
        self._keep = keep
        self._claim, self._number = claim
        self._history = history
        self._clock = clock
        self._began = clock()
        self._written: dict[int, float] = {}
        """When each checkpoint was written, by its number."""
        self._record = Record()
        self._milestones = 0
        self._saved: object = None
        self._saving: float | None = None
        self.status = CheckpointStatus(resumed=resumed)
        self._due = threading.Event()
        self._ending = False
        self._subject: Subject | None = None
        self._thread = threading.Thread(
            target=self._keep_on, name=f"tos-checkpoint-{origin.run_id}", daemon=True
        )

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        self._record(event)
        if isinstance(event, MilestoneCommitted) and self.every.milestones is not None:
            self._milestones += 1
            if self._milestones >= self.every.milestones:
                self._milestones = 0
                self._due.set()
        elif isinstance(event, EpochFinished) and self.every.falls_on(event.epoch):
            self._due.set()

    @property
    def saving(self) -> tuple[str, float] | None:
        """Where a checkpoint is being written, and since when; None between two of them."""
        since = self._saving
        return None if since is None else (self.folder.storage.uri, since)

    def keep_program(self, archive: Path) -> None:
        """Save the program of another strategy, before that trains.

        Raises
        ------
        CheckpointError
            The file system refused.
        """
        digest = digest_of(archive)
        name = names.program(digest)
        if digest != self._origin.program and name not in self.folder.storage.list():
            self.folder.storage.write(name, archive)

    def swapped(self, strategy: Strategy, archive: Path) -> None:
        """Name another strategy, and its program, in checkpoints from the next swap on."""
        described = describe(strategy, STRATEGIES)
        self._origins.append(replace(self._origin, strategy=described, program=digest_of(archive)))

    def write_best(self, value: Mapping[str, Any], arrays: Sequence[Array]) -> str:
        """Write the parameters of the best validation; return the file's URI.

        Raises
        ------
        CheckpointError
            The file system refused, or another process has resumed the run.
        """
        self.folder.require(self._claim)
        self.folder.write(names.BEST, {"run": self._origin.run_id}, value, arrays)
        return f"{self.folder.storage.uri}/{names.BEST}"

    def begin(self, subject: Subject) -> None:
        """Begin to write checkpoints of a run."""
        self._subject = subject
        self._thread.start()

    def finish(self, timeout: float = CHECKPOINT_TIMEOUT) -> None:
        """Write the last checkpoint, of a run that has ended, and end the thread.

        One that takes longer than the timeout is reported as failed, and continues.

        Parameters
        ----------
        timeout : float
            Seconds.
        """
        if self._subject is None:
            return
        self._ending = True
        self._due.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            late = (
                f"The last checkpoint of {self._origin.run_id} was still being written "
                f"{timeout:g} s after the run's end. "
                f"See whether {self.folder.storage.uri} answers."
            )
            self._tell(self._subject, self._failed(late))
        elif self._subject.spoiled():
            self._withdraw()

    def _withdraw(self) -> None:
        """Delete what a resumed run has saved of rows that are not those from before.

        So the checkpoint that it continued from is the newest again.
        """
        try:
            self.folder.require(self._claim)
            for number in self._written:
                self.folder.remove(number)
        except CheckpointError as error:
            said = "Checkpoints of %s hold rows that are not those from before: %s"
            logger.warning(said, self._origin.run_id, error)

    def _keep_on(self) -> None:
        assert self._subject is not None
        ending = False
        while not ending:
            self._due.wait(self.every.seconds)
            self._due.clear()
            # Looked at before the checkpoint is written: the run may end meanwhile.
            ending = self._ending
            self.save(self._subject)

    def save(self, subject: Subject) -> None:
        """Write a checkpoint now, and publish what became of it: training continues without it."""
        self._saving = self._clock()
        try:
            event: Event | None = self.write(subject)
        except Exception as error:
            known = isinstance(error, CheckpointError | WaitTimeout)
            event = self._failed(str(error) if known else f"{type(error).__name__}: {error}")
        finally:
            self._saving = None
        if event is not None:
            self._tell(subject, event)

    def _prune(self) -> None:
        """Delete old checkpoints; the new one is as good if one of them stays."""
        try:
            numbers = self.folder.numbers()
            for number in numbers[: -self._keep]:
                if not self._is_young(number):
                    self.folder.remove(number)
            # What was written of others that never came to be.
            last = self._number
            self.folder.remove_parts(lambda of: of < last and of not in numbers)
        except Exception as error:
            run_id, uri = self._origin.run_id, self.folder.storage.uri
            logger.warning("Old checkpoints of %s stay in %s: %s", run_id, uri, error)

    def _failed(self, text: str) -> CheckpointFailed:
        logger.warning("Run %s has no new checkpoint: %s", self._origin.run_id, text)
        self.status = replace(self.status, error=text)
        return CheckpointFailed(time.time(), text)

    def _tell(self, subject: Subject, event: Event) -> None:
        # A run that has given up waiting for its last checkpoint hears of nothing any more.
        with suppress(SessionClosed):
            subject.publish(event)

    def write(self, subject: Subject) -> CheckpointWritten | None:
        """Write a checkpoint now; return None if there is nothing new to write.

        Raises
        ------
        CheckpointError
            The file system refused, the combiner's state cannot be saved, or another process has
            resumed the run.
        WaitTimeout
            A push did not end in time, or events did not arrive.
        """
        began = time.perf_counter()
        snapshot = subject.snapshot(subject.asked, self._ending, subject.swap)
        if snapshot is None:
            return None
        try:
            return self._write(subject, snapshot, began)
        finally:
            release(snapshot)

    def _write(
        self, subject: Subject, snapshot: Snapshot, began: float
    ) -> CheckpointWritten | None:
        version, asked = snapshot.progress.copied.version, snapshot.asked
        contents = version, snapshot.state, snapshot.settings, asked, snapshot.swap
        if self._saved == contents:
            return None
        self.folder.require(self._claim)
        subject.flush(FLUSH)
        # Counted on whatever becomes of it, so that no file is written twice.
        self._number = number = self._number + 1
        nbytes = self._write_history(number, version)
        whole, parts = self._apart(snapshot, number)
        origin = self._origins[snapshot.swaps]
        value, arrays = to_parts(origin, whole, asked, self._history, parts)
        nbytes += sum(part.nbytes for part in parts)
        totals, epochs, now = subject.totals(), self._origin.options.epochs, time.time()
        summary = {
            "run": self._origin.run_id,
            "name": self._origin.options.name,
            "state": snapshot.state,
            "epoch": min(totals.epoch + 1, epochs),
            "epochs": epochs,
            "milestones": subject.before + self._record.milestones,
            "samples": totals.samples,
            "loss": totals.loss,
            "validation": dict(totals.validation),
            "elapsed": totals.elapsed,
            "when": now,
            "created": self._origin.created,
        }
        nbytes += self.folder.write(names.checkpoint(number), summary, value, arrays)
        self._saved = contents
        self.status = replace(self.status, number=number, when=now, error=None)
        self._written[number] = self._clock()
        took = time.perf_counter() - began
        self._prune()
        return CheckpointWritten(time.time(), number, version, nbytes, took, snapshot.stall)

    def _apart(self, snapshot: Snapshot, number: int) -> tuple[Snapshot, Sequence[SavedPart]]:
        """Let those who have the parameters write them, if they are elsewhere.

        Returns
        -------
        Snapshot
            With the parameters in this process, unless they are written.
        sequence of SavedPart
            Where they are.
        """
        try:
            parts = write_apart(snapshot, self.folder, number, self._claim)
            if parts:
                self.status = replace(self.status, note=None)
            return snapshot, parts
        except (CheckpointError, WaitTimeout) as error:
            note = f"Checkpoints go through the driver: {error}"
        whole = fetched(snapshot)
        if self.status.note is None:
            logger.warning("Run %s: %s", self._origin.run_id, note)
        self.status = replace(self.status, note=note)
        with suppress(CheckpointError):
            self.folder.remove_parts(lambda of: of == number)
        return whole, ()

    def _is_young(self, number: int) -> bool:
        if number == self.status.resumed and self._subject and not self._subject.proven():
            # The run may have to continue from there once more.
            return True
        # Those of before a resume were there when this began.
        return self._clock() - self._written.get(number, self._began) < YOUNG

    def _write_history(self, number: int, version: int) -> int:
        """Write the events since the last checkpoint; return the bytes that took."""
        events = self._record.take(version)
        if not events:
            return 0
        name = names.history(number)
        try:
            written = self.folder.write(name, {"events": len(events)}, *columns(events))
        except BaseException:
            self._record.give_back(events)
            raise
        # Before the checkpoint itself: its events are taken, whatever becomes of it.
        self._history += (name,)
        return written
