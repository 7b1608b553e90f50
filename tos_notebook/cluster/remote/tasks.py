"""What runs on executors for rows that a Spark Connect server plans."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

Call = Callable[[int, Iterable[Any]], Iterable[Any]]
"""Takes a partition's number and its values; returns others."""

LANE, NOTE, VALUE = "lane", "note", "value"
"""The columns in which values are sent: where to, whether it is a note, and its pickle.

In what a job returns the lane is the number of the partition.
"""

_noted: list[tuple[str, Any]] = []
"""What the present task has to tell beside its values; a Python worker runs one at a time."""


class Accumulator:
    """Collects what tasks tell beside their values; see ``SparkContext.accumulator``.

    Parameters
    ----------
    name : str
    value : object
    param : AccumulatorParam
    """

    def __init__(self, name: str, value: Any, param: Any) -> None:
        self.name, self.value, self._param = name, value, param

    def merge(self, value: Any) -> None:
        """Add what a task has told."""
        self.value = self._param.addInPlace(self.value, value)

    def __reduce__(self) -> Any:
        return Told, (self.name,)


class Told:
    """What tasks have of an `Accumulator`.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def add(self, value: Any) -> None:
        """Tell the client."""
        _noted.append((self._name, value))


def in_arrow(
    calls: Sequence[Call], packed: bool, lanes: Sequence[int] | None = None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function for ``DataFrame.mapInArrow`` that makes calls, one behind the other.

    A closure, because those are pickled by value: it must run where this package is missing.

    Parameters
    ----------
    calls : sequence of callable
    packed : bool
        Whether rows are what such a function has returned; else the first call takes Arrow batches.
    lanes : sequence of int, optional
        What Spark is to partition by for each target, if values are pairs with a target.
    """
    from pyspark.serializers import CloudPickleSerializer

    # Once: Spark knows by these bytes that it has stored what the function made.
    content = CloudPickleSerializer().dumps(list(calls))
    unpacked, in_batches = unpacker(), packer(lanes)

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import importlib
        import pickle

        from pyspark import TaskContext

        try:
            noted = importlib.import_module("tos_notebook.cluster.remote.tasks")._noted
        except ImportError:
            # Where this package is missing nothing is told beside the values.
            noted = []
        noted.clear()
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        values = unpacked(batches, noted) if packed else batches
        for call in pickle.loads(content):
            values = call(partition, values)
        return in_batches(partition, values, noted)

    return run


def unpacker() -> Callable[[Iterable[Any], list[Any]], Iterator[Any]]:
    """Return a function that yields the values of batches, and keeps their notes in a list.

    A closure, as `in_arrow` says.
    """

    def unpacked(batches: Iterable[Any], noted: list[Any]) -> Iterator[Any]:
        import pickle

        for batch in batches:
            is_note = batch.column("note").to_pylist()
            for row, value in zip(is_note, batch.column("value"), strict=True):
                one = pickle.loads(value.as_buffer())
                if row:
                    noted.append(one)
                else:
                    yield one

    return unpacked


def packer(
    lanes: Sequence[int] | None,
) -> Callable[[int, Iterable[Any], list[Any]], Iterator[Any]]:
    """Return a function that makes batches of a partition's values, and of the notes behind them.

    A closure, as `in_arrow` says.

    Parameters
    ----------
    lanes : sequence of int, optional
        See `in_arrow`.
    """

    def packed(partition: int, values: Iterable[Any], noted: list[Any]) -> Iterator[Any]:
        import pickle

        import pyarrow as pa

        pending: list[tuple[int, bool, bytes]] = []

        def batch() -> Any:
            columns = [pa.array(list(column)) for column in zip(*pending, strict=True)]
            pending.clear()
            kinds = pa.int32(), pa.bool_(), pa.binary()
            arrays = [column.cast(kind) for column, kind in zip(columns, kinds, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, ["lane", "note", "value"])

        size = 0
        for value in values:
            lane = partition if lanes is None else lanes[value[0]]
            pending.append((lane, False, pickle.dumps(value, 5)))
            size += len(pending[-1][2])
            if size > 1 << 20 or len(pending) == 1000:
                yield batch()
                size = 0
        lane = partition if lanes is None else lanes[0]
        pending.extend((lane, True, pickle.dumps(each, 5)) for each in noted)
        if pending:
            yield batch()

    return packed


def for_each(call: Callable[[Iterable[Any]], Iterable[Any]]) -> Call:
    """Return a call of a function that needs no number; a closure, as `in_arrow` says.

    Parameters
    ----------
    call : callable
        Takes an iterable.
    """

    def run(partition: int, values: Iterable[Any]) -> Iterable[Any]:
        return call(values)

    return run


def of_parts(parts: Sequence[Sequence[Any]]) -> Call:
    """Return a call that yields the values of each partition, which are sent with it; a closure.

    Parameters
    ----------
    parts : sequence of sequence
    """

    def run(partition: int, numbers: Iterable[Any]) -> Iterable[Any]:
        # What is not read to its end costs the Python worker its life, and all that it has loaded.
        for _ in numbers:
            pass
        return parts[partition]

    return run


class OnlyIn:
    """A call in some partitions alone.

    Parameters
    ----------
    partitions : sequence of int
    call : callable
        Takes an iterable.
    """

    def __init__(
        self, partitions: Sequence[int], call: Callable[[Iterable[Any]], Iterable[Any]]
    ) -> None:
        self._partitions = frozenset(partitions)
        self._call = call

    def __call__(self, partition: int, values: Iterable[Any]) -> Iterator[Any]:
        """Yield pairs of the partition and what the call makes of its values."""
        if partition in self._partitions:
            for value in self._call(values):
                yield partition, value


class Folded:
    """Adds up a partition's values.

    Parameters
    ----------
    nothing : object
    add : callable
    """

    def __init__(self, nothing: Any, add: Callable[[Any, Any], Any]) -> None:
        self._nothing, self._add = nothing, add

    def __call__(self, partition: int, values: Iterable[Any]) -> Iterator[Any]:
        """Yield the sum."""
        total = self._nothing
        for value in values:
            total = self._add(total, value)
        yield total


def counted(partition: int, values: Iterable[Any]) -> Iterator[int]:
    """Yield how many values there are."""
    yield sum(1 for _ in values)


def second(values: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
    """Yield the second of each pair."""
    return (value for _, value in values)


class Sent:
    """What a client has sent to all tasks at once; see ``SparkContext.broadcast``.

    Parameters
    ----------
    content : bytes or None
        Its pickle; None where it is in a file.
    file : str
        The name of an artifact.
    """

    def __init__(self, content: bytes | None, file: str = "") -> None:
        self._content, self._file = content, file

    @property
    def value(self) -> Any:
        """What was sent."""
        if self._content is not None:
            return pickle.loads(self._content)
        from pyspark import SparkFiles

        return pickle.loads(Path(SparkFiles.get(self._file)).read_bytes())

    def destroy(self) -> None:
        """Do nothing: the server forgets it with the session."""
