"""Rows that the driver holds, as a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..blocks.block import NUMERIC
from ..blocks.feeds import Feed, check_values
from ..blocks.source import DataSource
from ..common.arrays import is_text
from .arrays import ArraySource, checked_arrays
from .rdd import RddSource


def held(sc: Any, arrays: Sequence[Any], partitions: int, feeds: Sequence[Feed]) -> DataSource:
    """Return a source of arrays; Spark brings text to the workers, the driver serves numbers.

    Parameters
    ----------
    sc : SparkContext
    arrays : sequence of array_like
        One for each feed.
    partitions : int
    feeds : sequence of Feed

    Raises
    ------
    DataError, ShapeMismatch
        See `ArraySource`; or the program cannot take a value.
    """
    if any(is_text(np.asarray(array)) for array in arrays):
        return RddSource.of_arrays(sc, checked_arrays(arrays, NUMERIC + "O"), partitions)
    source = ArraySource(arrays, partitions)
    if len(source.columns) == len(feeds):
        check_values(source.arrays, feeds, "Row")
    return source
