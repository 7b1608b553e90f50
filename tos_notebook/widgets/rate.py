"""How many samples per second a run has trained of late."""

from __future__ import annotations

from collections import deque

WINDOW = 10.0
"""Seconds over which the rate is taken while the run is active."""

_STEP = 0.5


class Rate:
    """Samples per second of late, by a clock that stands still in pauses."""

    def __init__(self) -> None:
        # (time, samples) now and then.
        self._past: deque[tuple[float, int]] = deque(maxlen=int(WINDOW / _STEP) + 1)

    def add(self, time: float, samples: int) -> None:
        """Take note of how many samples were trained at a time."""
        self._past.append((time, samples))

    def forget(self) -> None:
        """Forget what was before."""
        self._past.clear()

    def of_late(self, at: float, samples: int) -> float:
        """Return samples per second, with `samples` trained so far."""
        if not self._past or at - self._past[-1][0] >= _STEP:
            self.add(at, samples)
        time, before = self._past[0]
        return (samples - before) / (at - time) if at > time else 0.0
