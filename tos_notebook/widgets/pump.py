"""One thread that feeds all views of this process, as long as there is something to feed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

INTERVAL = 0.2
"""Seconds between two ticks: at most five messages a second for each view, but for those that
are asked for."""

THREAD_NAME = "tos-views"


class Fed(Protocol):
    """What the pump feeds."""

    def tick(self, now: float) -> bool:
        """Send what is new.

        Parameters
        ----------
        now : float
            Seconds since 1970.

        Returns
        -------
        bool
            Whether more may follow.
        """
        ...


class Pump:
    """Ticks everything that was added, until each says that it is done.

    The thread ends with the last of them, and begins again with the next.

    Parameters
    ----------
    clock : callable
        Returns seconds since the epoch.
    wait : callable, optional
        Takes an event and seconds, and waits for whichever is first.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._clock = clock
        self._wait = wait
        self._asked = threading.Event()
        self._lock = threading.Lock()
        # With the number of the latest request: one that comes during a tick is not lost.
        self._fed: dict[Fed, int] = {}
        self._requests = 0
        self._thread: threading.Thread | None = None

    def add(self, fed: Fed) -> None:
        """Tick this one from now on, once more at least, and at once."""
        with self._lock:
            self._requests += 1
            self._fed[fed] = self._requests
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
                self._thread.start()
            else:
                self._asked.set()

    def tick(self) -> bool:
        """Tick everything once; return whether anything is left."""
        now = self._clock()
        with self._lock:
            fed = dict(self._fed)
        done = [one for one in fed if not _going(one, now)]
        with self._lock:
            for one in done:
                if self._fed[one] == fed[one]:
                    del self._fed[one]
            if not self._fed:
                self._thread = None
            return bool(self._fed)

    def _run(self) -> None:
        while self.tick():
            self._wait(self._asked, INTERVAL)
            # Before the tick that answers: a request during it is not lost.
            self._asked.clear()


def _going(fed: Fed, now: float) -> bool:
    try:
        return fed.tick(now)
    except Exception:
        # One view's broken connection is not the others' concern.
        logger.warning("A view of a run is no longer fed.", exc_info=True)
        return False


PUMP = Pump()
"""The process's own."""
