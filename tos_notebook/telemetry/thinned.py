"""Lines of so many points as can be seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

POINTS = 5000
"""Points per line at most; longer ones are averaged, so that a saved notebook stays small."""

Vector = npt.NDArray[np.float64]


def thin_out(x: Vector, y: Vector, points: int = POINTS) -> tuple[Vector, Vector]:
    """Average neighbors until at most `points` are left; fewer are returned as they are.

    Parameters
    ----------
    x, y : ndarray, shape (n,), float64
    points : int

    Returns
    -------
    tuple of ndarray, each of shape (m,), float64, with m <= `points`
    """
    if len(x) <= points:
        return x, y
    group = -(-len(x) // points)
    starts = np.arange(0, len(x), group)
    counts = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts
