"""What becomes of rows before a run: they are dealt out at random, and computed once."""

from __future__ import annotations

import logging
from typing import Any

from ..blocks.source import DataSource
from ..cluster.calls import within
from ..cluster.executors import stored_limit
from ..errors import ConfigError
from .rdd import RddSource

logger = logging.getLogger(__name__)

RELEASE_TIMEOUT = 30.0
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
        where Spark may not store so many rows.

    Raises
    ------
    ConfigError
        Spark may not store so many rows, so that there cannot be other partitions.
    """
    count = partitions or source.partitions
    if count == source.partitions == 1:
        return source
    if _is_storable(sc, source):
        return source.dealt(count, seed)
    return undealt(
        source,
        partitions,
        "are larger than spark.tos.data.limit, so that they are not dealt, and",
        "Raise the limit: tos.connect(config={'spark.tos.data.limit': '200g'}).",
    )


def undealt(
    source: DataSource,
    partitions: int | None,
    why: str = "are not dealt, and",
    remedy: str = "Train with shuffle=True, which deals them.",
) -> DataSource:
    """Return the source, whose rows stay in the partitions that they come in.

    Parameters
    ----------
    source : DataSource
    partitions : int or None
        How many the user asked for.
    why, remedy : str
        For the error: why the rows stay there, and what else to do about it.

    Raises
    ------
    ConfigError
        The user asked for another number.
    """
    if partitions in (None, source.partitions):
        return source
    raise ConfigError(
        f"partitions={partitions}: the rows {why} stay in the {source.partitions} partitions that "
        f"they come in. Repartition them yourself, such as by df.repartition({partitions}); or "
        f"leave partitions= out. {remedy}"
    )


EPOCHS = "in every job, and in each epoch that has its own job"
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


def release(
    source: DataSource, what: str = "data of the run", timeout: float = RELEASE_TIMEOUT
) -> tuple[str, ...]:
    """Let Spark drop what it has stored; what goes wrong costs memory there, and is a note."""
    try:
        within(timeout, source.close, f"Spark to release the {what}")
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
