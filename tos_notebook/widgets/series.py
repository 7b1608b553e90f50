"""One curve in bounded memory."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

LIMIT = 2000
"""Points of a series at most: more than a chart has pixels."""

FREE, SPACING = 500, 0.02
"""After so many points, seconds between two at least: a view that is fed five times a second
needs no more, but a run of a second should have its curve."""

LARGEST = 1e30
"""What is larger does not count either: float32 and a chart's arithmetic end soon after."""

ROWS = ("time", "samples", "epoch", "value")

_WEIGHT, _FINITE = 4, 5
"""Columns that are kept besides `ROWS`: samples of a point, and those with a finite value."""


class Series:
    """Points (time, samples, epoch, value); when there are too many, neighbors are merged.

    A merged point is the mean of its parts, weighted by their samples. What is not finite
    (NaN, infinity) does not count, unless there is nothing else.

    Parameters
    ----------
    limit : int
        Points at most; even.

    Attributes
    ----------
    generation : int
        Counts the times that all points were merged again.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.generation = 0
        self._points = np.empty((_FINITE + 1, limit))
        self._length = 0
        # As many values make a point, at least.
        self._stride = 1
        self._values = 0
        self._closed = -math.inf
        self._open: list[tuple[float, ...]] = []

    def __len__(self) -> int:
        """Return the number of points."""
        return self._length

    def add(self, time: float, samples: float, epoch: float, value: float, weight: float) -> None:
        """Append a value; it is seen once enough neighbors came to make a point.

        Parameters
        ----------
        time, samples, epoch : float
            Where it stands on each of the three axes.
        value : float
        weight : float
            Samples that it is the mean of, above 0.
        """
        known = abs(value) <= LARGEST
        height, finite = (value, weight) if known else (math.nan, 0.0)
        self._open.append((time, samples, epoch, height, weight, finite))
        if self._due(time) and self._length == self._points.shape[1]:
            self._thin_out()
        if self._due(time):
            self.close_point()

    def close_point(self) -> None:
        """Make a point of the latest values, although they may be few."""
        if not self._open:
            return
        if self._length == self._points.shape[1]:
            self._thin_out()
        # One by one at first, where merging would cost the most.
        parts = np.array(self._open).T[:, None, :] if len(self._open) > 1 else None
        point = self._open[0] if parts is None else merged(parts)[:, 0]
        self._points[:, self._length] = point
        self._length += 1
        self._values += len(self._open)
        self._closed = self._open[-1][0]
        self._open.clear()

    def points(self, start: int = 0) -> npt.NDArray[np.float64]:
        """Return a view of the points from `start` on, shape (4, length)."""
        return self._points[: len(ROWS), start : self._length]

    def packed(self, start: int = 0) -> bytes:
        """Return the points from `start` on as little-endian float32, row after row."""
        return self.points(start).astype("<f4").tobytes()

    def _due(self, time: float) -> bool:
        spaced = self._length < FREE or time - self._closed >= SPACING
        return spaced and len(self._open) >= self._stride

    def _thin_out(self) -> None:
        """Merge each point with the next one."""
        half = self._length // 2
        self._points[:, :half] = merged(self._points.reshape(_FINITE + 1, half, 2))
        self._length = half
        self._stride = math.ceil(self._values / half)
        self.generation += 1


def thinned(points: npt.NDArray[np.float64], limit: int) -> npt.NDArray[np.float64]:
    """Merge neighbors until few enough points are left; the last one stays as it is.

    Parameters
    ----------
    points : ndarray, shape (4, n), float64
        Columns of `ROWS`.
    limit : int
        Points at most, 2 or more.

    Returns
    -------
    ndarray, shape (4, m), float64, with m <= `limit`
    """
    count = points.shape[1]
    if count <= limit:
        return points
    group = -(-count // (limit - 1))
    whole = count // group
    parts = np.ones((_FINITE + 1, whole, group))
    parts[: len(ROWS)] = points[:, : whole * group].reshape(len(ROWS), whole, group)
    parts[_FINITE] = np.isfinite(parts[3])
    # The end is what a reader looks for.
    return np.hstack([merged(parts)[: len(ROWS)], points[:, -1:]])


def merged(parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Merge neighbors: columns of `ROWS`, weight, finite weight.

    Parameters
    ----------
    parts : ndarray, shape (6, points, neighbors)

    Returns
    -------
    ndarray, shape (6, points)
    """
    weight = parts[_WEIGHT].sum(axis=1)
    finite = parts[_FINITE].sum(axis=1)
    axes = (parts[:3] * parts[_WEIGHT]).sum(axis=2) / weight
    # 0 * NaN is NaN, so what does not count is taken out first.
    known = np.where(parts[_FINITE] > 0, parts[3], 0.0)
    total = (known * parts[_FINITE]).sum(axis=1)
    value = np.divide(total, finite, out=np.full_like(total, math.nan), where=finite > 0)
    return np.vstack([axes, value, weight, finite])
