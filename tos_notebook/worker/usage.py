"""What a worker's process uses: its share of the processor, and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..data.room import resident

EVERY = 1.0
"""Seconds between two measurements, at least."""


class UsageMeter:
    """Measures what this process uses, at most once in `EVERY` seconds.

    Parameters
    ----------
    clock : callable
        Seconds.
    processor : callable
        Seconds of processor time that all threads of this process have taken.
    memory : callable
        Bytes that this process has; 0 where the system does not tell.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.process_time,
        memory: Callable[[], int] = resident,
    ) -> None:
        self._clock, self._processor, self._memory = clock, processor, memory
        self._since, self._used = clock(), processor()
        self._latest: tuple[float, int] | None = None

    def read(self) -> tuple[float, int]:
        """Return the latest measurement, a new one if it is due.

        Returns
        -------
        cpu : float
            Cores that were busy since the measurement before: above 1 with several threads.
        memory : int
            In KiB; 0 where unknown.
        """
        now = self._clock()
        passed = now - self._since
        if self._latest is None or passed >= EVERY:
            used = self._processor()
            cpu = (used - self._used) / passed if passed > 0 else 0.0
            self._since, self._used = now, used
            self._latest = cpu, self._memory() // 1024
        return self._latest
