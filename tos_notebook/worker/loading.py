"""A partition's rows, before the first of them is trained: from Spark, or from the server."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..blocks.block import Columns
from ..blocks.feeds import Feed as Input
from ..blocks.feeds import check_values
from ..blocks.labels import class_counts
from ..common.arrays import Array
from ..common.content import content_of
from ..data.room import gathered
from ..data.stream import Stream
from ..errors import RemoteProtocolError
from ..transport.base import Connection
from ..wire.messages import Fetch, Labelled, Proceed, Rows
from .batches import Batches, InMemoryBatches, PartitionRows, SampledBatches, StreamedBatches
from .exchange import ask, expect
from .plan import Plan

_NUMBERS = re.compile(r"[<>|][biufc]\d{1,2}")


def load(
    connection: Connection,
    plan: Plan,
    partition: int,
    feeds: Sequence[Input],
    blocks: Iterable[Columns] | Iterable[Stream],
) -> Batches:
    """Return a partition's rows, which the program can take.

    Parameters
    ----------
    connection : Connection
        To the server.
    plan : Plan
    partition : int
    feeds : sequence of Feed
        The program's.
    blocks : iterable of Columns, or of one Stream
        The rows, where Spark brings them, or what makes them.

    Raises
    ------
    DataError
        The program cannot take some rows.
    """
    if plan.columns:
        columns = tuple(fetch(connection, i) for i in range(plan.columns))
    else:
        rest = iter(cast(Iterable[Any], blocks))
        first = next(rest, None)
        if isinstance(first, Stream):
            return StreamedBatches(first, plan.seed, plan.batch_size, feeds)
        came = () if first is None else itertools.chain([first], rest)
        columns = gathered(came, [feed.name for feed in feeds], f"Partition {partition}")
    check_values(columns, feeds, f"Partition {partition}, row")
    if plan.count_labels and (counts := class_counts(columns, feeds)):
        ask(connection, Labelled(list(counts), list(counts.values())), Proceed)
    rows = PartitionRows(columns, partition, content_of(columns), feeds)
    if plan.sampler is not None:
        return SampledBatches(rows, plan.sampler)
    return InMemoryBatches(rows, plan.seed, plan.shuffle, plan.batch_size, plan.participants)


def fetch(connection: Connection, index: int) -> Array:
    """Return one column of the partition's rows, which the server has.

    Raises
    ------
    RemoteProtocolError
        What came is not a column.
    """
    answer, payload = connection.request(Fetch(index))
    rows = expect(Rows, answer, Fetch(index))
    raw = np.frombuffer(b"" if payload is None else payload, np.uint8)
    try:
        # To numpy a dtype's text is a language of its own.
        if not _NUMBERS.fullmatch(rows.dtype):
            raise ValueError("not a dtype of numbers")
        return cast(Array, raw.view(rows.dtype).reshape(rows.shape))
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(
            f"Column {index}: expected {rows.shape} values of {rows.dtype[:80]!r}, "
            f"got {raw.nbytes} bytes: {error}."
        ) from error
