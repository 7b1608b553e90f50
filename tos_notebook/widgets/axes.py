"""The axes of a drawn chart: values to pixels, round ticks, and what stands at these."""

from __future__ import annotations

import math
from itertools import chain

_STEPS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0)

TIMES = (
    *(0.1, 0.2, 0.5),
    *chain.from_iterable([unit * step for step in _STEPS] for unit in (1.0, 60.0)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96, 168)),
)
"""Seconds between two ticks of time."""


class Axis:
    """Values to pixels, and where the ticks are.

    Parameters
    ----------
    low, high : float
        The values at its ends; one alone gets some room on both sides.
    start, end : float
        The pixels of these.
    kind : str
        ``"linear"``, ``"log"`` or ``"time"``, in seconds.
    apart : float
        Pixels between two ticks, about.
    """

    def __init__(
        self, low: float, high: float, start: float, end: float, kind: str, apart: float = 60.0
    ) -> None:
        self._log, self._time = kind == "log", kind == "time"
        self._low, self._high = self._scale(low), self._scale(high)
        if self._low == self._high:
            pad = abs(self._low) / 2 or 0.5
            self._low, self._high = self._low - pad, self._high + pad
        self._start, self._end = start, end
        self._most = max(2.0, abs(end - start) / apart)

    def at(self, value: float) -> float:
        """Return a value's pixel; one beyond an end is drawn at the end."""
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return round(self._start + min(1.0, max(0.0, share)) * (self._end - self._start), 1)

    def holds(self, value: float) -> bool:
        """Return whether a value is between the ends."""
        return self._low <= self._scale(value) <= self._high

    def ticks(self) -> list[tuple[float, str]]:
        """Return round values between the ends, and their labels."""
        values = self._powers() if self._log else self._multiples()
        labels = _clocks(values) if self._time else map(label, values)
        return list(zip(values, labels, strict=True))

    def _scale(self, value: float) -> float:
        if not self._log:
            return value
        return math.log10(value) if value > 0 else -math.inf

    def _powers(self) -> list[float]:
        first, last = math.ceil(self._low), math.floor(self._high)
        every = max(1, math.ceil((last - first + 1) / self._most))
        return [10.0**n for n in range(first, last + 1) if n % every == 0]

    def _multiples(self) -> list[float]:
        step = self._round((self._high - self._low) / self._most)
        ticks = self._at_steps(step)
        # One alone says nothing of how far apart values are. The next step is 0.4 of it, or more.
        return ticks if len(ticks) > 1 else self._at_steps(self._round(0.4 * step))

    def _at_steps(self, step: float) -> list[float]:
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        return [float(f"{n * step:.10g}") for n in range(first, last + 1)]

    def _round(self, rough: float) -> float:
        step = next((each for each in TIMES if each >= rough), None) if self._time else None
        if step is None or rough < TIMES[0]:
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        return step


def label(value: float) -> str:
    """Return a tick in few letters, but with all of its digits: 0.05, 250, 10.05k, 4e8."""
    size = abs(value)
    if size != 0 and (size < 1e-3 or size >= 1e6):
        digits, _, power = f"{value:.9e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value / 1000:.10g}k" if size >= 1e4 else f"{value:,.10g}"


def clock(seconds: float) -> str:
    """Return a time as 0:05, 1:30 or 1:05:00; below a second as 0.5 s."""
    if seconds < 60 and seconds % 1 > 1e-9:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _clocks(times: list[float]) -> list[str]:
    """Return times in one form: if one of them needs decimals, all have them."""
    decimals = max((len(f"{time:.10g}".partition(".")[2]) for time in times), default=0)
    if decimals == 0:
        return [clock(time) for time in times]
    if all(time < 60 for time in times):
        return [f"{time:.{decimals}f} s" for time in times]
    return [clock(time // 1) + f"{time % 1:.{decimals}f}"[1:] for time in times]
