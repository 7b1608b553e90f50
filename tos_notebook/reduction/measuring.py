"""How fast the links of a mesh are."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..common.arrays import Array
from ..errors import PeerLost
from .mesh import Mesh
from .reducer import Reducer
from .schedules import ring

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
    """

    latency: float
    bandwidth: float


def measure(mesh: Mesh) -> Speed:
    """Measure the links to the neighbors: some short messages around, then 1 MB twice.

    All ranks measure at the same time, before they make their reducers.

    Parameters
    ----------
    mesh : Mesh
        Formed.

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
    latency = min(_seconds(reducer, short) for _ in range(_PINGS)) / max(1, 2 * (n - 1))
    seconds = max(_seconds(reducer, long) - 2 * (n - 1) * latency, latency)
    measured = np.array([latency, seconds])
    reducer.reduce(measured, 1.0)
    if not (np.isfinite(measured).all() and (measured > 0).all()):
        raise PeerLost((mesh.rank - 1) % n, f"has measured the times {measured.tolist()}.")
    return Speed(float(measured[0]), 2 * max(1, n - 1) / n * _NBYTES / float(measured[1]))


def _seconds(reducer: Reducer, vector: Array) -> float:
    began = perf_counter()
    reducer.reduce(vector, 1.0)
    return perf_counter() - began
