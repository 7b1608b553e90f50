"""A `tf.data.Dataset` object as data: where it runs, and as what its rows are fed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from ..blocks.block import BLOCK_ROWS, Columns, ColumnSpec, concatenate
from ..blocks.feeds import Feed
from ..blocks.naming import Field
from ..blocks.source import DataSource
from ..common.arrays import nbytes_of
from ..errors import DataError
from ..runtime.eager import eagerly
from .dataset_end import require_end
from .described import DatasetContext
from .held import held
from .room import require_room
from .stream import StreamSource

LIMIT = 1 << 31
"""Bytes of a dataset's rows that the driver holds, at most."""

FUNCTION = (
    "Give a function instead, def data(ctx): return ..., which makes the dataset of one partition "
    "on the executors."
)


class GraphDataset:
    """What makes a partition's share of a dataset, of a graph; see `Make`.

    It has the rows whose number, modulo that of the partitions, is the partition's. What draws at
    random draws the same on all executors, and another thing in each epoch.

    Parameters
    ----------
    graph : bytes
        Serialised.
    spec : object
        The element specification.
    batched : bool
        Whether its elements are batches, which are taken apart.
    """

    def __init__(self, graph: bytes, spec: Any, batched: bool) -> None:
        # A task that is sent must not import TensorFlow before it has its GPU.
        self._graph, self._spec, self._batched = graph, pickle.dumps(spec), batched

    def __call__(self, context: DatasetContext) -> Any:
        """Return the dataset."""
        from .dataset_graph import read

        return read(self._graph, pickle.loads(self._spec), self._batched, context)


def is_dataset(value: Any) -> bool:
    """Whether a value is a `tf.data.Dataset`."""
    # Compared by name: an import of TensorFlow takes a while.
    return any(
        kind.__name__ == "DatasetV2" and kind.__module__.startswith("tensorflow.python.data.")
        for kind in type(value).__mro__
    )


def dataset_source(sc: Any, dataset: Any, partitions: int, feeds: Sequence[Feed]) -> DataSource:
    """Return a dataset as a source: on executors if they can run it, else of rows read here.

    Parameters
    ----------
    sc : SparkContext
    dataset : tf.data.Dataset
        With an end. Batches are taken apart.
    partitions : int
    feeds : sequence of Feed

    Raises
    ------
    DataError
        It has no end, yields no numbers or text of known shapes, or too many rows to be read here.
    ShapeMismatch
        A dictionary has other keys than the names of what it is fed to.
    """
    from .dataset_graph import fitted, is_batched, written

    require_end(dataset)
    batched = is_batched(dataset, feeds)
    dataset = fitted(dataset, batched, feeds)
    graph, reason = written(dataset, batched)
    apart = " Its batches are taken apart: batch_size says how many rows a step takes."
    if reason:
        arrays = rows_of(dataset, feeds, reason)
        source: DataSource = held(sc, arrays, partitions, feeds)
        where = f"The driver has read the dataset's {len(arrays[0])} rows once, since {reason}."
    else:
        made = GraphDataset(graph, dataset.element_spec, batched)
        source = StreamSource(made, partitions, feeds)
        where = (
            "Each executor runs the dataset, and takes its share of the rows; files are read there."
        )
    source.notes = (where + (apart if batched else ""),)
    return source


def columns_of(dataset: Any, feeds: Sequence[Field]) -> tuple[ColumnSpec, ...]:
    """Return what the rows of a dataset are made of, without reading any; see `dataset_source`."""
    columns: tuple[ColumnSpec, ...] = _described(dataset, feeds)[2][0]
    return columns


def _described(dataset: Any, feeds: Sequence[Field]) -> tuple[Any, bool, Any]:
    """Return a dataset that fits feeds, whether it is batched, and its columns in their order."""
    from .dataset_graph import fitted, is_batched, row_spec
    from .tf_data import columns_in

    require_end(dataset)
    batched = is_batched(dataset, feeds)
    dataset = fitted(dataset, batched, feeds)
    return dataset, batched, columns_in(row_spec(dataset, batched), feeds)


def inputs_of(dataset: Any, inputs: Sequence[Field]) -> Columns:
    """Return what a model predicts from; the labels of a dataset are left out.

    Parameters
    ----------
    dataset : tf.data.Dataset
    inputs : sequence of Field
        The model's.
    """
    spec = dataset.element_spec
    if isinstance(spec, tuple):
        together = len(inputs) == 1 or isinstance(spec[0], dict | tuple)
        parts = 1 if together else len(inputs)
        with eagerly():
            dataset = dataset.map(lambda *record: record[0] if parts == 1 else record[:parts])
    return rows_of(dataset, inputs)


def rows_of(dataset: Any, feeds: Sequence[Field], why: str = "they are looked at here") -> Columns:
    """Return all rows of a dataset, read in this process, as arrays.

    Parameters
    ----------
    dataset, feeds
        As for `dataset_source`, which says what is raised, too.
    why : str
        Why they are read here, for messages.
    """
    from .dataset_graph import batches_here

    dataset, batched, (_, order) = _described(dataset, feeds)
    blocks: list[Columns] = []
    size = 0

    def add(block: Columns) -> None:
        nonlocal size
        blocks.append(block)
        size += sum(map(nbytes_of, block))
        read = sum(len(one[0]) for one in blocks) if size > LIMIT else 0
        if read:
            raise DataError(
                f"The dataset's first {read:,} rows take more than {LIMIT / 2**30:g} GiB. They are "
                f"read into the driver, since {why}. {FUNCTION}"
            )

    batches_here(dataset, order, batched, BLOCK_ROWS, add)
    if not blocks:
        raise DataError("Expected a dataset with at least one row, got none.")
    require_room(size, "The dataset's rows take", FUNCTION)
    return concatenate(blocks)
