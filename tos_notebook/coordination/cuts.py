"""Copies of a run in memory, to which it returns when a part of its parameters is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Protocol, runtime_checkable

from ..errors import TosError
from .exchange import Trainer
from .snapshots import Progress, Snapshot

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two copies."""

SHARE = 10
"""How many times as long as a copy took nothing is copied after it."""


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


class Cuts:
    """Copies a run now and then, and keeps the latest copy.

    Parameters
    ----------
    take : callable
        Returns a copy; see `Snapshotter.snapshot`.
    every : float
        Seconds.
    """

    def __init__(self, take: Callable[[], Snapshot | None], every: float = EVERY) -> None:
        self.latest: Progress | None = None
        self._take, self._every = take, every
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Copy now, and again and again until `end`."""
        self._copy()
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name="tos-cuts", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Copy no more, and forget the copy."""
        thread, self._thread = self._thread, None
        self._ended.set()
        if thread is not None:
            thread.join()
        self.latest = None

    def _run(self) -> None:
        pause = self._every
        while not self._ended.wait(pause):
            began = monotonic()
            self._copy()
            pause = max(self._every, SHARE * (monotonic() - began))

    def _copy(self) -> None:
        try:
            taken = self._take()
        except TosError as error:
            # The one before is good for longer, then.
            log.debug("No copy in memory: %s", error)
            return
        if taken is not None:
            self.latest = taken.progress
