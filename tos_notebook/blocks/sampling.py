"""Which rows of a partition, or which partitions, an epoch trains on, where they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .jvm_samples import jvm_sample

SAMPLERS = ("own", "mllib")
"""Who draws: this package, or Spark's JVM, whose samples are drawn again."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Takes each row of a partition with the same probability, again in each epoch.

    Parameters
    ----------
    fraction : float
        The probability, above 0, at most 1.
    kind : {"own", "mllib"}
        ``"mllib"`` draws what ``rdd.sample(False, fraction, seed + epoch + 1)`` draws in Spark's
        JVM, as MLlib's `GradientDescent` calls it.
    seed : int
        At least 0.
    """

    fraction: float = 1.0
    kind: str = "own"
    seed: int = 42

    @property
    def whole(self) -> bool:
        """Whether it takes all rows."""
        return self.fraction == 1

    def draw(self, rows: int, epoch: int, partition: int) -> npt.NDArray[np.int64]:
        """Return which rows are in a sample, in their order; a pure function.

        Parameters
        ----------
        rows : int
            Rows in the partition.
        epoch, partition : int
            From 0.

        Returns
        -------
        ndarray, int64
            Perhaps of no row.
        """
        if self.whole:
            return np.arange(rows, dtype=np.int64)
        if self.kind == "mllib":
            return jvm_sample(rows, self.fraction, self.seed + epoch + 1, partition)
        bits = np.random.PCG64(np.random.SeedSequence((self.seed, epoch, partition)))
        return np.flatnonzero(np.random.Generator(bits).random(rows) < self.fraction)


@dataclass(frozen=True, slots=True)
class Participants:
    """Chooses the partitions that train in an epoch: as many each time, drawn again for each.

    Parameters
    ----------
    fraction : float
        How many of them, above 0, at most 1; at least one partition trains.
    partitions : int
        At least 1.
    seed : int
        At least 0.
    """

    fraction: float
    partitions: int
    seed: int = 0

    @property
    def count(self) -> int:
        """How many train in an epoch."""
        return max(1, round(self.fraction * self.partitions))

    def train(self, epoch: int, partition: int) -> bool:
        """Return whether a partition trains in an epoch, both from 0; a pure function."""
        bits = np.random.PCG64(np.random.SeedSequence((self.seed, epoch)))
        drawn = np.random.Generator(bits).permutation(self.partitions)[: self.count]
        return partition in drawn
