"""The gate goes on, whatever the system or a client does to it."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from tests.unit.transport.peers import LIMIT, SECRET
from tos_notebook.errors import TransportError
from tos_notebook.transport.auth import client_handshake, server_handshake
from tos_notebook.transport.gate import Gate
from tos_notebook.transport.tcp import TcpChannel

PENDING = 4
"""Clients that may be at their handshakes at a time."""


class Flaky:
    """A listening socket whose first calls of `accept` fail."""

    def __init__(self, sock: socket.socket, errors: list[int]) -> None:
        self._sock = sock
        self._errors = errors
        self.fileno, self.shutdown = sock.fileno, sock.shutdown

    def accept(self) -> Any:
        if self._errors:
            number = self._errors.pop()
            raise OSError(number, os.strerror(number))
        return self._sock.accept()


class Served:
    """A gate in a thread, and who was let in."""

    def __init__(self, errors: list[int], *refusals: Exception) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.let_in: list[str] = []
        self.some = threading.Event()
        self._refusals = list(refusals)
        self.error: Exception | None = None
        sock: Any = Flaky(self.listening, errors)
        self.gate = Gate(
            sock, self._prepare, lambda: server_handshake(SECRET), self._admit, LIMIT, PENDING,
            self._fail, retry=0.0,
        )  # fmt: skip
        self._thread = threading.Thread(target=self.gate.run)
        self._thread.start()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.some.set()

    def _prepare(self, sock: socket.socket) -> socket.socket:
        if self._refusals:
            raise self._refusals.pop()
        return sock

    def _admit(self, sock: socket.socket, peer: str, hello: bytes) -> None:
        self.let_in.append(peer)
        self.some.set()
        if len(self.let_in) == 1:
            raise TransportError("No thread.")
        sock.close()

    def knock(self) -> None:
        """Prove the secret, as a worker does."""
        with closing(socket.create_connection(self.listening.getsockname(), LIMIT)) as sock:
            channel = TcpChannel(sock, "gate", LIMIT, patience=0.0)
            channel.shake_hands(client_handshake(SECRET), monotonic() + LIMIT)

    def close(self) -> None:
        self.gate.close()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self.listening.close()


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Served] = []

    def start(*args: Any) -> Served:
        made.append(Served(*args))
        return made[-1]

    yield start
    for served in made:
        served.close()


def test_a_system_that_has_no_descriptor_for_a_moment_is_asked_again(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served = make([errno.EMFILE])
    served.knock()
    assert served.some.wait(LIMIT)
    assert "could not be accepted" in caplog.text


def test_a_client_that_leaves_before_it_is_accepted_is_no_matter(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    served = make([errno.ECONNABORTED] * 5)
    served.knock()
    assert served.some.wait(LIMIT)
    assert caplog.text == ""


def test_one_that_leaves_before_its_handshake_begins_is_closed(make: Any) -> None:
    served = make([], OSError("it has left"))
    with closing(socket.create_connection(served.listening.getsockname(), LIMIT)) as sock:
        assert sock.recv(1) == b""
    served.knock()
    assert served.some.wait(LIMIT)


def test_who_cannot_be_served_is_closed_and_the_next_one_is(make: Any) -> None:
    served = make([])
    for _ in range(2):
        served.some.clear()
        served.knock()
        assert served.some.wait(LIMIT)
    assert len(served.let_in) == 2


def _dropped(served: Served) -> bool:
    with closing(socket.create_connection(served.listening.getsockname(), LIMIT)) as sock:
        return sock.recv(1) == b""


def test_an_error_with_one_client_costs_that_client_alone(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served = make([], MemoryError("no room for TLS"))
    assert _dropped(served)
    assert "no room for TLS" in caplog.text
    served.knock()
    assert served.some.wait(LIMIT)
    assert (len(served.let_in), served.error) == (1, None)


def test_a_client_that_cannot_be_watched_is_forgotten(
    make: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the gate would fall over it once more come than may be at it, or at the end."""
    errors = [KeyError("taken"), MemoryError("full")] * PENDING

    class Full(selectors.DefaultSelector):
        def register(self, *args: Any) -> Any:
            # Its own socket is the first, and has no data.
            if errors and len(args) > 2:
                raise errors.pop()
            return super().register(*args)

    monkeypatch.setattr(selectors, "DefaultSelector", Full)
    served = make([])
    assert [_dropped(served) for _ in range(2 * PENDING)] == [True] * 2 * PENDING
    served.knock()
    assert served.some.wait(LIMIT)
    assert served.error is None
    assert "error of its own" not in caplog.text


@pytest.mark.parametrize("times", [3, 10**6])
def test_a_gate_that_fails_again_and_again_says_so(
    make: Any, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that knocks in vain would not know why."""
    left = [times]

    class Broken(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            left[0] -= 1
            if left[0] >= 0:
                raise ValueError("broken")
            return super().select(timeout)

    monkeypatch.setattr(selectors, "DefaultSelector", Broken)
    served = make([])
    if times == 3:
        served.knock()
    assert served.some.wait(LIMIT)
    assert (len(served.let_in), str(served.error)) == ((1, "None") if times == 3 else (0, "broken"))
