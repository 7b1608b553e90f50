"""How often workers come round a closed network of queues.

Each of n workers visits all stations, one after the other, and begins again. A station with c
servers serves up to c of them at full speed; more share the speed of c. A station with a server for
everybody is a delay. The throughput is exact where stations share their speed evenly, whatever the
distribution of the times: Baskett, Chandy, Muntz and Palacios 1975, "Open, closed, and mixed
networks of queues with different classes of customers", Journal of the ACM 22(2). It is computed by
convolution: Buzen 1973, "Computational algorithms for closed queueing networks with exponential
servers", Communications of the ACM 16(9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..common.arrays import Array

MOST = 2000
"""Workers up to which it is computed. With more, the asymptotic bounds are as good."""


class Station(NamedTuple):
    """What each worker visits once in a round."""

    seconds: float
    """That a worker alone takes there, at least 0."""
    servers: float
    """How many workers it serves at full speed; infinite for a delay."""


def links(seconds: float, servers: int) -> list[Station]:
    """Return the links to servers; each server has a part of the bytes.

    A worker sends to one server after the other. What a server answers comes while the next part is
    sent; only the last answer comes alone.

    Parameters
    ----------
    seconds : float
        That all bytes take through one link.
    servers : int
        At least 1.
    """
    return (servers + 1) * [Station(seconds / servers, 1)]


def throughput(workers: int, stations: Sequence[Station]) -> float:
    """Return how many rounds a second all workers make together.

    Parameters
    ----------
    workers : int
        At least 1.
    stations : sequence of Station
        Some take time.
    """
    around = sum(station.seconds for station in stations)
    limits = [s.servers / s.seconds for s in stations if s.seconds > 0]
    bound = min(workers / around, *limits)
    if workers > MOST:
        return bound
    # In units of the bound, weights of every station have about the same size.
    weights = np.ones(1)
    for station in stations:
        if station.seconds > 0:
            own = _weights(station.seconds * bound, station.servers, workers)
            weights = np.convolve(weights, own)[: workers + 1]
            weights /= weights.max()
    return float(min(bound, bound * weights[-2] / weights[-1]))


def _weights(demand: float, servers: float, workers: int) -> Array:
    """Return the weights of 0, 1, ... workers at one station, of which the largest is 1."""
    at_once = np.minimum(np.arange(1, workers + 1), servers)
    logarithms = np.concatenate(([0.0], np.cumsum(math.log(demand) - np.log(at_once))))
    found: Array = np.exp(logarithms - logarithms.max())
    return found
