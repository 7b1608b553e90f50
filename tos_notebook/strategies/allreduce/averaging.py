"""The weighted mean of parameters or gradients over the workers of a mesh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from ...combiners.arithmetic import wide_dtype
from ...common.arrays import Array
from ...reduction.mesh import Mesh
from ...reduction.reducer import Reducer
from ...reduction.schedules import Schedule

NOTHING = 1e-30
"""The weight of a worker that has rows, and nothing to add: no sum of rows is changed by it."""


def signed(vectors: Sequence[Array]) -> list[Array]:
    """Return views in which differences of unsigned integers have their sign."""
    return [v.view(f"i{v.itemsize}") if v.dtype.kind == "u" else v for v in vectors]


def _wide(vector: Array, sums: bool) -> Array:
    """Return what to reduce for a vector: itself, or what holds sums of its values."""
    means = vector.dtype.kind == "f" and not sums
    dtype = vector.dtype if means else wide_dtype(vector.dtype)
    return vector if dtype == vector.dtype else np.empty(vector.size, dtype)


class Averager:
    """Replaces vectors by their means over all ranks, and counts what that takes.

    Parameters
    ----------
    mesh : Mesh
        Formed.
    schedule : Schedule
    vectors : sequence of ndarray
        Replaced in place. Of integers, the mean is rounded.
    reducers : sequence of Reducer, optional
        What averages each of them; by default what sends them as they are.

    Attributes
    ----------
    to : mapping of int
        Bytes to each other rank, since `clear`.
    received : int
        Bytes from all of them.
    seconds, waited : float
        That it has taken, and of those the seconds in which it waited for others.
    """

    def __init__(
        self,
        mesh: Mesh,
        schedule: Schedule,
        vectors: Sequence[Array],
        reducers: Sequence[Reducer] | None = None,
    ) -> None:
        self._vectors = vectors
        # Each keeps the plan for its vector.
        self._reducers = reducers or [Reducer(mesh, schedule) for _ in vectors]
        pairs = zip(vectors, self._reducers, strict=True)
        self._wide = [_wide(vector, reducer.sums) for vector, reducer in pairs]
        self._agreeing = Reducer(mesh, schedule)
        self.clear()

    def clear(self) -> None:
        """Begin to count."""
        self.to: Counter[int] = Counter()
        self.received = 0
        self.seconds = self.waited = 0.0

    def average(self, weight: float) -> float:
        """Make the means; return the sum of the weights, infinity where a mean is NaN.

        Parameters
        ----------
        weight : float
            Rows. Of weight 0, this worker's vectors count for nothing.
        """
        began, total = perf_counter(), 0.0
        for reducer, vector, wide in zip(self._reducers, self._vectors, self._wide, strict=True):
            if wide is not vector:
                wide[...] = vector
            total = max(total, self._reduce(reducer, wide, weight))
            if vector.dtype.kind != "f":
                np.rint(wide, out=wide)
            if wide is not vector:
                vector[...] = wide
        self.seconds += perf_counter() - began
        return total

    def agree(self, numbers: Array) -> None:
        """Replace some numbers by their means over all ranks.

        Parameters
        ----------
        numbers : ndarray, shape (n,), float64
        """
        self._reduce(self._agreeing, numbers, 1.0)

    def _reduce(self, reducer: Reducer, vector: Array, weight: float) -> float:
        traffic = reducer.reduce(vector, weight)
        for rank, nbytes in traffic.sent.items():
            self.to[rank] += nbytes
        self.received += sum(traffic.received.values())
        self.waited += traffic.waited
        return traffic.weight
