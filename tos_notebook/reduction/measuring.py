"""How fast the links of a mesh are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..common.arrays import Array
from ..errors import PeerLost
from .costs import DELTA
from .mesh import Mesh
from .reducer import Reducer
from .schedules import pairs, ring

_NBYTES = 1_000_000
_PINGS = 5


class Speed(NamedTuple):
    """The links of a mesh.

    Attributes
    ----------
    latency : float
        Seconds that a short message takes.
    bandwidth : float
        Bytes a second, in both directions at the same time.
    delta : float
        Seconds that a byte takes between two ranks of one host, in both directions likewise. Not
        measured where no two are on one.
    """

    latency: float
    bandwidth: float
    delta: float


def measure(mesh: Mesh, hosts: Sequence[Hashable] = ()) -> Speed:
    """Measure the links to the neighbors: some short messages around, then 1 MB twice.

    Then two ranks of each host send each other 1 MB.

    All ranks measure at the same time, before they make their reducers.

    Parameters
    ----------
    mesh : Mesh
        Formed.
    hosts : sequence of hashable, optional
        The host of each rank. By default each rank has one of its own.

    Returns
    -------
    Speed
        The mean of all ranks, the same bits on each: all choose the same algorithm by it.

    Raises
    ------
    PeerLost
        A peer has left, was silent, or sends no times.
    """
    n = mesh.n
    reducer = Reducer(mesh, ring(n))
    short, long = np.zeros(n), np.zeros(_NBYTES // 8)
    for vector in (short, long):
        # The first ones touch memory, and let the kernel's windows grow.
        _seconds(reducer, vector)
    rounds = 2 * (n - 1)
    latency = min(_seconds(reducer, short) for _ in range(_PINGS)) / max(1, rounds)
    seconds = max(_seconds(reducer, long) - rounds * latency, latency)
    measured = _agreed(mesh, reducer, [latency, seconds])
    delta = DELTA
    if len(set(hosts)) < len(hosts):
        between = pairs(hosts)
        paired = Reducer(mesh, between)
        _seconds(paired, long)
        seconds = max(_seconds(paired, long) - 2 * latency, latency / 10)
        (delta,) = _agreed(mesh, reducer, [seconds / _NBYTES], bool(between.ranks[mesh.rank]))
    return Speed(measured[0], 2 * max(1, n - 1) / n * _NBYTES / measured[1], delta)


def _agreed(mesh: Mesh, reducer: Reducer, times: list[float], counts: bool = True) -> list[float]:
    """Return the mean of what all ranks have measured that count."""
    measured = np.array(times)
    reducer.reduce(measured, float(counts))
    if not (np.isfinite(measured).all() and (measured > 0).all()):
        raise PeerLost((mesh.rank - 1) % mesh.n, f"has measured the times {measured.tolist()}.")
    return [float(each) for each in measured]


def _seconds(reducer: Reducer, vector: Array) -> float:
    began = perf_counter()
    reducer.reduce(vector, 1.0)
    return perf_counter() - began
