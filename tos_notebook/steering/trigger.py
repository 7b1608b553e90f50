"""How often, and where, something is done while a run trains: a checkpoint, a validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..errors import ConfigError

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}

PLACES = ("driver", "executors")
"""Where validation data can be evaluated."""

_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|milestones?|epochs?)\s*")


@dataclass(frozen=True, slots=True)
class Trigger:
    """One of the three: seconds between two times, milestones, or epochs."""

    seconds: float | None = None
    milestones: int | None = None
    epochs: int | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            # Ten digits: `as_trigger` reads no exponent, and a saved run is read back through it.
            return f"{self.seconds:.10g}s"
        if self.epochs is not None:
            return f"{self.epochs} epoch{'s' * (self.epochs > 1)}"
        return f"{self.milestones} milestones"

    def falls_on(self, epoch: int) -> bool:
        """Return whether it is due when an epoch is done; epochs count from 0."""
        return self.epochs is not None and (epoch + 1) % self.epochs == 0


def as_trigger(name: str, value: Any) -> Trigger:
    """Return what a user gives: ``"30s"``, ``"2h"``, ``"500 milestones"``, 500, ``"2 epochs"``.

    Parameters
    ----------
    name : str
        Of the setting.
    value : str, int or Trigger

    Raises
    ------
    ConfigError
        It is none of these.
    """
    if isinstance(value, Trigger):
        return value
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0:
        return Trigger(milestones=int(value))
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) if match else 0.0
    unit = match[2] if match else ""
    if number > 0 and unit in _SECONDS:
        return Trigger(seconds=number * _SECONDS[unit])
    if number >= 1 and number.is_integer():
        if unit.startswith("epoch"):
            return Trigger(epochs=int(number))
        if unit.startswith("milestone"):
            return Trigger(milestones=int(number))
    raise ConfigError(
        f'{name}: expected a time such as "30s", "5min" or "2h", milestones such as '
        f'"500 milestones" or 500, or "2 epochs"; got {value!r}.'
    )
