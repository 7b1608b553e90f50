"""The gate goes on, whatever the system or a client does to it."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from tests.transport.peers import LIMIT, SECRET
from tos_notebook.errors import TransportError
from tos_notebook.transport.auth import client_handshake, server_handshake
from tos_notebook.transport.gate import Gate
from tos_notebook.transport.tcp import TcpChannel


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

    def __init__(self, errors: list[int], refused: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.setblocking(False)
        self.let_in: list[str] = []
        self.some = threading.Event()
        self._refused = refused
        sock: Any = Flaky(self.listening, errors)
        self.gate = Gate(
            sock, self._prepare, lambda: server_handshake(SECRET), self._admit, LIMIT, 4
        )
        self._thread = threading.Thread(target=self.gate.run)
        self._thread.start()

    def _prepare(self, sock: socket.socket) -> socket.socket:
        if self._refused:
            self._refused -= 1
            raise OSError("it has left")
        return sock

    def _admit(self, sock: socket.socket, peer: str) -> None:
        self.let_in.append(peer)
        self.some.set()
        if len(self.let_in) == 1:
            raise TransportError("No thread.")
        sock.close()

    def knock(self) -> None:
        """Prove the secret, as a worker does."""
        with closing(socket.create_connection(self.listening.getsockname(), LIMIT)) as sock:
            channel = TcpChannel(sock, "gate", LIMIT, patient=False)
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
    served = make([], 1)
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
