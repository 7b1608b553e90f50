"""Data that each worker makes for itself: a function that returns a `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..blocks.block import Columns, ColumnSpec
from ..blocks.naming import Field
from ..blocks.partitioners import AnyPartitioner, LabelPartitioner
from ..blocks.source import DataSource
from ..cluster.executors import task_cores
from ..cluster.gpus import claim_gpus
from ..common.content import Beginning, Hash
from ..errors import ConfigError
from .described import DatasetContext, Make


@dataclass(frozen=True, slots=True)
class Stream:
    """One partition of a `StreamSource`, in place of its rows.

    Parameters
    ----------
    make : callable
    partition, partitions : int
    columns : tuple of ColumnSpec
        What each of its datasets must yield.
    order : tuple of int
        The place of each column among a record's tensors, as TensorFlow flattens them.
    """

    make: Make
    partition: int
    partitions: int
    columns: tuple[ColumnSpec, ...]
    order: tuple[int, ...]

    def batches(self, epoch: int, seed: int, batch_size: int) -> Iterator[Columns]:
        """Yield the batches of an epoch; the last one may be smaller."""
        from .tf_data import batches

        context = DatasetContext(self.partition, self.partitions, epoch, seed)
        return batches(self.make, context, self.columns, self.order, batch_size)


class StreamSource(DataSource):
    """A function that each worker calls, at the start of every epoch, for its rows.

    Parameters
    ----------
    make : callable
        Takes a `DatasetContext`, returns a `tf.data.Dataset`. It must be a pure function: a retried
        task calls it again, and skips as many batches as are committed. Called once here, in the
        driver, to see what it yields.
    partitions : int
    feeds : sequence of Field
        The program's, by whose names a record's dictionaries go.

    Raises
    ------
    DataError
        What it returns is not a dataset, has no end, or yields no numbers of a known shape.
    ShapeMismatch
        A record's dictionary has other keys than the names of what it is fed to.
    """

    remedy = (
        "The function must return the same records for the same ctx: sort the files that it "
        "lists, and give a seed to what shuffles or draws at random."
    )

    def __init__(self, make: Make, partitions: int, feeds: Sequence[Field] = ()) -> None:
        from .tf_data import columns_of

        self._make = make
        self._feeds = feeds
        self.partitions = partitions
        self.samples: int | None = None
        self.columns, self._order = columns_of(make, DatasetContext(0, partitions, 0, 0), feeds)

    def repartition(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> StreamSource:
        """Return the same function for another number of partitions; see `DataSource`.

        Raises
        ------
        ConfigError
            The partitioner goes by labels: which rows are whose is up to the function.
        """
        if isinstance(partitioner, LabelPartitioner):
            raise ConfigError(
                f"{partitioner!r}: a function that returns datasets decides itself which rows are "
                "whose, by ctx.partition and ctx.partitions. Leave the partitioner out."
            )
        return StreamSource(self._make, partitions, self._feeds)

    def dealt(self, partitions: int, seed: int) -> StreamSource:
        """Return itself: which rows are whose is up to the function."""
        return self

    def tasks(self, sc: Any) -> Any:
        """Return an RDD of `partitions` partitions, each of one `Stream`."""
        streams = [self._stream(partition, self.partitions) for partition in range(self.partitions)]
        return sc.parallelize(range(self.partitions), self.partitions).map(streams.__getitem__)

    def _stream(self, partition: int, partitions: int) -> Stream:
        return Stream(self._make, partition, partitions, self.columns, self._order)

    def digests(
        self, sc: Any, places: Sequence[Beginning], seed: int, batch_size: int
    ) -> list[str]:
        """Let the executors make the rows of some pushes again, and return their digests.

        Parameters
        ----------
        sc : SparkContext
        places : sequence of Beginning
        seed, batch_size : int
            The run's.
        """
        streams = [self._stream(place.partition, place.partitions) for place in places]
        cores = task_cores(sc)

        def again(number: int) -> str:
            # This process may train later.
            claim_gpus()
            from ..runtime.runner import configure_threads

            configure_threads(cores)
            place, hashed = places[number], Hash()
            batches = streams[number].batches(place.epoch, seed, batch_size)
            for batch in islice(batches, place.steps):
                hashed.update(batch)
            return hashed.content.digest

        found: list[str] = sc.parallelize(range(len(places)), len(places)).map(again).collect()
        return found

    def __repr__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        return f"StreamSource([{columns}], {self.partitions} partitions)"
