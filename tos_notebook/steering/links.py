"""Links between workers, and to the driver: how many bytes a second each carries."""

from __future__ import annotations

from typing import NamedTuple

from ..events import DRIVER
from ..readable import amount

SHOWN = 6
"""Links that a line names."""


def end_of_link(partition: int) -> str:
    """Return who is at an end of a link: a partition's number, or the driver."""
    return "driver" if partition == DRIVER else str(partition)


class LinkRate(NamedTuple):
    """What one link carries of late, in one direction."""

    source: int
    """The partition of the worker that sends, or -1 for the driver."""
    target: int
    """The one that receives."""
    rate: float
    """Bytes a second."""

    def __str__(self) -> str:
        ends = end_of_link(self.source), end_of_link(self.target)
        return f"{ends[0]} -> {ends[1]} {amount(self.rate)}/s"


class LinkRates(NamedTuple):
    """What the links between workers, and to the driver, carry of late."""

    busiest: tuple[LinkRate, ...] = ()
    """In this order."""
    more: int = 0
    """How many others there are."""

    def __str__(self) -> str:
        """Say what the busiest carry: ``0 -> 1 12.3 MB/s, 1 -> 0 12.3 MB/s``."""
        shown = self.busiest[:SHOWN]
        more = self.more + len(self.busiest) - len(shown)
        return ", ".join(map(str, shown)) + (f", and {more:,} more" if more else "")
