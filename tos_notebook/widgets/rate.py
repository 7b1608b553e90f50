"""How many samples per second a run has trained of late, and when it will have trained all."""

from __future__ import annotations

from collections import deque

WINDOW = 10.0
"""Seconds over which the rate is taken while the run is active."""

LONG = 60.0
"""The same for the time to go, which should not jump."""

SURE, SHARE = 10.0, 0.02
"""Seconds of training, or part of it all, after which the time to go is told."""

_STEP = 0.5


class Rate:
    """Samples per second of late, by a clock that stands still in pauses.

    Parameters
    ----------
    window : float
        Seconds.
    """

    def __init__(self, window: float = WINDOW) -> None:
        # (time, samples) now and then.
        self._past: deque[tuple[float, int]] = deque(maxlen=int(window / _STEP) + 1)

    def add(self, time: float, samples: int) -> None:
        """Take note of how many samples were trained at a time."""
        self._past.append((time, samples))

    def of_late(self, at: float, samples: int) -> float:
        """Return samples per second, with `samples` trained so far; 0 before anything was noted."""
        if not self._past:
            return 0.0
        if at - self._past[-1][0] >= _STEP:
            self.add(at, samples)
        time, before = self._past[0]
        return (samples - before) / (at - time) if at > time else 0.0


class Pace:
    """How fast a run trains, from its first milestone on: what comes before it is no training."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin with the next milestone: the run was resumed."""
        self._begun: tuple[float, int] | None = None
        self._rates = Rate(), Rate(LONG)

    @property
    def begun(self) -> bool:
        """Whether a milestone has come."""
        return self._begun is not None

    def begin(self, time: float, samples: int) -> None:
        """Take note of when the first milestone began, and how many samples were trained before."""
        self._begun = time, samples
        for rate in self._rates:
            rate.add(time, samples)

    def of_late(self, at: float, samples: int) -> float:
        """Return samples per second of late."""
        return self._rates[0].of_late(at, samples)

    def left(self, at: float, samples: int, goal: int | None) -> float | None:
        """Return seconds until all is trained; None while that cannot be known.

        Parameters
        ----------
        at : float
            By a clock that stands still in pauses.
        samples : int
            Trained so far.
        goal : int or None
            To be trained.
        """
        rate = self._rates[1].of_late(at, samples)
        if self._begun is None or goal is None or rate <= 0:
            return None
        time, before = self._begun
        if at - time < SURE and samples - before < SHARE * goal:
            return None
        return max(0, goal - samples) / rate
