"""Quantiles of the numbers in blocks, as Spark finds them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from pyspark.sql import functions

from ...blocks.block import BLOCK_ROWS, Columns
from ...blocks.sparse import at_once, dense_batches


def quantiles(spark: Any, blocks: Any, shares: Sequence[float], error: float) -> list[float]:
    """Return the values below which given shares of all numbers lie; none for no number.

    Parameters
    ----------
    spark : SparkSession
    blocks : RDD of tuple of ndarray
        Of one column, of numbers.
    shares : sequence of float
    error : float
        By how much a share may be missed.
    """
    lists = spark.createDataFrame(
        blocks.mapPartitions(_lists), "numbers array<double>", verifySchema=False
    )
    numbers = lists.select(functions.explode("numbers").alias("number"))
    return [float(boundary) for boundary in numbers.approxQuantile("number", [*shares], error)]


def _lists(blocks: Iterable[Columns]) -> Iterator[tuple[Any]]:
    """Yield all numbers of a partition in pieces that are small where Spark makes objects of them.

    Spark takes an array of Python at a fraction of what its numbers would cost one by one.
    """
    for block in blocks:
        for (values,) in dense_batches(block, at_once(block, BLOCK_ROWS)):
            flat = np.asarray(values, np.float64).reshape(-1)
            for first in range(0, len(flat), BLOCK_ROWS):
                yield (array("d", flat[first : first + BLOCK_ROWS].tobytes()),)
