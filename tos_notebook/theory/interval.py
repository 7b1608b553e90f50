"""How often to exchange, so that it costs a given share of the time."""

from __future__ import annotations

import math

SHARE = 0.1
"""Of a worker's time: what exchanges may take."""


def shortest_interval(batch: float, exchange: float, share: float = SHARE) -> int:
    """Return the fewest batches between two exchanges by which those take a share of the time.

    An exchange of e seconds after H batches of t seconds takes e / (Ht + e) of a worker's time.

    Parameters
    ----------
    batch : float
        t, above 0.
    exchange : float
        e.
    share : float
        In (0, 1).

    Returns
    -------
    int
        H, at least 1.
    """
    wanted = exchange * (1 - share) / (share * batch)
    return max(1, math.ceil(round(wanted, 9)))
