"""A shard that has rows of tables, and a worker whose frames are mutated on their way to it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.channels import (
    PUSH_KIND,
    Forgery,
    Memo,
    Tap,
    message_of,
    payload_at,
    whole_pushes,
)
from tests.fuzz.mutate import EXTREMES, join, mutate, split
from tests.unit.worker.support import push
from tos_notebook.combiners import Downpour
from tos_notebook.common.arrays import ALIGNMENT, Buffer
from tos_notebook.common.served import ServedTable, shard_of
from tos_notebook.common.table_rows import TableRows
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps import push as ps
from tos_notebook.strategies.ps.replica import Replica
from tos_notebook.strategies.ps.residual import ResidualStore
from tos_notebook.strategies.ps.rows.replica import RowReplica
from tos_notebook.strategies.ps.rows.update import RowUpdate
from tos_notebook.strategies.ps.served.shard import ServedRows
from tos_notebook.strategies.ps.shards.center import ShardCenter
from tos_notebook.strategies.ps.shards.peer import ShardHandler
from tos_notebook.strategies.ps.shards.rows import RowShardLink
from tos_notebook.strategies.ps.shards.slices import Slice, slices, stripe_lengths
from tos_notebook.strategies.ps.shards.staging import Reached, Staging
from tos_notebook.strategies.ps.stripes import Lengths
from tos_notebook.strategies.ps.updates import Updates
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.inproc import InprocListener
from tos_notebook.transport.reactor import Reactor
from tos_notebook.transport.server import serve
from tos_notebook.transport.turn import Turn
from tos_notebook.wire.messages import Attach, Collect, Encoding, LeaveRows, Lookup, Refused
from tos_notebook.wire.settings import WorkerSettings

WHOLE = Layout(
    [
        ParameterSpec("kernel", (4, 2), "float32"),
        ParameterSpec("users", (48, 3), "float32", by_row=True),
        ParameterSpec("items", (9, 2), "float64", by_row=True),
    ],
    [ServedTable("tags", 1000, 2, 8, kept=(0.0,))],
)
TOKEN = "generation"
MERGE = 5
"""The first order to merge, among a worker's frames."""
OTHER = 77
"""The partition whose update waits meanwhile."""


def edit_rows(random: Random, frame: bytes, corpus: Sequence[bytes]) -> bytes:
    """Put other numbers where a push says how many rows there are, and which."""
    fields, body, payload = split(frame)
    changed = bytearray(payload)
    for _ in range(random.choice((1, 1, 2))):
        width = random.choice((4, 8))
        at = random.randrange(0, len(changed) - width + 1, width)
        number = random.choice((0, 1, 2, 3, 9, 15, 16, 17, *EXTREMES)) % 2 ** (8 * width)
        changed[at : at + width] = number.to_bytes(width, "little")
    return join(fields, body, bytes(changed))


class ShardWorld:
    """One shard of two, the frames of a worker's conversation with it, and what they change.

    Parameters
    ----------
    number : int
        Which shard: the first has all that is dense.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._part = slices(WHOLE, 2, stripe_lengths(WHOLE, 64))[number]
        self._layout = self._part.layout
        self.requests: list[bytes] = []
        self._memo = Memo()
        self._clean = False
        self._staging: Staging
        self._handler: ShardHandler
        self._waiting: RowUpdate
        self._record()

    def _record(self) -> None:
        """Keep what a worker says: three updates by row, and one of all rows."""
        staging = self._new()
        listener = InprocListener(lambda peer: ShardHandler(TOKEN, staging))
        listener.start()
        connection = ChannelConnection(Tap(listener.accept(10.0), self.requests, []))
        rows, updates, link = _worker(self._part)
        link._connection = connection
        link.ask(Attach(TOKEN, 0, 1, 0, 0, 1))
        link.ask(Encoding("delta", "fp32", by_row=True))
        for number in range(4):
            if number == 3:
                rows.by_row = False
                link.ask(Encoding("delta", "fp32", by_row=False))
            rows._changes.touched = [
                TableRows(np.array([17 + number, 40]), np.full((2, 3), 1.5, np.float32)),
                TableRows(np.array([2, 5 + number]), np.full((2, 2), 0.5)),
            ]
            kernel = [np.ones((4, 2), np.float32)]
            if rows.by_row:
                rows.write(kernel)
            tags = np.arange(100 * number, 100 * number + 8)
            tags = tags[shard_of(tags, 2) == self._number]
            link.exchange_rows(Lookup(0), tags)
            changes = np.full((len(tags), 4), 0.5, np.float32)
            both = [array.reshape(-1).view(np.uint8) for array in (tags, changes)]
            link.exchange_rows(LeaveRows(0, 0, number), np.concatenate(both))
            # All of them fit a shard that has merged nothing yet.
            link.version = 0
            link.stage(push(number), updates, nullcontext())
            link.collect(Collect(0, number, merge=True, give=True, version=0, workers=1))
        connection.close()
        listener.close()

    def _new(self) -> Staging:
        initial = self._layout.allocate()
        for vector in self._layout.vectors(initial):
            vector[...] = np.arange(1, 1 + vector.size)
        center = ShardCenter(self._layout, initial, Downpour(), Lengths(64, 64))
        staging = Staging(center, ServedRows(WHOLE.served, self._number, 2))
        staging.attach(OTHER, 1, Reached((0, 0), 1))
        tables = []
        for segment in self._layout.tables:
            assert segment.table is not None
            tables.append(TableRows(np.array([1]), np.ones((1, segment.table[1]), segment.dtype)))
        dense = np.ones(self._layout.dense_nbytes, np.uint8)
        bases, whole = [None] * len(tables), [None] * len(tables)
        self._waiting = RowUpdate(self._layout, dense, tables, bases, whole)
        staging.stage(OTHER, 1, (0, 0), self._waiting, ps.Push(OTHER, 0, 1, 1, 1, "delta"))
        return staging

    def _prepare(self) -> None:
        """Have a shard that a worker has just come to."""
        if not self._clean:
            self._staging = self._new()
            self._handler = ShardHandler(TOKEN, self._staging)
            self._memo.begin(*self.requests[:2])
            serve(self._memo, self._handler, Reactor(), Turn())
            assert len(self._memo.heads) == 2

    def serve(self, random: Random) -> str:
        """Serve a mutated frame, and then a good order to merge; return what came of it.

        Raises
        ------
        Forgery
            It changed what it may not.
        """
        self._prepare()
        before = self._staging.center.center.tobytes()
        number = random.randrange(len(self.requests))
        frame = self.requests[number]
        is_push = frame[5] == PUSH_KIND
        spoil = edit_rows if is_push and random.random() < 0.5 else mutate
        sent = spoil(random, frame, self.requests)
        # Behind each push there is the order to merge it.
        self._memo.begin(sent, self.requests[number + 1 if is_push else MERGE])
        serve(self._memo, self._handler, Reactor(), Turn())
        answers = [message_of(head) for head in self._memo.heads]
        texts = [a.text for a in answers if isinstance(a, Refused)]
        if any(text.startswith("server error") for text in texts):
            raise Forgery(texts[0])
        self._check_other()
        self._check_center(before, sent, texts)
        self._check_rows()
        # What was refused has changed nothing, and the same worker continues.
        self._clean = len(texts) == len(answers)
        if not answers:
            return "shard: closed"
        first = answers[0]
        return f"shard: {first.error if isinstance(first, Refused) else type(first).__name__}"

    def _check_other(self) -> None:
        left = self._staging._staged.get(OTHER)
        if left is None or left.update is not self._waiting or left.version is not None:
            raise Forgery("an update of another partition does not wait any more")
        values = [rows.values for rows in self._waiting.tables]
        if any(bool((array != 1).any()) for array in (self._waiting.dense, *values)):
            raise Forgery("an update of another partition was changed")

    def _check_rows(self) -> None:
        """Let served rows change with a push only, and be those that this shard may have."""
        rows = self._staging.rows
        ids, values = rows.copy_changed(True)
        if len(ids) and not self._staging.center.version:
            raise Forgery(f"served rows {ids} changed without a push")
        rows.check(0, np.sort(ids))
        if not np.isfinite(values).all():
            raise Forgery(f"served rows {ids} are not finite")

    def _check_center(self, before: bytes, sent: bytes, refused: list[str]) -> None:
        """Let the center change only by whole pushes, by an account of their own."""
        center = self._staging.center
        now, version, pushes = center.center.tobytes(), center.version, whole_pushes(sent)
        if version > pushes:
            raise Forgery(f"{version} updates merged of {pushes}: {sent!r}")
        if not version and now != before:
            raise Forgery("the center changed without a push")
        first = len(sent) > 5 and sent[5] == PUSH_KIND
        if version == pushes == 1 and first and self._staging.failed is None:
            expected = _sum(self._layout, before, sent[payload_at(sent) :])
            if not np.array_equal(*(_values(self._layout, one) for one in (expected, now)), True):
                raise Forgery(f"the center is not what it was and what was pushed: {sent!r}")


def _worker(part: Slice) -> tuple[RowReplica, Updates, RowShardLink]:
    adopted = WHOLE.allocate()
    updates, rows = Updates(WHOLE, adopted), RowReplica(WHOLE, adopted)
    rows.use(WorkerSettings(1, 0.1, {"pushes": "delta", "codec": "fp32", "by_row": "yes"}))
    store = ResidualStore(part.layout.nbytes)
    replica = Replica(part.layout, adopted[part.start : part.stop], store, 0)
    return rows, updates, RowShardLink(replica, part, rows)


def _values(layout: Layout, data: Any) -> Any:
    buffer = np.frombuffer(data, np.uint8).copy()
    return np.concatenate([v.astype(np.float64) for v in layout.vectors(buffer)])


def _sum(layout: Layout, before: bytes, payload: bytes) -> Buffer:
    """Return the center with the rows of a payload, as a reader of its own finds them."""
    center: Buffer = np.frombuffer(before, np.uint8).copy()
    counts = struct.unpack_from(f"<{len(layout.tables)}Q", payload)
    at = _aligned(8 * len(counts))
    dense = np.frombuffer(payload[at : at + layout.dense_nbytes], np.uint8).copy()
    with np.errstate(all="ignore"):
        for one, other in zip(
            layout.dense_vectors(center), layout.dense_vectors(dense), strict=True
        ):
            one += other
        at += _aligned(layout.dense_nbytes)
        for count, table in zip(counts, layout.table_arrays(center), strict=True):
            ids = list(range(count))
            if count != len(table):
                ids = list(struct.unpack_from(f"<{count}I", payload, at))
                at = _aligned(at + 4 * count)
            if ids != sorted(set(ids)) or not all(number < len(table) for number in ids):
                raise Forgery(f"rows {ids} were merged")
            for number in ids:
                row = np.frombuffer(payload, table.dtype, table.shape[1], at)
                table[number] += row
                at += row.nbytes
            at = _aligned(at)
    return center


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
