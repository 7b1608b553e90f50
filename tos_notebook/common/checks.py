"""Check settings where the user gives them, before anything starts.

Each check returns the value, and raises ConfigError for anything but what it says.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

from ..errors import ConfigError


def at_least_one(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    return _at_least(1, name, value)


def not_negative(name: str, value: Any) -> int:
    """Return a whole number of at least 0."""
    return _at_least(0, name, value)


def _at_least(least: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(
            f"{name}: expected a whole number of at least {least}, got {value!r} "
            f"of type {type(value).__name__}."
        )
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    return float(_number(name, value, lambda x: x > 0, "a finite number above 0"))


def at_least_zero(name: str, value: Any) -> float:
    """Return a finite number of at least 0, whole or not."""
    return _number(name, value, lambda x: x >= 0, "a finite number of at least 0")


def fraction(name: str, value: Any) -> float:
    """Return a number above 0 and up to 1."""
    return _number(name, value, lambda x: 0 < x <= 1, "a number above 0 and up to 1")


def below(name: str, value: Any, limit: float) -> float:
    """Return a number from 0 to below a limit."""
    return _number(name, value, lambda x: 0 <= x < limit, f"a number from 0 to below {limit:g}")


def _number(name: str, value: Any, fits: Callable[[float], bool], expected: str) -> float:
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and fits(number)):
        raise ConfigError(f"{name}: expected {expected}, got {value!r}.")
    # Python's own numbers are shown as the user wrote them.
    return value if isinstance(value, int | float) else number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name}: expected one of {', '.join(allowed)}; got {value!r}.")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean ...?`` with the known name that is nearest; empty if none is near."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" Did you mean {near[0]}?" if near else ""
