"""Peers that hold the secret and misbehave: others are served, memory is bounded, results right."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.support.threads import Aside
from tests.unit.transport.peers import memory
from tests.unit.worker.support import (
    Served,
    center,
    counting_training,
    finish,
    join,
    numbers,
    of,
    push,
)
from tos_notebook.coordination.state import KEPT_FAILURES, KEPT_JOINS
from tos_notebook.data.arrays import ArraySource
from tos_notebook.errors import (
    ConnectionClosed,
    ConnectTimeout,
    DataError,
    SessionClosed,
    TosError,
    TransportError,
)
from tos_notebook.events import WorkerFailed, WorkerJoined
from tos_notebook.strategies.ps.peer_replica import PeerReplica
from tos_notebook.telemetry.history import History
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.server import most_connections
from tos_notebook.wire.frames import encode_head, encode_header
from tos_notebook.wire.messages import (
    KINDS,
    Failed,
    Fetch,
    Goodbye,
    Labelled,
    Loaded,
    Poll,
    Suspect,
)

LAYOUT = Counting().spec.layout
UPDATE = LAYOUT.pack({"total": np.float64(1e9), "rows": np.int64(1)})
ROWS = 10
HONEST = sum(range(ROWS // 2 + 1, ROWS + 1))
"""What the rows of partition 1 add up to; partition 0 is the hostile peer's."""


class Run:
    """A run of two partitions: of one a hostile peer holds the connection, of one a worker."""

    def __init__(self, serve: Callable[..., Served], kind: str) -> None:
        self.training, self.events = counting_training(partitions=2, rows=ROWS)
        self.served = serve(self.training, kind)

    def hostile(self, partition: int = 0, task: int = 0) -> Any:
        connection = self.served.connect()
        connection.request(join(partition, task))
        return connection

    def hostile_channel(self) -> Any:
        """Return the channel of a peer that has joined, for frames that no connection sends."""
        channel = self.served.channel()
        self.served.connections.append(connection := ChannelConnection(channel))
        connection.request(join(0, 0))
        return channel

    def ends_well(self, hostile: float = 0.0) -> None:
        """Let the honest worker train; the center holds its rows, and `hostile` besides."""
        program = Counting()
        self.served.work(program, 1, task=10_000, columns=1)
        assert len(program.batches) == ROWS // 2
        assert center(self.training)["total"] == HONEST + hostile
        assert self.training.error is None


@pytest.fixture(params=["inproc", "tcp"])
def run(serve: Callable[..., Served], request: pytest.FixtureRequest) -> Run:
    return Run(serve, request.param)


# -- what one message may do ---------------------------------------------------------------


WRONG = [
    push(steps=-1),
    push(samples=2**63 - 1, steps=2**62),
    push(epoch=7),
    push(1),
    push(base_version=9),
    push(settings_version=9),
    push(compute=float("nan")),
    push(metrics=(1.0,)),
    finish(epoch=5),
    finish(samples=1, steps=1),
    Fetch(1 << 40),
    Fetch(-1),
    Loaded(-1, "0" * 32, streamed=False),
    Loaded(5, "0" * 31, streamed=False),
    Labelled([1] * 10, [1] * 9),
    Labelled(list(range(5000)), [1] * 5000),
    Suspect("row", -1, "nan", 1),
    Poll(-1),
    join(1, task=3),
]


@pytest.mark.parametrize("message", WRONG, ids=lambda message: type(message).__name__)
def test_a_message_that_cannot_be_right_is_refused_and_changes_nothing(
    run: Run, message: Any
) -> None:
    connection = run.hostile()
    payload = UPDATE if type(message).__name__ == "Push" else None
    with pytest.raises(TosError):
        connection.request(message, payload)
    run.ends_well()


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("body", [b"", b"[]", b"[" * 10_000, b"\xff" * 100, b"null"], ids=repr)
def test_garbage_in_place_of_a_body_ends_no_more_than_its_connection(
    serve: Callable[..., Served], kind: int, body: bytes
) -> None:
    run = Run(serve, "inproc")
    channel = run.hostile_channel()
    if KINDS[kind] is not Goodbye:
        channel.send(encode_header(kind, 1, len(body), 0) + body, None)
        with suppress(ConnectionClosed):
            channel.receive_head()
    run.ends_well()


def test_a_segment_that_is_cut_off_while_its_worker_trains_ends_nothing(
    serve: Callable[..., Served],
) -> None:
    """A write to what was cut off would kill the process by a signal."""
    run = Run(serve, "inproc")
    name, descriptor = memory(LAYOUT.nbytes, fcntl.F_SEAL_GROW)
    connection = run.served.connect()
    joined, _ = connection.request(join(segment=name))
    assert not joined.shared
    os.ftruncate(descriptor, 0)
    os.close(descriptor)
    update = LAYOUT.pack({"total": np.float64(5), "rows": np.int64(1)})
    reply, _ = connection.request(push(), update, update)
    assert reply.status == "committed"
    run.ends_well(hostile=5)


@pytest.mark.parametrize("row", [ROWS, 1 << 40])
@pytest.mark.parametrize("layout", ["first", "dealt"])
def test_a_row_that_there_is_not_is_no_way_to_have_a_batch_counted_and_not_merged(
    serve: Callable[..., Served], layout: str, row: int
) -> None:
    training, _ = counting_training(partitions=2, rows=ROWS)
    if layout == "dealt":
        training.begin_span(ArraySource((numbers(ROWS),), 2).dealt(2, 0), 0, 0)
    connection = serve(training).connect()
    connection.request(join())
    connection.request(Suspect("row", row, "nan", 1))
    update = LAYOUT.pack({"total": np.float64("nan"), "rows": np.int64(1)})
    with suppress(TosError):
        connection.request(push(finite=False), update, update)
    assert isinstance(training.error, DataError)
    assert f"Partition 0, row {row} of the rows as dealt" in str(training.error)


def test_a_push_that_is_replayed_counts_once(run: Run) -> None:
    connection = run.hostile()
    buffer = LAYOUT.pack({"total": np.float64(5), "rows": np.int64(1)})
    assert connection.request(push(), buffer)[0].status == "committed"
    for _ in range(20):
        assert connection.request(push(), buffer)[0].status == "duplicate"
    run.ends_well(hostile=5)


def test_nothing_is_taken_from_whoever_has_not_joined(run: Run) -> None:
    for message in (push(), finish(), Poll(0), Failed("x", [], True, 0, [])):
        with pytest.raises(TosError):
            run.served.connect().request(message)
    run.ends_well()


# -- floods ----------------------------------------------------------------------------------


def test_failures_without_end_are_kept_in_bounded_memory(run: Run) -> None:
    history = History()
    text = "x" * 30_000
    for number in range(3 * KEPT_FAILURES):
        connection = run.hostile(task=number)
        for _ in range(3):
            connection.request(Failed(f"{number} {text}", [text], False, 0, []))
        connection.close()
    told = of(WorkerFailed, run.events)
    assert len(run.training.failures) == KEPT_FAILURES
    assert len(told) == run.training.raised == 3 * KEPT_FAILURES
    assert sum(len(event.message) > 200 for event in told) == KEPT_FAILURES
    for event in run.events:
        history(event)
    run.ends_well()


def test_events_tell_of_so_many_attempts_and_no_more(serve: Callable[..., Served]) -> None:
    training, events = counting_training(partitions=2, rows=ROWS)
    for task in range(KEPT_JOINS + 50):
        training.join(join(0, task), shared=False)
    assert len(of(WorkerJoined, events)) == KEPT_JOINS
    assert len(events) <= 2 * KEPT_JOINS + 10


def mirrors() -> list[PeerReplica]:
    """Return what connections of this test hold."""
    gc.collect()
    return [m for m in gc.get_objects() if type(m) is PeerReplica]


@pytest.mark.usefixtures("only_own_garbage")
def test_connections_that_join_one_partition_hold_the_memory_of_two(run: Run) -> None:
    held = [run.hostile(task=task) for task in range(30)]
    assert len(mirrors()) <= 2
    with pytest.raises(SessionClosed):
        held[0].request(push(), UPDATE)
    run.ends_well()


@pytest.mark.usefixtures("only_own_garbage")
def test_whoever_may_not_join_costs_no_memory(run: Run) -> None:
    held = [run.served.connect() for _ in range(20)]
    for connection in held:
        with pytest.raises(TosError):
            connection.request(join(99))
    assert not mirrors()
    run.ends_well()


def test_of_too_many_connections_those_go_that_no_worker_needs(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served]
) -> None:
    monkeypatch.setattr("tos_notebook.transport.server.most_connections", lambda: 8)
    run = Run(serve, "tcp")
    worker = run.served.connect()
    worker.request(join(1, task=1))
    idle = [run.served.connect() for _ in range(40)]
    threads = [t for t in threading.enumerate() if t.name.startswith("tos-server-127")]
    assert len(threads) <= 20
    assert worker.request(push(), LAYOUT.pack({"total": np.float64(6), "rows": np.int64(1)}))
    with pytest.raises((ConnectionClosed, ConnectTimeout)):
        idle[0].request(join(0))
    assert center(run.training)["total"] == 6


def test_a_worker_for_whom_there_is_no_room_is_told_why(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served]
) -> None:
    monkeypatch.setattr("tos_notebook.transport.server.most_connections", lambda: 2)
    training, _ = counting_training(partitions=3, rows=ROWS)
    served = serve(training, "tcp")
    for partition in range(2):
        served.connect().request(join(partition, partition))
    with pytest.raises(TransportError, match=r"at most 2 workers at a time.*ulimit -n"):
        served.connect().request(join(2, 2))


def test_a_server_may_open_twice_as_many_files_as_it_takes_connections() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 0 < most_connections() <= max(files // 2, 4096 if files < 0 else 0)


# -- a peer that does not read -----------------------------------------------------------


def test_a_peer_that_sends_on_without_reading_is_refused_and_holds_up_nobody(
    serve: Callable[..., Served],
) -> None:
    run = Run(serve, "tcp")
    channel = run.hostile_channel()
    pushes = 200_000
    sent = 0

    def flood() -> None:
        """Push on and on, and read nothing, until the server ends the connection."""
        nonlocal sent
        with suppress(TosError, OSError):
            for sent in range(pushes):
                head = encode_head(push(sent), sent + 2, LAYOUT.nbytes)
                channel.send(head, memoryview(UPDATE))

    Aside(flood).result()
    assert sent < pushes - 1
    worker = Counting()
    run.served.work(worker, 1, task=10_000, columns=1)
    assert len(worker.batches) == ROWS // 2
