"""What each way of a reduction costs, by formulas.

P bytes, n ranks on h hosts, m of them on the fullest one. α is the latency of a message, β the
seconds that a byte takes through a host's network interface. δ is what it takes between ranks of
one host, and γ what it takes to add.

::

    ring        2(n - 1)α + 2(n - 1)/n Pβ + (n - 1)/n Pγ
    direct      2α + 2m(n - m)/n Pβ + (n - 1)/n Pγ + Pγ/n
    halving     2⌊log₂ n⌋α + 2m(h - 1)/h Pβ + (n - 1)/n Pγ, and 2α + 2Pβ + Pγ without a power of two
    two_level   2α + (m - 1)P(2δ + γ), and the ring of h leaders
    star        2α + 2nPβ + nPγ, through one more process

The ring: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", JPDC 69(2). Halving: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective
communication operations in MPICH", IJHPCA 19(1).

The ranks of a host follow each other, so that a ring crosses each interface once. Where all ranks
are on one host, β is δ. `direct` keeps a copy of its part. A star answers when all have come, so
that the vectors of all cross its interface one way, then the other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

GAMMA = 1 / 5e9
"""Seconds that a processor takes to add a byte to another one."""

DELTA = 1 / 2e9
"""Seconds that a byte takes between two processes of one host, which share memory."""


def costs(
    n: int,
    nbytes: int,
    latency: float,
    bandwidth: float,
    hosts: Sequence[Hashable] = (),
    delta: float = DELTA,
) -> dict[str, float]:
    """Return how long one reduction takes, by algorithm.

    Parameters
    ----------
    n : int
        Ranks.
    nbytes : int
        Of the vector.
    latency : float
        Seconds that a short message takes.
    bandwidth : float
        Bytes a second, through a host's network interface in one direction.
    hosts : sequence of hashable, optional
        The host of each rank. By default each rank has one of its own.
    delta : float, optional
        Seconds that a byte takes between two ranks of a host.

    Returns
    -------
    dict of str
        Seconds. ``star`` is a server that all ranks send to, as a parameter server is. One rank
        alone exchanges with such a server only.
    """
    fullest = max(Counter(hosts).values(), default=1)
    machines = len(set(hosts)) or n
    beta = 1 / bandwidth if machines > 1 or not hosts else delta
    adding = (n - 1) / n * nbytes * GAMMA
    crossing = fullest * (n - fullest) / n if machines > 1 else (n - 1) / n
    halves = fullest * (machines - 1) / machines if machines > 1 else (n - 1) / n

    def rounds(count: int, nbytes_each_way: float) -> float:
        return count * latency + nbytes_each_way * beta

    found = {
        "ring": rounds(2 * (n - 1), 2 * (n - 1) / n * nbytes) + adding,
        "direct": rounds(2, 2 * crossing * nbytes) + adding + nbytes * GAMMA / n,
        "halving": rounds(2 * int(math.log2(n)), 2 * halves * nbytes) + adding,
        "star": rounds(2, 2 * n * nbytes) + n * nbytes * GAMMA,
    }
    if n == 1:
        found |= dict.fromkeys(("ring", "direct", "halving"), 0.0)
    elif n & (n - 1):
        found["halving"] += rounds(2, 2 * nbytes) + nbytes * GAMMA
    if fullest > 1:
        leaders = (machines - 1) / machines
        found["two_level"] = (
            (2 * latency + (fullest - 1) * nbytes * (2 * delta + GAMMA))
            + rounds(2 * (machines - 1), 2 * leaders * nbytes)
            + leaders * nbytes * GAMMA
        )
    return found
