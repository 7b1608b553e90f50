"""What becomes of rows before a run: they are dealt out at random, and computed once."""

from __future__ import annotations

import logging
from typing import Any

from tos_notebook.cluster.calls import within
from tos_notebook.cluster.executors import stored_limit

from .rdd import RddSource
from .source import DataSource

logger = logging.getLogger(__name__)

CLOSE = 30.0
"""Seconds that the end of a run waits for Spark to drop the rows."""


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


EPOCHS = "in every job, and in each epoch that has a job of its own"
"""When Spark computes the rows that are trained on again."""


def keep(sc: Any, source: DataSource, what: str = "data", when: str = EPOCHS) -> tuple[str, ...]:
    """Let Spark keep the rows for several jobs; say so if they are more than it may store.

    Parameters
    ----------
    sc : SparkContext
    source : DataSource
    what, when : str
        For the note: what the rows are, and when Spark computes them again.

    Returns
    -------
    tuple of str
        The note, if Spark may not store them.
    """
    if _is_storable(sc, source):
        source.persist()
        return ()
    note = (
        f"The {what} are larger than spark.tos.data.limit, so Spark computes the rows again "
        f"{when}. Raise the limit, or cache the data."
    )
    logger.warning("%r: %s", source, note)
    return (note,)


def release(source: DataSource, what: str = "data of the run") -> tuple[str, ...]:
    """Let Spark drop what it has stored; what goes wrong costs memory there, and is a note."""
    try:
        within(CLOSE, source.close, f"Spark to release the {what}")
    except Exception as error:
        reason = str(error).partition("\n")[0]
        note = f"Spark has not released the {what}: {reason}"
        logger.warning("%r: %s", source, note)
        return (note,)
    return ()


def _is_storable(sc: Any, source: DataSource) -> bool:
    if not isinstance(source, RddSource):
        return True
    limit = stored_limit(sc)
    return limit > 0 if source.nbytes is None else source.nbytes <= limit
