"""Numbers as JSON that is short and strict, and as words."""

from __future__ import annotations

import math


def short(value: float | None, digits: int = 4) -> float | None:
    """Return a number with few digits; None for NaN and infinity, which JSON has not."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def seconds(value: float) -> float:
    """Return a time to the millisecond."""
    return round(value, 3)


def words(value: float | None) -> str:
    """Return a number for people, a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    plain = 1000 <= abs(value) < 1e12 or (abs(value) < 1000 and value == int(value))
    return f"{value:,.0f}" if plain else f"{value:.4g}"


def percent(share: float | None) -> str:
    """Return a share for people, a dash if there is none."""
    return words(None) if share is None else f"{share:.0%}"


def span(value: float) -> str:
    """Return seconds for people."""
    if value < 60:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
