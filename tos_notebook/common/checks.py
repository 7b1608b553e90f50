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
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise ConfigError(f"{name}: expected a finite number above 0, got {value!r}.")
    return number


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean ...?`` for what a word resembles most; empty if nothing does."""
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f" Did you mean {close[0]}?" if close else ""
