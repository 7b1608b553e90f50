"""Loss and metrics over rows that lie in Spark, measured where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cluster.executors import active_context, task_cores
from ..cluster.gpus import claim_gpus
from ..cluster.storage import fetch
from ..data.blocks import Columns
from ..data.feeds import check_columns
from ..data.rdd import is_rdd
from ..data.source import as_source
from ..data.stream import StreamSource
from ..errors import ConnectError, DataError
from ..params import Array
from .publish import publish

if TYPE_CHECKING:
    from ..program.base import Program


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures the blocks of a partition, inside a Spark task.

    Parameters
    ----------
    name : str
        Of the published archive.
    cores : int
        Of one task.
    batch_size : int
    """

    name: str
    cores: int
    batch_size: int

    def __call__(self, blocks: Iterable[Columns]) -> Iterator[list[Array]]:
        """Yield the sums over its rows, if there are any."""
        from ..program.measure import Measure
        from ..program.runner import configure_threads

        claim_gpus()
        configure_threads(self.cores)
        found = Measure(fetch(self.name))(blocks, self.batch_size)
        if found is not None:
            yield found


def evaluate(program: Program, data: Any, batch_size: int) -> Mapping[str, float]:
    """Evaluate on the executors; see `Program.evaluate`."""
    sc = data.context if is_rdd(data) else active_context()
    if sc is None:
        raise ConnectError("There is no Spark to evaluate on: call tos.connect() first.")
    source = as_source(sc, data, sc.defaultParallelism, program.feeds)
    if isinstance(source, StreamSource):
        raise DataError(
            "evaluate: expected rows, got a function that returns datasets, which is for training "
            "only. Give arrays, an RDD or columns of a DataFrame."
        )
    check_columns(source.columns, program.feeds)
    with TemporaryDirectory(prefix="tos-evaluate-") as folder:
        archive = Path(folder, "measure.zip")
        program.pack_measure(source.columns, archive)
        name = publish(sc, archive)
    task = Measured(name, task_cores(sc), batch_size)
    try:
        parts = source.tasks(sc).mapPartitions(task).collect()
    finally:
        source.close()
    if not parts:
        raise DataError("evaluate: there are no rows.")
    return program.measured(_summed(parts))


def _summed(parts: Sequence[Sequence[Array]]) -> list[Array]:
    # In the order of the partitions, so that the result is the same each time.
    wide = ([np.asarray(array, np.float64) for array in part] for part in parts)
    return [np.sum(arrays, axis=0) for arrays in zip(*wide, strict=True)]
