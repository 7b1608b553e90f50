"""Loss and metrics over rows that lie in Spark, measured where they are."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..blocks.block import Columns, ColumnSpec
from ..blocks.feeds import Feed, check_columns
from ..cluster.executors import active_context, task_cores
from ..cluster.gpus import claim_gpus
from ..cluster.jobs import spoken
from ..common import temporary
from ..common.arrays import Array
from ..common.checks import at_least_one
from ..data.rdd import is_rdd
from ..data.source import as_rows, require_rows
from ..errors import ConnectError, DataError
from .servable import HeldRows, Rows, finder, publish_rows

logger = logging.getLogger(__name__)


def _measured(
    archive: Any, rows: Rows, cores: int, batch_size: int, blocks: Iterable[Columns]
) -> Iterator[list[Array]]:
    """Yield the sums over the rows of a partition, inside a Spark task, if there are any.

    The archive is a broadcast of what was packed; the rows are those of served tables.
    """
    from ..runtime.runner import configure_threads
    from ..runtime.served import Measure

    claim_gpus()
    configure_threads(cores)
    with temporary.directory("tos-measure-") as folder:
        path = Path(folder, "measure.zip")
        path.write_bytes(archive.value)
        measure = Measure(path, finder(rows, path))
    found = measure(blocks, batch_size)
    if found is not None:
        yield found


class Evaluable(Protocol):
    """What is evaluated: a program, or one that a run holds; see `Program`."""

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """What each row is made of."""

    @property
    def served(self) -> HeldRows | None:
        """See `Servable.served`."""

    def pack_measure(self, columns: Sequence[ColumnSpec], target: Path) -> None:
        """Pack what measures rows; see `tos_notebook.program.export.serving.pack_measure`.

        Parameters
        ----------
        columns : sequence of ColumnSpec
            One for each feed.
        target : Path
            The archive to write.
        """

    def measured(self, sums: Sequence[Array]) -> Mapping[str, float]:
        """Return loss and metrics of the sums over all rows.

        Parameters
        ----------
        sums : sequence of ndarray, float64
            Of each variable of the state that `pack_measure` packed.

        Returns
        -------
        mapping of str to float
            By name.
        """


def evaluate(model: Evaluable, data: Any, batch_size: int) -> Mapping[str, float]:
    """Evaluate on the executors; see `Program.evaluate`."""
    at_least_one("batch_size", batch_size)
    require_rows(data, "evaluate")
    sc = data.context if is_rdd(data) else active_context()
    if sc is None:
        raise ConnectError("Spark is needed to evaluate these rows: call tos.connect() first.")
    with spoken():
        source = as_rows(sc, data, sc.defaultParallelism, model.feeds, use="evaluate")
    check_columns(source.columns, model.feeds)
    with temporary.directory("tos-evaluate-") as folder:
        archive = Path(folder, "measure.zip")
        model.pack_measure(source.columns, archive)
        shared = sc.broadcast(archive.read_bytes())
    rows = publish_rows(sc, model.served)
    task = partial(_measured, shared, rows, task_cores(sc), batch_size)
    try:
        with spoken():
            parts = source.tasks(sc).mapPartitions(task).collect()
        source.check_skipped()
        skipped = sum(left_out.rows for left_out in source.skipped)
    finally:
        shared.destroy()
        # Who gives a source evaluates with it again.
        if source is not data:
            source.close()
    if skipped:
        logger.warning("evaluate: %d bad rows were left out.", skipped)
    if not parts:
        raise DataError("evaluate: expected at least one row, got none.")
    # In the order of the partitions, so that the result is the same each time.
    wide = ([np.asarray(array, np.float64) for array in part] for part in parts)
    return model.measured([np.sum(arrays, axis=0) for arrays in zip(*wide, strict=True)])
