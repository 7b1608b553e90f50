"""Checks of combiners' parameters: each returns the value, or says what was expected."""

from __future__ import annotations

import math
from numbers import Integral, Real

from ..errors import ConfigError


def require_fraction(owner: str, name: str, value: float) -> float:
    """Return `value` if it is a number in (0, 1]; raise ConfigError otherwise."""
    if not _is_real(value) or not 0 < value <= 1:
        raise ConfigError(f"{owner}: expected 0 < {name} <= 1, got {value!r}.")
    return value


def require_below(owner: str, name: str, value: float, limit: float) -> float:
    """Return `value` if it is a number in [0, limit); raise ConfigError otherwise."""
    if not _is_real(value) or not 0 <= value < limit:
        raise ConfigError(f"{owner}: expected 0 <= {name} < {limit:g}, got {value!r}.")
    return value


def require_non_negative(owner: str, name: str, value: float) -> float:
    """Return `value` if it is a finite number of at least 0; raise ConfigError otherwise."""
    if not _is_real(value) or not 0 <= value < math.inf:
        raise ConfigError(f"{owner}: expected a finite {name} >= 0, got {value!r}.")
    return value


def require_positive(owner: str, name: str, value: float) -> float:
    """Return `value` if it is a finite number above 0; raise ConfigError otherwise."""
    if not _is_real(value) or not 0 < value < math.inf:
        raise ConfigError(f"{owner}: expected a finite {name} > 0, got {value!r}.")
    return value


def require_count(owner: str, name: str, value: int, least: int = 1) -> int:
    """Return `value` if it is a whole number of at least `least`; raise ConfigError otherwise."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{owner}: expected a whole number {name} >= {least}, got {value!r}.")
    return int(value)


def optional_count(owner: str, name: str, value: int | None) -> int | None:
    """Return None, or what `require_count` returns."""
    return None if value is None else require_count(owner, name, value)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
