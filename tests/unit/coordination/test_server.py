"""The server's side of connections: what a peer may ask, and when."""

from __future__ import annotations

import selectors
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numpy_program import Counting
from tests.unit.worker.support import Served, center, counting_training, finish, join, of, push
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import RunServer, WorkerHandler
from tos_notebook.errors import (
    AuthenticationError,
    ConnectionClosed,
    RemoteProtocolError,
    SessionClosed,
    TransportError,
)
from tos_notebook.events import WorkerFailed, WorkerJoined, WorkerLost
from tos_notebook.transport import acceptor
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.gate import Gate
from tos_notebook.transport.shared import Segment
from tos_notebook.wire.messages import Directive, Failed, Fetch, Poll, Rows

LAYOUT = Counting().spec.layout


pytestmark = pytest.mark.usefixtures("shared_memory")


@pytest.fixture(params=["inproc", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Run:
    """A served run of two partitions, and what its workers would say."""

    def __init__(self, kind: str) -> None:
        self.training, self.events = counting_training(partitions=2, rows=4, epochs=2)
        self.served = Served(self.training, kind)

    def open(self, partition: int = 0, task: int = 0, segment: str = "") -> Any:
        connection = self.served.connect()
        connection.request(join(partition, task, segment=segment))
        return connection

    def push(self, connection: Any, total: float, **fields: int) -> Any:
        update = LAYOUT.pack({"total": np.float64(total), "rows": np.int64(1)})
        return connection.request(push(**fields), update, into=update)[0]


@pytest.fixture
def run(kind: str, shared_memory: Path) -> Iterator[Run]:
    made = Run(kind)
    yield made
    made.served.close()


def _still_serves(run: Run) -> bool:
    """Whether another worker can join and push."""
    before = center(run.training)["total"]
    other = run.open(1, task=1)
    run.push(other, 10, base_version=run.training.store.version)
    return bool(center(run.training)["total"] == before + 10)


def _closed(connection: Any) -> bool:
    try:
        connection.request(Poll(0))
    except ConnectionClosed:
        return True
    return False


# -- requests that cannot be served ------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "payload"),
    [
        (push(0), bytes(LAYOUT.nbytes)),
        (push(0), None),
        (finish(), None),
        (Poll(0), None),
        (Fetch(0), None),
        (Failed("x", [], False, 0, []), None),
    ],
    ids=["Push", "Push without payload", "Finish", "Poll", "Fetch", "Failed"],
)
def test_whoever_has_not_joined_is_told_to(run: Run, request_: Any, payload: Any) -> None:
    connection = run.served.connect()
    with pytest.raises(RemoteProtocolError, match="Expected Join first, got"):
        connection.request(request_, payload)
    assert not of(WorkerFailed, run.events)
    assert _still_serves(run)


def test_a_connection_joins_once(run: Run) -> None:
    connection = run.open(0)
    with pytest.raises(RemoteProtocolError, match="joins once"):
        connection.request(join(1, task=5))
    # It stays the worker it was.
    assert run.push(connection, 3).status == "committed"
    assert [event.partition for event in of(WorkerJoined, run.events)] == [0]
    assert _still_serves(run)


@pytest.mark.parametrize("nbytes", [0, LAYOUT.nbytes - 1, LAYOUT.nbytes + 1, 1 << 20])
def test_an_update_of_another_size_is_refused_unread(run: Run, nbytes: int) -> None:
    connection = run.open()
    with pytest.raises(RemoteProtocolError, match=f"of {LAYOUT.nbytes} bytes, got {nbytes}"):
        connection.request(push(0), bytes(nbytes))
    assert center(run.training)["rows"] == 0
    assert _still_serves(run)


def test_a_payload_where_none_belongs_is_refused(run: Run) -> None:
    connection = run.open()
    with pytest.raises(RemoteProtocolError, match="Poll: expected a payload of 0 bytes, got 3"):
        connection.request(Poll(0), b"abc")
    assert _still_serves(run)


def test_a_worker_that_shares_memory_sends_no_payload(run: Run) -> None:
    with Segment(LAYOUT.nbytes) as segment:
        connection = run.open(segment=segment.name)
    with pytest.raises(RemoteProtocolError, match="of 0 bytes"):
        connection.request(push(0), bytes(LAYOUT.nbytes))
    assert center(run.training)["rows"] == 0
    assert _still_serves(run)


@pytest.mark.parametrize(
    "fields",
    [{"settings_version": 1}, {"base_version": 9}, {"steps": 0}],
    ids=str,
)
def test_a_push_that_cannot_be_right_costs_nothing_but_an_answer(
    run: Run, fields: dict[str, int]
) -> None:
    connection = run.open()
    with pytest.raises(RemoteProtocolError, match="expected"):
        run.push(connection, 3, **fields)
    assert run.push(connection, 5).status == "committed"
    assert center(run.training) == {"total": 5, "rows": 1}
    assert _still_serves(run)


@pytest.mark.parametrize("steps", [1, 1 << 40])
def test_a_finish_that_contradicts_the_pushes_is_refused(run: Run, steps: int) -> None:
    connection = run.open()
    with pytest.raises(RemoteProtocolError, match="expected 0 batches"):
        connection.request(finish(0, 0, steps))
    assert connection.request(finish(0, 0, 0))[0].directive is Directive.GO
    assert _still_serves(run)


@pytest.mark.parametrize("column", [1, 1 << 40])
def test_a_column_that_is_not_there_cannot_be_fetched(run: Run, column: int) -> None:
    connection = run.open()
    with pytest.raises(RemoteProtocolError, match=f"no column {column}"):
        connection.request(Fetch(column))
    answer, payload = connection.request(Fetch(0))
    assert answer == Rows("<f8", [2])
    assert payload is not None
    np.testing.assert_array_equal(np.frombuffer(payload, np.float64), [1, 2])
    assert _still_serves(run)


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_is_not_there_cannot_be_joined(run: Run, partition: int) -> None:
    with pytest.raises(RemoteProtocolError, match="from 0 to 1"):
        run.open(partition)
    assert not run.events
    assert _still_serves(run)


@pytest.mark.parametrize("refused", ["run", "partition", "superseded"])
def test_a_refused_worker_leaves_nothing_and_may_try_again(
    run: Run, shared_memory: Path, refused: str
) -> None:
    run.open(1, task=7)
    connection = run.served.connect()
    message = {
        "run": join(run="run-0"),
        "partition": join(5),
        "superseded": join(1, task=6),
    }[refused]
    with Segment(LAYOUT.nbytes) as segment, pytest.raises((SessionClosed, RemoteProtocolError)):
        connection.request(_with_segment(message, segment.name))
    assert list(shared_memory.iterdir()) == []
    joined, _ = connection.request(join(0, task=8))
    _, payload = connection.request(Poll(0))
    assert (joined.shared, len(payload)) == (False, LAYOUT.nbytes)
    assert run.push(connection, 3).status == "committed"


def _with_segment(message: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(message, segment=name)


# -- memory that both share --------------------------------------------------------------


def test_updates_and_replies_lie_in_the_segment(run: Run) -> None:
    run.push(run.open(1, task=1), 4)
    with Segment(LAYOUT.nbytes) as segment:
        connection = run.served.connect()
        joined, _ = connection.request(join(0, segment=segment.name))
    _, payload = connection.request(Poll(0))
    tensors = LAYOUT.tensors(segment.buffer)
    assert (joined.shared, payload, tensors["total"]) == (True, None, 4)
    tensors["total"][...] = 3
    reply, payload = connection.request(push(0, base_version=1))
    assert (reply.status, payload, tensors["total"]) == ("committed", None, 7)


@pytest.mark.parametrize("difference", [-8, 8, 4096])
def test_a_segment_of_another_size_is_not_used(run: Run, difference: int) -> None:
    with Segment(LAYOUT.nbytes + difference) as segment:
        connection = run.served.connect()
        joined, _ = connection.request(join(0, segment=segment.name))
    assert not joined.shared
    _, payload = connection.request(Poll(0))
    assert payload is not None


# -- connections that end ----------------------------------------------------------------


def _ended(run: Run) -> None:
    """Wait until the server has taken note of every connection's end."""
    run.served.close()


def test_a_worker_that_vanishes_is_lost(run: Run) -> None:
    run.open().abort()
    _ended(run)
    (lost,) = of(WorkerLost, run.events)
    assert (lost.partition, lost.executor) == (0, "executor-0")
    assert "closed" in lost.reason


def test_so_is_one_that_says_goodbye_too_early(run: Run) -> None:
    run.open().close()
    _ended(run)
    assert [event.reason for event in of(WorkerLost, run.events)] == ["it left early"]


def test_a_worker_that_has_finished_may_go(run: Run) -> None:
    connection = run.open()
    for epoch in range(2):
        run.push(connection, 1, epoch=epoch, base_version=epoch)
        answer, _ = connection.request(finish(epoch, 1, 1))
    assert answer.directive is Directive.LEAVE
    connection.close()
    _ended(run)
    assert not of(WorkerLost, run.events)


def test_the_end_of_a_superseded_connection_says_nothing_of_the_new_one(run: Run) -> None:
    old = run.open(0, task=0)
    new = run.open(0, task=100)
    old.abort()
    assert run.push(new, 3).status == "committed"
    assert [member.task for member in run.training.state.membership.active()] == [100]
    assert [event.executor for event in of(WorkerLost, run.events)] == ["executor-0"]


def test_a_connection_that_never_joined_is_nobody_s_loss(run: Run) -> None:
    run.served.connect().abort()
    _ended(run)
    assert not run.events


# -- the server itself -------------------------------------------------------------------


def test_a_server_between_runs_refuses_workers_by_name() -> None:
    secret = new_secret()
    server = RunServer(secret, "127.0.0.1", 0)
    connection = connect_tcp(*server.address, secret)
    with pytest.raises(SessionClosed, match="No run is being served"):
        connection.request(join())
    training, _ = counting_training()
    server.serve(training)
    assert connection.request(join())[0].epoch == 0
    server.serve(None)
    with pytest.raises(SessionClosed):
        connect_again(server, secret)
    connection.close()
    server.close()
    server.close()


def test_a_server_takes_the_next_port_if_another_has_its_own() -> None:
    first = RunServer(new_secret(), "127.0.0.1", 0)
    port = first.address.port
    second = RunServer(new_secret(), "127.0.0.1", port, last=port + 16)
    assert port < second.address.port <= port + 16
    with pytest.raises(TransportError, match=r"Cannot listen on .*`server_port` to a free port"):
        RunServer(new_secret(), "127.0.0.1", port)
    for server in (first, second):
        server.close()


def connect_again(server: RunServer, secret: Any) -> None:
    connection = connect_tcp(*server.address, secret)
    try:
        connection.request(join())
    finally:
        connection.close()


def test_one_server_serves_one_run_after_another() -> None:
    secret = new_secret()
    server = RunServer(secret, "127.0.0.1", 0)
    runs: list[Coordinator] = []
    for total in (1, 2):
        runs.append(counting_training()[0])
        server.serve(runs[-1])
        connection = connect_tcp(*server.address, secret)
        connection.request(join())
        update = LAYOUT.pack({"total": np.float64(total), "rows": np.int64(1)})
        connection.request(push(0), update, into=update)
        connection.close()
    assert [center(training)["total"] for training in runs] == [1, 2]
    server.close()


def test_whoever_lacks_the_secret_gets_nowhere() -> None:
    server = RunServer(new_secret(), "127.0.0.1", 0)
    training, events = counting_training()
    server.serve(training)
    with pytest.raises(AuthenticationError):
        connect_tcp(*server.address, new_secret())
    assert not events
    server.close()
    with pytest.raises(TransportError):
        connect_tcp(*server.address, new_secret(), timeout=1)


def test_a_server_that_can_let_no_worker_in_any_more_ends_its_run_and_takes_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, failed = threading.Event(), threading.Event()

    class Broken(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            if broken.is_set():
                raise ValueError("broken")
            return super().select(0.001)

    monkeypatch.setattr(selectors, "DefaultSelector", Broken)
    monkeypatch.setattr(acceptor, "Gate", partial(Gate, retry=0.0))
    server = RunServer(new_secret(), "127.0.0.1", 0)
    training, _ = counting_training(on_failure=failed.set)
    server.serve(training)
    broken.set()
    assert failed.wait(10)
    assert training.machine.state == "failed"
    assert isinstance(training.error, TransportError)
    assert "lets no more workers in: ValueError: broken. Start a new session." in str(
        training.error
    )
    with pytest.raises(TransportError, match="Start a new session"):
        server.serve(counting_training()[0])
    server.close()


def test_closing_the_server_ends_its_connections() -> None:
    secret = new_secret()
    server = RunServer(secret, "127.0.0.1", 0)
    server.serve(counting_training()[0])
    connection = connect_tcp(*server.address, secret)
    connection.request(join())
    server.close()
    with pytest.raises(TransportError):
        connection.request(Poll(0))
    assert _closed(connection)


def test_a_handler_holds_one_copy_of_the_model() -> None:
    """The update is received into what the reply is sent from."""
    training, _ = counting_training()

    handler = WorkerHandler(lambda: training)
    handler.handle(join(), None)
    _, sent = handler.handle(Poll(0), None)
    target = handler.receive_into(push(0), LAYOUT.nbytes)
    assert target is not None
    _, reply = handler.handle(push(0), target)
    places = [np.frombuffer(buffer, np.uint8).ctypes.data for buffer in (sent, target, reply)]  # type: ignore[call-overload]
    assert len(set(places)) == 1
