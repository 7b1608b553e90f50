"""Check settings where the user gives them, before anything starts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from ..errors import ConfigError


def at_least_one(name: str, value: Any) -> int:
    """Return a whole number of at least 1.

    Raises
    ------
    ConfigError
        It is something else.
    """
    return _at_least(1, name, value)


def not_negative(name: str, value: Any) -> int:
    """Return a whole number of at least 0.

    Raises
    ------
    ConfigError
        It is something else.
    """
    return _at_least(0, name, value)


def _at_least(least: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(
            f"{name}: expected a whole number of at least {least}, got {value!r} "
            f"of type {type(value).__name__}."
        )
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0.

    Raises
    ------
    ConfigError
        It is something else.
    """
    number = _finite(value)
    if not number > 0:
        raise ConfigError(f"{name}: expected a finite number above 0, got {value!r}.")
    return number


def at_least_zero(name: str, value: Any) -> float:
    """Return a finite number of at least 0, whole or not.

    Raises
    ------
    ConfigError
        It is something else.
    """
    number = _finite(value)
    if not number >= 0:
        raise ConfigError(f"{name}: expected a finite number of at least 0, got {value!r}.")
    return _as_given(value, number)


def fraction(name: str, value: Any) -> float:
    """Return a number above 0 and up to 1.

    Raises
    ------
    ConfigError
        It is something else.
    """
    number = _finite(value)
    if not 0 < number <= 1:
        raise ConfigError(f"{name}: expected a number above 0 and up to 1, got {value!r}.")
    return _as_given(value, number)


def below(name: str, value: Any, limit: float) -> float:
    """Return a number from 0 to below a limit.

    Raises
    ------
    ConfigError
        It is something else.
    """
    number = _finite(value)
    if not 0 <= number < limit:
        raise ConfigError(f"{name}: expected a number from 0 to below {limit:g}, got {value!r}.")
    return _as_given(value, number)


def _as_given(value: Any, number: float) -> float:
    """Return a number of Python's own as it is, so that it is shown as the user wrote it."""
    return value if isinstance(value, int | float) else number


def _finite(value: Any) -> float:
    """Return a real number as a float; NaN for all others, which no comparison accepts."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words.

    Raises
    ------
    ConfigError
        It is something else.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name}: expected one of {', '.join(allowed)}; got {value!r}.")
    return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean ...?`` with the known name that is nearest; empty if none is near."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" Did you mean {near[0]}?" if near else ""
