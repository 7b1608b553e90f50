"""TFRecord files on any Hadoop file system, read by the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..blocks.block import Columns, ColumnSpec
from ..blocks.feeds import Feed, beyond, integers, narrowed, outside
from ..blocks.skips import SkipCounter, Skipped, count, limit_of
from ..cluster.executors import task_cores
from ..cluster.files import list_files, whole_files
from ..cluster.gpus import claim_gpus
from ..common.arrays import Array
from ..common.checks import at_least_one
from ..errors import DataError
from .counted import counted
from .described import DataDescription
from .rdd import RddSource

RECORD = "record"
"""In place of a column's name, where the whole record is bad."""


@dataclass(frozen=True)
class TFRecords(DataDescription):
    """What `tfrecords` returns.

    Parameters
    ----------
    uri : str
    parse : callable
    partitions : int or None
    on_bad : {"raise", "skip"}
    """

    uri: str
    parse: Callable[[Any], Any]
    partitions: int | None = None
    on_bad: str = "raise"

    def source(self, sc: Any, feeds: Sequence[Feed]) -> RddSource:
        """Return the records as a source for a program; see `DataDescription.source`.

        Raises
        ------
        DataError
            No files were found, or `parse` does not return numbers of a known shape.
        """
        from .tf_data import columns_of_records

        columns, parse = columns_of_records(self.parse, feeds)
        files = list_files(sc, self.uri)
        n = min(self.partitions or sc.defaultParallelism, len(files))
        contents = whole_files(sc, [files[p::n] for p in range(n)])
        skips = counted(sc, self.on_bad)
        reader = _Reader(parse, _labels_of(feeds, columns), skips, task_cores(sc))
        blocks = contents.mapPartitionsWithIndex(reader)
        return RddSource.from_decoded(blocks, columns, skips or SkipCounter())


class _Label(NamedTuple):
    """What is known of a field."""

    name: str
    classes: int | None = None
    """Of how many its labels are; None for what is no label, or unknown."""
    narrow: str | None = None
    """The dtype of integers that the program makes of them, where not all of them fit."""


def _labels_of(feeds: Sequence[Feed], columns: Sequence[ColumnSpec]) -> tuple[_Label, ...]:
    known = [
        _Label(feed.name, feed.classes, narrowed(column.dtype, feed.dtype))
        for feed, column in zip(feeds, columns, strict=False)
    ]
    return (*known, *(_Label(f"field {n}") for n in range(len(known), len(columns))))


def _wrong(column: Array, label: _Label) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(column), bool)
    if column.dtype.kind == "f":
        wrong |= ~np.isfinite(column).reshape(len(column), -1).all(axis=1)
    if label.narrow is not None:
        wrong |= beyond(column, label.narrow).reshape(len(column), -1).any(axis=1)
    if label.classes is not None:
        wrong |= outside(column, label.classes)
    return wrong


def _reason(value: Array, label: _Label) -> str:
    flat = np.ravel(value)
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        return f"expected finite numbers, got {flat[~np.isfinite(flat)][0]}"
    if label.narrow is not None and (wrong := beyond(flat, label.narrow)).any():
        return f"expected {integers(label.narrow)}, got {flat[wrong][0]}"
    return f"expected whole labels from 0 to {(label.classes or 0) - 1}, got {value}"


@dataclass(frozen=True)
class _Reader:
    """Reads the files of a partition, in the order of their names, without bad records."""

    parse: Callable[[Any], Any]
    labels: tuple[_Label, ...]
    skips: SkipCounter | None
    """None where a bad record is not counted, but named in an error."""
    cores: int

    def __call__(self, partition: int, files: Iterable[tuple[str, bytes]]) -> Iterator[Columns]:
        from .tf_data import read_records

        # This process may train later.
        claim_gpus()
        skipped: dict[str, Skipped] = {}
        for uri, content in sorted(files):
            refuse = partial(self._refuse, skipped, partition, uri)
            unparsed = partial(refuse, RECORD)
            for numbers, block in read_records(uri, content, self.parse, self.cores, unparsed):
                good = self._good(numbers, block, refuse)
                if self.skips is not None:
                    self.skips.check(skipped)
                if len(good[0]):
                    yield good
        if self.skips is not None and skipped:
            self.skips.add(skipped)

    def _good(
        self, numbers: npt.NDArray[np.int64], block: Columns, refuse: Callable[..., None]
    ) -> Columns:
        good = np.ones(len(numbers), bool)
        for label, column in zip(self.labels, block, strict=True):
            for row in np.flatnonzero(good & _wrong(column, label)):
                refuse(label.name, int(numbers[row]), _reason(column[row], label))
                good[row] = False
        return block if good.all() else tuple(column[good] for column in block)

    def _refuse(
        self,
        skipped: dict[str, Skipped],
        partition: int,
        uri: str,
        column: str,
        n: int,
        reason: str,
    ) -> None:
        if self.skips is None:
            feed = "" if column == RECORD else f", feed {column!r}"
            raise DataError(
                f"{uri}, record {n}{feed}: {reason}. Write it again, or leave such records "
                'out: on_bad="skip".'
            )
        count(skipped, partition, column, n, f"{reason} in {uri}")


def tfrecords(
    uri: str, parse: Callable[[Any], Any], *, partitions: int | None = None, on_bad: str = "raise"
) -> TFRecords:
    """Describe TFRecord files to train on.

    The executors read them through Spark, from whatever Hadoop file system it can reach, and
    TensorFlow checks and parses them there; nothing passes through this process. They are split by
    file: file i of the sorted ones is of partition i modulo their number.

    Parameters
    ----------
    uri : str
        A file, a directory, or a glob pattern, such as ``hdfs:///data/train-*.tfrecord``. A path
        without a scheme is on Spark's default file system, as for ``spark.read``.
    parse : callable
        Makes a record of a serialized one, a scalar string tensor, in a graph. It returns a tensor,
        or a tuple with one for each feed, such as the result of `tf.io.parse_single_example` finds.
        A
        dictionary in it goes by the names of inputs or outputs.
    partitions : int, optional
        At most as many as there are files; by default as many as Spark has slots.
    on_bad : {"raise", "skip", "skip:100"}
        For a bad record, the run ends and names it with its file, or the record is skipped. A
        record is bad if it cannot be parsed, has NaN or infinity, or has an unknown label. Skipped
        records are counted in `RunStatus.rows_skipped` and events `RowsSkipped`, at most 100 with
        ``"skip:100"``. A damaged file ends the run.

    Examples
    --------
    >>> def parse(record):                                                    # doctest: +SKIP
    ...     spec = {"x": tf.io.FixedLenFeature([784], tf.float32),
    ...             "y": tf.io.FixedLenFeature([], tf.int64)}
    ...     found = tf.io.parse_single_example(record, spec)
    ...     return found["x"], found["y"]
    >>> session.run(tos.tfrecords("hdfs:///data/train", parse))               # doctest: +SKIP
    """
    if partitions is not None:
        at_least_one("partitions", partitions)
    limit_of(on_bad)
    return TFRecords(uri, parse, partitions, on_bad)
