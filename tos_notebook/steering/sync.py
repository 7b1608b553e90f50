"""Sync modes: how far a worker may run ahead of the others.

Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter
server" (NIPS 26). Asynchronous and bulk-synchronous training are its two extremes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True, slots=True)
class SyncMode:
    """How far a worker may be ahead of the slowest active one before it waits.

    Parameters
    ----------
    slack : int or None
        Milestones, from 0; None for any number of them.
    """

    slack: int | None

    @property
    def barrier(self) -> bool:
        """Whether all workers wait for each other at every milestone."""
        return self.slack == 0

    def __str__(self) -> str:
        if self.slack is None:
            return "asp"
        return f"ssp:{self.slack}" if self.slack else "bsp"


ASP = SyncMode(None)
"""Asynchronous: workers do not wait."""

BSP = SyncMode(0)
"""Bulk-synchronous: everybody waits for everybody."""


EXAMPLES = ("asp", "ssp:1", "ssp:3", "ssp:10", "bsp")
"""What to choose from."""


def as_sync(value: Any) -> SyncMode:
    """Return the sync mode of a name.

    Parameters
    ----------
    value : str or SyncMode
        ``"asp"``, ``"bsp"`` or ``"ssp:s"`` with s from 0; also ``"async"``, ``"sync"`` or
        ``"bounded:s"``.

    Raises
    ------
    ConfigError
        It is none of these.
    """
    if isinstance(value, SyncMode):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    known = {"asp": ASP, "async": ASP, "bsp": BSP, "sync": BSP}.get(text)
    if known is not None:
        return known
    found = re.fullmatch(r"(?:ssp|bounded):(\d{1,9})", text)
    if found is None:
        raise ConfigError(
            "sync: expected 'asp' or 'async', 'ssp:3' or 'bounded:3', 'bsp' or 'sync'; got "
            f"{value!r}. With asp no worker waits. With ssp:3 a worker may be 3 milestones ahead "
            "of the slowest active one. With bsp all wait for each other at every milestone."
        )
    return SyncMode(int(found[1]))


WHOLE_EPOCH = 1_000_000
"""Batches between two exchanges: more than a partition has, so that its only one is at the end."""


def interval_text(interval: int, in_batches: str = "") -> str:
    """Return a sync interval for people, by default as a number, and a whole epoch in words.

    Parameters
    ----------
    interval : int
        Batches between two exchanges.
    in_batches : str, optional
        The number in words.
    """
    return "whole epoch" if interval >= WHOLE_EPOCH else in_batches or str(interval)
