"""The rows of a DataFrame as Arrow batches, and how many bytes they are."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pyspark.sql import types

from ...cluster.remote.context import RemoteContext, is_remote
from ...cluster.remote.rows import RemoteRows
from ...common.arrays import STRING
from ..arrow import BATCH_BYTES
from ..arrow_rows import ArrowColumn
from .kinds import dtype_of

TEXT_BYTES = 20
"""What Spark, too, takes text for."""

UNKNOWN = 2**62
"""Spark estimates more than so many bytes where it does not know."""

ENCODED_BYTES = 1 << 18
"""What a column of bytes of unknown lengths is taken for: an encoded image, a document."""

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Spark's setting: rows of a batch, at most; 0 and less for any number of them."""

_setting = threading.Lock()


def nbytes(field: Any, column: ArrowColumn) -> int:
    """Return how many bytes a row of a column has in Arrow, at most."""
    if column.image:
        # Both are in memory while the batch is decoded.
        return ENCODED_BYTES + column.nbytes
    if column.spec.dtype == STRING and isinstance(field.dataType, types.BinaryType):
        return ENCODED_BYTES
    # Of a vector, as if it were dense.
    dtype = dtype_of(field.dataType) or "float64"
    width = TEXT_BYTES if dtype == STRING else np.dtype(dtype).itemsize
    return math.prod(column.lengths) * width


def arrow_batches(frame: Any, sc: Any, row_bytes: int) -> Any:
    """Return a DataFrame's partitions as Arrow record batches, each one message.

    It is what Spark's own `toArrow` collects. `mapInArrow` would take the rows through one more
    Python process on their way to the one that trains, at three times the cost. With Spark Connect
    there is no other way, and they are no messages.
    """
    if isinstance(sc, RemoteContext):
        return RemoteRows(sc, frame)
    from pyspark.core.rdd import RDD
    from pyspark.serializers import NoOpSerializer

    with _at_most(frame.sparkSession, max(1, BATCH_BYTES // max(1, row_bytes))):
        batches = frame._jdf.toArrowBatchRdd().toJavaRDD()
    return RDD(batches, sc, NoOpSerializer())


@contextmanager
def _at_most(spark: Any, rows: int) -> Iterator[None]:
    """Let Arrow batches that are described meanwhile have no more rows than these."""
    with _setting:
        known = spark.conf.get(BATCH_ROWS)
        if 0 < int(known) <= rows:
            yield
            return
        spark.conf.set(BATCH_ROWS, str(rows))
        try:
            yield
        finally:
            spark.conf.set(BATCH_ROWS, known)


def is_persisted(frame: Any) -> bool:
    """Tell whether Spark keeps a DataFrame's rows once they are computed."""
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk)


def estimated_bytes(frame: Any) -> int | None:
    """Return what Spark takes a DataFrame's size for; None where it does not know."""
    if is_remote(frame):
        return None
    plan = frame._jdf.queryExecution().optimizedPlan()
    leaves = plan.collectLeaves()
    read = sum(_bytes_of(leaves.apply(index)) for index in range(leaves.size()))
    # A join counts as the product of both sides, a projection as its share of the columns.
    found = min(read, _bytes_of(plan))
    return found if found < UNKNOWN else None


def _bytes_of(plan: Any) -> int:
    return int(plan.stats().sizeInBytes())
