"""What becomes of rows before a run: they are dealt out at random, and computed once."""

from __future__ import annotations

import logging
from typing import Any

from tos_notebook.cluster.executors import stored_limit

from .rdd import RddSource
from .source import DataSource

logger = logging.getLogger(__name__)


def deal(sc: Any, source: DataSource, partitions: int | None, seed: int) -> DataSource:
    """Return the rows dealt out at random, so that every partition has the same mix of them.

    Without it a partition of data sorted by label would hold few labels, and its worker would
    learn those alone.

    Parameters
    ----------
    sc : SparkContext
    source : DataSource
        As the rows come.
    partitions : int or None
        How many there are to be; None for as many as there are.
    seed : int
        Another seed gives another layout.

    Returns
    -------
    DataSource
        The source itself where one partition is to stay one, where the data deal themselves, or
        where Spark may not store so many rows and nobody asked for other partitions.
    """
    count = partitions or source.partitions
    if count == source.partitions and (count == 1 or not _is_storable(sc, source)):
        return source
    return source.dealt(count, seed)


def keep(sc: Any, source: DataSource) -> tuple[str, ...]:
    """Let Spark keep the rows for several jobs; say so if they are more than it may store."""
    if _is_storable(sc, source):
        source.persist()
        return ()
    note = (
        "The data are larger than spark.tos.data.limit, so Spark computes the rows again in every "
        "job, and in each epoch that has a job of its own. Raise the limit, or cache the data."
    )
    logger.warning("%r: %s", source, note)
    return (note,)


def _is_storable(sc: Any, source: DataSource) -> bool:
    if not isinstance(source, RddSource):
        return True
    limit = stored_limit(sc)
    return limit > 0 if source.nbytes is None else source.nbytes <= limit
