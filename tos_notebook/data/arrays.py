"""A source over numpy arrays in the driver."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..blocks.block import NUMERIC, Columns, describe
from ..blocks.labels import Deal, check_partitioner, count_labels, labels_of
from ..blocks.partitioners import (
    AnyPartitioner,
    LabelPartitioner,
    RandomPartitioner,
    checked_assignment,
)
from ..blocks.source import SPLIT, DataSource
from ..errors import ConfigError, DataError, ShapeMismatch
from ..readable import counted


class ArraySource(DataSource):
    """Numpy arrays, one for each feed, whose rows the driver serves to the workers.

    Until they are `dealt`, each partition is a contiguous part of the arrays, as even as can be.

    Parameters
    ----------
    arrays : sequence of array_like, shape (rows, ...)
        Held, not copied.
    partitions : int
        At least 1; more than rows leaves some empty.

    Raises
    ------
    ConfigError
        `partitions` is below 1.
    DataError
        No array, no rows, or a dtype that is not numeric.
    ShapeMismatch
        Arrays of different lengths.
    """

    remedy = "Do not change the arrays while the run trains on them."

    def __init__(self, arrays: Sequence[npt.ArrayLike], partitions: int) -> None:
        if partitions < 1:
            raise ConfigError(f"partitions: expected at least 1, got {partitions}.")
        self._arrays = checked_arrays(arrays)
        rows = len(self._arrays[0])
        self._bounds = [rows * index // partitions for index in range(partitions + 1)]
        self._indices: list[npt.NDArray[np.int64]] | None = None
        # Numbers of the rows in the user's arrays, if these are a part of them.
        self._numbers: npt.NDArray[np.int64] | None = None
        self.columns = describe(self._arrays)
        self.partitions = partitions
        self.samples: int | None = rows

    @property
    def arrays(self) -> Columns:
        """The rows, in their own order, whatever the layout."""
        return self._arrays

    def repartition(self, partitions: int, partitioner: AnyPartitioner, epoch: int) -> ArraySource:
        """Return a new layout of the same arrays; see `DataSource.repartition`."""
        check_partitioner(partitioner, partitions, self.columns)
        layout = ArraySource(self._arrays, partitions)
        # What partitions a partitioner hashes with are those of the first layout, whatever
        # came in between: the new layout depends on the arguments alone.
        layout._bounds, layout._numbers = self._bounds, self._numbers
        targets = self._targets(partitions, partitioner, epoch)
        counts = np.bincount(targets, minlength=partitions)
        order = np.argsort(targets, kind="stable")
        layout._indices = np.split(order, np.cumsum(counts)[:-1])
        return layout

    def _targets(
        self, partitions: int, partitioner: AnyPartitioner, epoch: int
    ) -> npt.NDArray[np.integer[Any]]:
        if isinstance(partitioner, LabelPartitioner):
            # The order of the rows is all that counts, not where the first layout cut them.
            deal = Deal.by(partitioner, [count_labels([self._arrays])], partitions)
            return deal.assign(labels_of(self._arrays), 0)
        return np.concatenate(
            [
                checked_assignment(partitioner, end - start, epoch, source, partitions)
                for source, (start, end) in enumerate(itertools.pairwise(self._bounds))
            ]
        )

    def dealt(self, partitions: int, seed: int) -> ArraySource:
        """Return a random layout of the same arrays; see `DataSource.dealt`."""
        return self.repartition(partitions, RandomPartitioner(partitions, seed), 0)

    def split(self, share: float, seed: int) -> tuple[ArraySource, ArraySource]:
        """Return two parts of the rows, copied, the second with so many exactly."""
        rows = len(self._arrays[0])
        count = round(share * rows)
        if not 0 < count < rows:
            raise ConfigError(
                f"validation_split: expected at least one row to train on and one to evaluate, got "
                f"{count} of {counted(rows, 'row')} to evaluate by {share:g}. Give another share."
            )
        order = np.random.default_rng([seed, SPLIT]).permutation(rows)
        return self._part(np.sort(order[count:])), self._part(np.sort(order[:count]))

    def _part(self, numbers: npt.NDArray[np.int64]) -> ArraySource:
        part = ArraySource([array[numbers] for array in self._arrays], self.partitions)
        part._numbers = numbers
        return part

    def tasks(self, sc: Any) -> Any:
        """Return an RDD of `partitions` empty partitions: the driver serves the rows."""
        return sc.parallelize(range(self.partitions), self.partitions).mapPartitions(lambda _: ())

    def rows(self, partition: int) -> Columns:
        """Return one partition's rows, in their own order: views if contiguous, else copies."""
        if self._indices is None:
            start, end = self._bounds[partition : partition + 2]
            return tuple(array[start:end] for array in self._arrays)
        return tuple(array[self._indices[partition]] for array in self._arrays)

    def number(self, partition: int, row: int) -> int | None:
        """See `DataSource.number`."""
        start, end = self._bounds[partition : partition + 2]
        own = start + row if start + row < end else None
        if self._indices is not None:
            numbers = self._indices[partition]
            own = int(numbers[row]) if row < len(numbers) else None
        return own if own is None or self._numbers is None else int(self._numbers[own])

    def __repr__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        return f"ArraySource({self.samples} rows of [{columns}], {self.partitions} partitions)"


def checked_arrays(values: Sequence[npt.ArrayLike], kinds: str = NUMERIC) -> Columns:
    """Return arrays in this machine's byte order, all with the same number of rows.

    Parameters
    ----------
    values : sequence of array_like
    kinds : str
        Kinds of dtypes that they may have.

    Raises
    ------
    DataError, ShapeMismatch
        See `ArraySource`.
    """
    given = map(np.asarray, values)
    arrays = tuple(a.astype(a.dtype.newbyteorder("="), copy=False) for a in given)
    for field, array in enumerate(arrays):
        if array.ndim == 0 or array.dtype.kind not in kinds:
            raise DataError(
                f"Array {field}: expected numbers with a row dimension, "
                f"got {array.dtype} of shape {array.shape}."
            )
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ShapeMismatch(
            f"Expected arrays with the same number of rows, one for each feed; got {lengths} rows."
        )
    if not any(lengths):
        raise DataError("Expected at least one array with at least one row, got none.")
    return arrays
