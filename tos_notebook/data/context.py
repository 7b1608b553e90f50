"""What a function of the user's is told when it makes a partition's dataset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DatasetContext:
    """Which part of the data a dataset is to have.

    Parameters
    ----------
    partition : int
        From 0.
    partitions : int
        How many there are.
    epoch : int
        From 0.
    seed : int
        The run's.
    """

    partition: int
    partitions: int
    epoch: int
    seed: int


Make = Callable[[DatasetContext], Any]
"""Returns a `tf.data.Dataset` of records."""
