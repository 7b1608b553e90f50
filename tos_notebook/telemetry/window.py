"""Means and rates of the milestones between two points of a curve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping


class Window:
    """Sums over milestones, by the names of curves.

    Parameters
    ----------
    began : float
        Seconds since the epoch.

    Attributes
    ----------
    milestones : int
        How many were added.
    """

    def __init__(self, began: float = 0.0) -> None:
        self.began = began
        self.milestones = 0
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._weights: defaultdict[str, int] = defaultdict(int)
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, samples: int, values: Mapping[str, float], rates: Iterable[str] = ()) -> None:
        """Add a milestone: its samples, values to average over them, and names of their rates."""
        self.milestones += 1
        for name, value in values.items():
            self._sums[name] += value * samples
            self._weights[name] += samples
        for name in rates:
            self._counts[name] += samples

    def means(self) -> dict[str, float]:
        """Return the means per sample by name."""
        return {n: total / self._weights[n] for n, total in self._sums.items() if self._weights[n]}

    def values(self, now: float) -> dict[str, float]:
        """Return the means, and the samples per second of each rate, by name."""
        seconds = now - self.began
        rates = {name: count / seconds for name, count in self._counts.items() if seconds > 0}
        return self.means() | rates
