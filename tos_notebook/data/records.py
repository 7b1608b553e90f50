"""TFRecord files on any Hadoop file system, read by the executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..blocks.block import Columns
from ..blocks.feeds import Feed
from ..blocks.skips import ON_BAD, SkipCounter
from ..cluster.executors import task_cores
from ..cluster.files import list_files
from ..cluster.gpus import claim_gpus
from ..common.checks import at_least_one, one_of
from .described import Described
from .rdd import RddSource, counted
from .record_filter import RECORD, Label, RecordFilter, labels_of


@dataclass(frozen=True)
class TFRecords(Described):
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
        """Return the records as a source for a program; see `Described.source`.

        Raises
        ------
        DataError
            There are no files, or `parse` does not return numbers of a known shape.
        """
        from .tf_records import columns_of_records

        columns, parse = columns_of_records(self.parse, feeds)
        files = list_files(sc, self.uri)
        count = min(self.partitions or sc.defaultParallelism, len(files))
        # A union, so that which files are whose depends on their names alone.
        parts = [sc.binaryFiles(",".join(files[p::count])).coalesce(1) for p in range(count)]
        skips = counted(sc) if self.on_bad == "skip" else None
        reader = _Reader(parse, labels_of(feeds, columns), skips, task_cores(sc))
        blocks = sc.union(parts).mapPartitionsWithIndex(reader)
        return RddSource.from_decoded(blocks, columns, skips or SkipCounter())


@dataclass(frozen=True)
class _Reader:
    """Reads the files of a partition, in the order of their names."""

    parse: Callable[[Any], Any]
    labels: tuple[Label, ...]
    skips: SkipCounter | None
    cores: int

    def __call__(self, partition: int, files: Iterable[tuple[str, bytes]]) -> Iterator[Columns]:
        # This process may train later.
        claim_gpus()
        record_filter = RecordFilter(self.labels, self.skips, partition)
        for uri, content in sorted(files):
            yield from self._read(uri, content, record_filter)
        record_filter.close()

    def _read(self, uri: str, content: bytes, record_filter: RecordFilter) -> Iterator[Columns]:
        from .tf_records import read_records

        def unparsed(number: int, reason: str) -> None:
            record_filter.refuse(uri, number, RECORD, reason)

        for numbers, block in read_records(uri, content, self.parse, self.cores, unparsed):
            good = record_filter(uri, numbers, block)
            if len(good[0]):
                yield good


def tfrecords(
    uri: str,
    parse: Callable[[Any], Any],
    *,
    partitions: int | None = None,
    on_bad: str = "raise",
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
        Makes a record of a serialised one, a scalar string tensor, in graph: returns a tensor, or a
        tuple of them, one for each feed, such as what `tf.io.parse_single_example` finds. A
        dictionary in it goes by the names of inputs or outputs.
    partitions : int, optional
        At most as many as there are files; by default as many as Spark has slots.
    on_bad : {"raise", "skip"}
        What a record does that cannot be parsed, has a NaN or infinite number in it, or a label
        that is none of the program's classes: end the run, named with its file, or be left out and
        counted, in `RunStatus.rows_skipped` and events `RowsSkipped`. A damaged file ends the run.

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
    one_of("on_bad", on_bad, ON_BAD)
    return TFRecords(uri, parse, partitions, on_bad)
