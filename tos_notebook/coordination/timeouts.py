"""How long the server holds a worker, or waits for one's push."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that a request or a command waits, at most.

    Parameters
    ----------
    long_poll : float
        For which the server holds a waiting worker's poll, so that it can answer at once.
    hold : float
        That pushes wait while a copy of the run is begun, and the copy for pushes under way.
    settle : float
        That the end of a run waits for pushes that are being merged.
    """

    long_poll: float = 0.5
    hold: float = 10.0
    settle: float = 5.0


TIMEOUTS = Timeouts()
"""Those of every run."""
