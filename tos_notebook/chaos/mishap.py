"""What happens to a worker in one milestone: all that it is told of chaos."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import RemoteProtocolError

LONGEST = 60.0
"""Seconds that chaos lets a worker sleep in one milestone at most."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """What happens to a worker in one milestone; nothing by default.

    Parameters
    ----------
    slow : float
        How many times as long as it computed the milestone takes.
    pause : float
        Seconds that it sleeps besides.
    kill : bool
        Whether its process ends before the milestone's update is sent.
    """

    slow: float = 1.0
    pause: float = 0.0
    kill: bool = False

    def delay(self, busy: float) -> float:
        """Return the seconds to sleep after computing for `busy` seconds, at most `LONGEST`."""
        return min(LONGEST, (self.slow - 1) * busy + self.pause)

    def __or__(self, other: Mishap) -> Mishap:
        return Mishap(self.slow * other.slow, self.pause + other.pause, self.kill or other.kill)

    def to_json(self) -> dict[str, float | bool]:
        """Return plain JSON values, for `as_mishap`."""
        return asdict(self)


NOTHING = Mishap()

_FIELDS = {field.name for field in fields(Mishap)}


def as_mishap(value: Mapping[str, Any]) -> Mishap:
    """Return the mishap of which `Mishap.to_json` made plain values.

    Parameters
    ----------
    value : mapping of str to float or bool
        Empty for nothing.

    Raises
    ------
    RemoteProtocolError
        It has other fields.
    """
    if not value:
        return NOTHING
    if not value.keys() <= _FIELDS:
        raise RemoteProtocolError(
            f"Chaos: expected fields of {sorted(_FIELDS)}, got {sorted(value)}."
        )
    return Mishap(**value)
