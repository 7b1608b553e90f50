"""A handler that does what its requests say, and one interface to all transports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tos_notebook.errors import RemoteProtocolError, ShapeMismatch
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import BytesLike, Endpoint
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.transport.listener import TcpListener
from tos_notebook.wire.messages import (
    Answer,
    Directive,
    Fetch,
    Finish,
    Poll,
    Proceed,
    Push,
    Reply,
    Request,
    Rows,
)

LIMIT = 10.0
"""Seconds after which a test that waits has failed."""


class Handler:
    """Push echoes its payload reversed, Fetch sends `column` bytes, Poll blocks, Finish raises."""

    brief = needed = True

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.ends: list[Exception | None] = []
        self.ended = threading.Event()
        self.asked = threading.Event()
        self.released = threading.Event()
        self.requests: list[Request] = []
        self.threads: set[str] = set()

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        if isinstance(message, Push):
            if nbytes != message.samples:
                raise RemoteProtocolError(f"expected {message.samples} bytes, got {nbytes}")
            return memoryview(bytearray(nbytes))
        return None

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        self.requests.append(message)
        self.threads.add(threading.current_thread().name)
        if isinstance(message, Push):
            reply = None if payload is None else bytes(payload)[::-1]
            return Reply(message.epoch, 0, "committed", Directive.GO, None), reply
        if isinstance(message, Fetch):
            return Rows("uint8", [message.column]), bytes(message.column)
        if isinstance(message, Poll):
            self.asked.set()
            assert self.released.wait(LIMIT)
        if isinstance(message, Finish):
            raise ShapeMismatch("no such shape") if message.epoch else ValueError("private")
        return Proceed(Directive.GO, 0, None), None

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)
        self.ended.set()


class Transport:
    """A started listener, its handlers, and ways to it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.secret = new_secret()
        self.handlers: list[Handler] = []
        self.connections: list[ChannelConnection] = []
        self.listener: Any
        if kind == "inproc":
            self.listener = InprocListener(self._make)
        else:
            self.listener = TcpListener(self._make, self.secret, Endpoint(tls=kind == "tls"))
        self.listener.start()

    def _make(self, peer: str) -> Handler:
        self.handlers.append(Handler(peer))
        return self.handlers[-1]

    def connect(self, **options: Any) -> ChannelConnection:
        if self.kind == "inproc":
            connection = connect_inproc(self.listener, **options)
        else:
            target = *self.listener.address, self.secret, self.listener.fingerprint
            connection = connect_tcp(*target, **options)
        self.connections.append(connection)
        return connection

    def handler(self, connection: ChannelConnection) -> Handler:
        """Return the handler of the only connection, which this makes sure is there."""
        connection.request(Fetch(1))
        (handler,) = self.handlers
        return handler

    def close(self) -> None:
        for connection in self.connections:
            connection.abort()
        for handler in self.handlers:
            handler.released.set()
        self.listener.close(LIMIT)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Hold every test to ending the threads it started."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture(params=["inproc", "tcp", "tls"])
def transport(request: pytest.FixtureRequest, nothing_left: None) -> Iterator[Transport]:
    made = Transport(request.param)
    yield made
    made.close()


@pytest.fixture
def aside() -> Iterator[Callable[[Callable[[], Any]], Callable[[], Any]]]:
    """Run a call in a thread; what comes back waits for its result, or raises its error."""
    threads: list[threading.Thread] = []

    def start(call: Callable[[], Any]) -> Callable[[], Any]:
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome.append((call(), None))
            except Exception as error:
                outcome.append((None, error))

        def result() -> Any:
            thread.join(LIMIT)
            assert outcome, "the call did not end"
            value, error = outcome[0]
            if error is not None:
                raise error
            return value

        thread = threading.Thread(target=run)
        thread.start()
        threads.append(thread)
        return result

    yield start
    for thread in threads:
        thread.join(LIMIT)
