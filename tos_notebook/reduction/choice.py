"""Which algorithm is the fastest for a vector: the least of what each costs.

With `direct` each rank sends to all others at the same time, so that it is not chosen for more
than `MOST_STREAMS`. A short vector it sends at once, as a whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .costs import DELTA, costs
from .schedules import Schedule, at_once, direct, halving, ring, two_level

MOST_STREAMS = 32

SHORT = 1 << 16
"""Bytes that a rank sends at once at most: the kernel takes them without waiting for a peer."""


def choose(
    n: int,
    nbytes: int,
    latency: float,
    bandwidth: float,
    hosts: Sequence[Hashable] = (),
    delta: float = DELTA,
) -> Schedule:
    """Return the schedule that takes the least time; equal values give equal schedules everywhere.

    Parameters
    ----------
    n, nbytes, latency, bandwidth, hosts, delta
        See `costs`.

    Returns
    -------
    Schedule
        ``at_once`` where it saves more than it sends in addition. Else the first of ``ring``,
        ``direct``, ``halving`` and ``two_level`` where several take as long.
    """
    more = (n - 1) * (n - 2) / n * nbytes
    if 1 < n <= MOST_STREAMS and (n - 1) * nbytes <= SHORT and more / bandwidth < latency:
        return at_once(n)
    found = costs(n, nbytes, latency, bandwidth, hosts, delta)
    del found["star"]
    if n > MOST_STREAMS:
        del found["direct"]
    name = min(found, key=found.__getitem__)
    if name == "two_level":
        return two_level(hosts)
    return {"ring": ring, "direct": direct, "halving": halving}[name](n)
