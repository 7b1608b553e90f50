"""The thread that answers what is small for all: who is there, and when each thread is back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.threads import wait_for_end
from tests.unit.transport.conftest import LIMIT, Transport
from tests.unit.transport.peers import PUSH, Server, read
from tests.unit.worker.support import until
from tos_notebook.common import native
from tos_notebook.errors import ConnectionClosed, RemoteProtocolError
from tos_notebook.transport import reactor
from tos_notebook.transport.poller import new_poller
from tos_notebook.transport.reactor import THREAD_NAME, Reactor
from tos_notebook.transport.server import STEADY
from tos_notebook.wire.frames import HEADER_SIZE, decode_header, encode_head
from tos_notebook.wire.messages import Finish, Poll, Push

LOUD = 32 << 20
PUSHED = Push(0, 0, 1, 3, 0, 0, True, 0.5, 0.0, 0.0, 0.0, 0.0, 0, ())


@pytest.fixture(autouse=True, params=["compiled", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with what is compiled for small pushes, and without."""
    if request.param == "python":
        monkeypatch.setattr(native, "extension", None)
    elif native.extension is None:
        pytest.skip("needs a C compiler when this package is installed")


@pytest.fixture(params=["tcp", "tls"])
def wire(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def served(nothing_left: None, wire: str) -> Iterator[Transport]:
    made = Transport(wire)
    yield made
    made.close()


def push(connection: Any, times: int) -> None:
    for _ in range(times):
        assert bytes(connection.request(PUSHED, b"abc")[1]) == b"cba"


def served_by(handler: Any) -> set[str]:
    """Return the threads since this was asked last."""
    found, handler.threads = handler.threads, set()
    return found


def test_pushes_in_a_row_are_left_to_the_reactor(served: Transport) -> None:
    connection = served.connect()
    handler = served.handler(connection)
    push(connection, STEADY)
    assert THREAD_NAME not in served_by(handler)
    push(connection, 5)
    assert served_by(handler) == {THREAD_NAME}


def test_the_end_of_an_epoch_stays_with_the_reactor(served: Transport) -> None:
    connection = served.connect()
    handler = served.handler(connection)
    push(connection, STEADY + 1)
    served_by(handler)
    with pytest.raises(RemoteProtocolError):
        connection.request(Finish(0, 1, 1))
    push(connection, 1)
    assert served_by(handler) == {THREAD_NAME}


def test_what_may_wait_is_for_the_connections_own_thread(served: Transport) -> None:
    connection = served.connect()
    handler = served.handler(connection)
    push(connection, STEADY + 1)
    served_by(handler)
    handler.released.set()
    connection.request(Poll(0))
    assert THREAD_NAME not in served_by(handler)
    push(connection, STEADY)
    assert THREAD_NAME not in served_by(handler)


def test_others_are_served_while_one_waits_for_its_answer(served: Transport, aside: Any) -> None:
    first = served.connect()
    waiting = served.handler(first)
    push(first, STEADY + 1)
    polled = aside(lambda: first.request(Poll(0)))
    assert waiting.asked.wait(LIMIT)
    push(served.connect(), STEADY + 5)
    waiting.released.set()
    polled()


def test_pushes_that_take_long_stay_with_their_own_thread(served: Transport) -> None:
    connection = served.connect()
    handler = served.handler(connection)
    handler.brief = False
    push(connection, STEADY + 5)
    assert THREAD_NAME not in served_by(handler)


def test_a_push_that_takes_long_from_now_on_is_the_reactors_last(
    served: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = served.connect()
    handler = served.handler(connection)
    # Asked after the last push in its own thread, and after the first here.
    answers = iter([True, False])
    monkeypatch.setattr(type(handler), "brief", property(lambda self: next(answers)))
    push(connection, STEADY)
    assert THREAD_NAME not in served_by(handler)
    push(connection, 1)
    assert served_by(handler) == {THREAD_NAME}
    push(connection, 1)
    assert THREAD_NAME not in served_by(handler)


def test_what_a_handler_raises_reaches_the_worker_and_harms_nobody(served: Transport) -> None:
    one, other = served.connect(), served.connect()
    push(one, STEADY)
    push(other, STEADY + 1)
    with pytest.raises(RemoteProtocolError, match="expected 3 bytes, got 4"):
        one.request(PUSHED, b"four")
    push(other, 3)
    assert served.handlers[0].ended.wait(LIMIT)
    assert isinstance(served.handlers[0].ends[0], RemoteProtocolError)
    assert not served.handlers[1].ends


def test_a_worker_that_vanishes_is_noticed(served: Transport) -> None:
    one, other = served.connect(), served.connect()
    push(one, STEADY + 1)
    push(other, STEADY + 1)
    one.abort()
    assert served.handlers[0].ended.wait(LIMIT)
    assert isinstance(served.handlers[0].ends[0], ConnectionClosed)
    push(other, 3)


def test_one_that_stops_within_a_frame_keeps_nobody_waiting(nothing_left: None, wire: str) -> None:
    server = Server(steady=True, tls=wire == "tls")
    frame = encode_head(PUSH, 9, 10) + bytes(10)
    with closing(server.authenticated()) as slow, closing(server.authenticated()) as quick:
        slow.sendall(frame[:-3])
        for _ in range(3):
            assert answered(quick, frame) == 9
        assert answered(slow, frame[-3:]) == 9
    server.listener.close(LIMIT)


class Loud(Server):
    """Answers a push of two samples with more than sockets hold."""

    def handle(self, message: Any, payload: memoryview | None) -> Any:
        rows, parameters = super().handle(message, payload)
        return rows, bytes(LOUD) if message.samples == 2 else parameters


def test_one_that_does_not_read_its_answer_keeps_nobody_waiting(
    nothing_left: None, wire: str
) -> None:
    server = Loud(steady=True, tls=wire == "tls")
    frame = encode_head(PUSH, 9, 10) + bytes(10)
    with closing(server.authenticated()) as slow, closing(server.authenticated()) as quick:
        slow.sendall(encode_head(PUSH._replace(samples=2), 8, 10) + bytes(10))
        until(lambda: bool(server.handled))
        for _ in range(3):
            assert answered(quick, frame) == 9
        header = decode_header(read(slow, HEADER_SIZE))
        assert (header.sequence, header.payload) == (8, LOUD)
        assert read(slow, header.body)
        assert not any(read(slow, LOUD))
        assert answered(slow, frame) == 9
    server.listener.close(LIMIT)


def answered(sock: socket.socket, data: bytes) -> int:
    """Send bytes; return the number of the request that is answered."""
    sock.sendall(data)
    header = decode_header(read(sock, HEADER_SIZE))
    read(sock, header.body + header.payload)
    return header.sequence


def test_an_order_to_leave_reaches_a_connection_that_is_watched(served: Transport) -> None:
    connection = served.connect()
    push(connection, STEADY + 1)
    connection.close()
    served.listener.close(LIMIT)
    assert served.handlers[0].ends == [None]


def test_closing_ends_the_reactor_and_what_it_watches(served: Transport) -> None:
    connections = [served.connect() for _ in range(3)]
    for connection in connections:
        push(connection, STEADY + 1)
    assert any(thread.name == THREAD_NAME for thread in threading.enumerate())
    served.listener.close(LIMIT)
    assert not any(thread.name == THREAD_NAME for thread in threading.enumerate())
    assert all(len(handler.ends) == 1 for handler in served.handlers)


def test_a_closed_reactor_leaves_everything_to_the_threads() -> None:
    reactor = Reactor()
    assert reactor.close() == []
    reactor.attend(None, lambda: pytest.fail("was served"))  # type: ignore[arg-type]


def test_connections_outlive_a_reactor_that_fails(
    served: Transport, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that it watches, and those that would be left to it later."""
    full = threading.Event()

    def fragile() -> Any:
        made = new_poller()
        wait = made.wait

        def wait_or_fail() -> Any:
            if full.is_set():
                raise MemoryError("full")
            return wait()

        monkeypatch.setattr(made, "wait", wait_or_fail)
        return made

    # It comes with the first connection that is left to the reactor.
    monkeypatch.setattr(reactor, "new_poller", fragile)
    watched, later = served.connect(), served.connect()
    push(watched, STEADY + 1)
    full.set()
    push(watched, 1)
    wait_for_end(THREAD_NAME)
    assert "reactor has ended" in caplog.text
    for connection in (watched, later):
        push(connection, 2 * STEADY + 1)
