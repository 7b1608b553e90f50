"""Copies of a run in memory, to which it returns when a part of its parameters is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from ..errors import TosError
from .snapshots import Progress, Snapshot

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two copies."""

SHARE = 10
"""How many times as long as a copy took nothing is copied after it."""


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
        # How often copies from before were of no use any more.
        self._forgotten = 0
        # A later copy takes the place of an earlier one.
        self._copying = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Copy now, and again and again until `end`."""
        self.copy()
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, name="tos-cuts", daemon=True)
            self._thread.start()

    def copy(self) -> None:
        """Copy now; the copy from before stays where that cannot be done."""
        with self._copying:
            self._copy()

    def forget(self) -> None:
        """Forget the copy, and one that is being made: another job begins."""
        self._forgotten += 1
        self.latest = None

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
            self.copy()
            pause = max(self._every, SHARE * (monotonic() - began))

    def _copy(self) -> None:
        forgotten = self._forgotten
        try:
            taken = self._take()
        except TosError as error:
            # The one before is good for longer, then.
            log.info("No copy in memory: %s", error)
            return
        except Exception:
            log.warning("No copy in memory.", exc_info=True)
            return
        if taken is not None and forgotten == self._forgotten:
            self.latest = taken.progress
