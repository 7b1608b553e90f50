"""Threads that take turns: who waits for whom, and who must not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.transport.test_tcp import SECRET, Server, _authenticated
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.tcp import connect_tcp
from tos_notebook.wire.frames import encode_head
from tos_notebook.wire.messages import Fetch, Poll, Push

LIMIT = 10.0
PUSH = Push(0, 0, 1, 10, 0, 0, True, 0.5, 0.0, 0.0, 0.0, ())
Aside = Callable[[Callable[[], Any]], Callable[[], Any]]


class Noting(Server):
    """Notes the threads of pushes; a poll waits until it is let go."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.polled, self.released = threading.Semaphore(0), threading.Event()
        super().__init__()

    def handle(self, message: Any, payload: memoryview | None) -> Any:
        if isinstance(message, Push):
            self.threads.append(threading.get_ident())
        if isinstance(message, Poll):
            self.polled.release()
            assert self.released.wait(LIMIT)
        return super().handle(message, payload)

    def connect(self) -> ChannelConnection:
        return connect_tcp(*self.listener.address, SECRET)


@pytest.fixture
def noting(nothing_left: None) -> Iterator[Noting]:
    made = Noting()
    yield made
    made.released.set()
    made.listener.close(LIMIT)


def _push(connection: ChannelConnection) -> bytes:
    payload = connection.request(PUSH, bytes(10))[1]
    assert payload is not None
    return bytes(payload)


def test_one_thread_answers_the_quick_requests_of_all(noting: Noting) -> None:
    connections = [noting.connect() for _ in range(4)]
    for connection in connections * 5:
        assert _push(connection) == b"x"
    assert len(noting.threads) == 20
    assert len(set(noting.threads)) == 1


def test_a_request_that_takes_long_holds_nobody_up(noting: Noting, aside: Aside) -> None:
    slow = [noting.connect() for _ in range(3)]
    quick = noting.connect()
    waiting = [aside(lambda c=c: c.request(Poll(0))) for c in slow]
    for _ in slow:
        assert noting.polled.acquire(timeout=LIMIT)
    assert _push(quick) == b"x"
    noting.released.set()
    for result in waiting:
        result()
    for connection in (*slow, quick):
        assert _push(connection) == b"x"


@pytest.mark.parametrize("cut", [1, 30, -1])
def test_a_frame_that_has_not_come_whole_holds_nobody_up(noting: Noting, cut: int) -> None:
    frame = encode_head(PUSH, 1, 10) + bytes(10)
    with closing(_authenticated(noting.listener.address)) as halting:
        halting.sendall(frame[:cut])
        assert _push(noting.connect()) == b"x"
        halting.sendall(frame[cut:])
        assert halting.recv(1, socket.MSG_PEEK)


def test_connections_come_and_go_among_others(noting: Noting, aside: Aside) -> None:
    def work(number: int) -> int:
        answered = 0
        for turn in range(10):
            with closing(noting.connect()) as connection:
                for _ in range(number + turn):
                    answered += _push(connection) == b"x"
                    answered += connection.request(Fetch(1))[1] is not None
        return answered

    results = [aside(lambda n=n: work(n)) for n in range(6)]
    for number, result in enumerate(results):
        assert result() == 2 * (10 * number + 45)


def test_a_connection_that_breaks_leaves_the_others(noting: Noting) -> None:
    connection = noting.connect()
    assert _push(connection) == b"x"
    with closing(_authenticated(noting.listener.address)) as broken:
        broken.sendall(b"not a frame, but as long as one would be")
        assert noting.ended.wait(LIMIT)
    assert _push(connection) == b"x"
