"""Which algorithm is the fastest for a vector: the least of what each costs.

With `direct` each rank sends to all others at the same time, so that it is not chosen for more
than `MOST_STREAMS`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .costs import costs
from .schedules import Schedule, direct, halving, ring, two_level

MOST_STREAMS = 32


def choose(
    n: int,
    nbytes: int,
    latency: float,
    bandwidth: float,
    hosts: Sequence[Hashable] = (),
) -> Schedule:
    """Return the schedule that takes the least time; equal values give equal schedules everywhere.

    Parameters
    ----------
    n, nbytes, latency, bandwidth, hosts
        See `costs`.

    Returns
    -------
    Schedule
        The first of ``ring``, ``direct``, ``halving`` and ``two_level`` where several take as long.
    """
    found = costs(n, nbytes, latency, bandwidth, hosts)
    del found["star"]
    if n > MOST_STREAMS:
        del found["direct"]
    name = min(found, key=found.__getitem__)
    if name == "two_level":
        return two_level(hosts)
    return {"ring": ring, "direct": direct, "halving": halving}[name](n)
