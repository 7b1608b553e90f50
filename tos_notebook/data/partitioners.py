"""Partitioners: which partition each row goes to when the data is laid out anew."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tos_notebook.errors import ConfigError

_MASK = 0xFFFFFFFFFFFFFFFF
_GAMMA = 0x9E3779B97F4A7C15


def mix64(word: Any) -> Any:
    """Return the splitmix64 hash of an integer, or of each in an array.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

    Parameters
    ----------
    word : int in 0..2**64-1, or ndarray of uint64

    Returns
    -------
    int or ndarray of uint64, as `word`
    """
    word = (word + _GAMMA) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def mix_key(*words: int) -> int:
    """Return one 64-bit hash of several integers; their order counts."""
    key = 0
    for word in words:
        key = int(mix64(key ^ (word & _MASK)))
    return key


@runtime_checkable
class Partitioner(Protocol):
    """Decides where rows go. A pure function: a recomputed partition is the same partition."""

    def assign(self, rows: int, epoch: int, partition: int) -> npt.NDArray[np.integer[Any]]:
        """Return the target partition of each row of one source partition.

        Parameters
        ----------
        rows : int
            Rows in the source partition.
        epoch : int
            The epoch the new layout is for.
        partition : int
            The source partition.

        Returns
        -------
        ndarray, shape (rows,), any integer dtype
        """


class RandomPartitioner:
    """Sends each row to a random partition, by a hash of its place in the data.

    Parameters
    ----------
    num_partitions : int
        Number of target partitions, at least 1.
    seed : int
        Another seed gives another layout.

    Raises
    ------
    ConfigError
        `num_partitions` is below 1.
    """

    def __init__(self, num_partitions: int, seed: int = 0) -> None:
        if num_partitions < 1:
            raise ConfigError(f"num_partitions: expected at least 1, got {num_partitions}.")
        self.num_partitions = num_partitions
        self.seed = seed

    def assign(self, rows: int, epoch: int, partition: int) -> npt.NDArray[np.int64]:
        """Return the target partition of each row; see `Partitioner.assign`."""
        key = mix_key(self.seed, epoch, partition)
        hashes: npt.NDArray[np.uint64] = mix64(np.arange(rows, dtype=np.uint64) ^ np.uint64(key))
        return (hashes % np.uint64(self.num_partitions)).astype(np.int64)

    def __repr__(self) -> str:
        return f"RandomPartitioner({self.num_partitions}, seed={self.seed})"


def checked_assignment(
    partitioner: Partitioner, rows: int, epoch: int, partition: int, partitions: int
) -> npt.NDArray[np.integer[Any]]:
    """Ask a partitioner for its targets and check them.

    Parameters
    ----------
    rows, epoch, partition
        As in `Partitioner.assign`.
    partitions : int
        Number of target partitions.

    Raises
    ------
    ConfigError
        The partitioner returned another shape, no integers, or a partition out of range.
    """
    targets = np.asarray(partitioner.assign(rows, epoch, partition))
    if targets.shape != (rows,) or targets.dtype.kind not in "iu":
        raise ConfigError(
            f"{partitioner!r}: expected integers of shape ({rows},), "
            f"got {targets.dtype} of shape {targets.shape}."
        )
    if rows and (targets.min() < 0 or targets.max() >= partitions):
        raise ConfigError(
            f"{partitioner!r}: expected target partitions in 0..{partitions - 1}, "
            f"got {targets.min()}..{targets.max()}."
        )
    return targets
