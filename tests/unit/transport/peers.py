"""A server that counts, and peers that speak to it below the level of messages."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from tos_notebook.transport.acceptor import MAX_PENDING
from tos_notebook.transport.auth import client_handshake, new_secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.listener import TcpListener
from tos_notebook.transport.server import STEADY
from tos_notebook.transport.sockets import Timeouts
from tos_notebook.transport.tls import wrap_client
from tos_notebook.wire.bodies import decode_body
from tos_notebook.wire.frames import HEADER_SIZE, decode_header, encode_head
from tos_notebook.wire.messages import Push, Rows

LIMIT = 10.0
MOST = 1 << 16
"""Bytes that are read at once: a socket may make room for as many as it is asked for."""
SECRET = new_secret()
PARAMETERS = b"the parameters"
PUSH = Push(0, 0, 1, 1, 0, 0, True, 0.5, 0.0, 0.0, 0.0, 0.0, 0, ())


class Server:
    """A listener whose handlers count, and whose connections' ends can be waited for.

    With `steady`, those that have proved the secret have been left to the reactor. The other
    options are those of its endpoint and its timeouts.
    """

    brief = needed = True

    def __init__(
        self, steady: bool = False, max_pending: int = MAX_PENDING, **options: Any
    ) -> None:
        self.steady = steady
        self.made: list[str] = []
        self.received: list[int] = []
        self.handled: list[tuple[Any, bytes]] = []
        self.ends: list[Exception | None] = []
        self.ended = threading.Event()
        where = {name: options.pop(name) for name in ("host", "port", "tls") if name in options}
        self.listener = TcpListener(
            self._make, SECRET, Endpoint(**where), Timeouts(**options), max_pending
        )
        self.listener.start()

    def _make(self, peer: str) -> Server:
        self.made.append(peer)
        return self

    def receive_into(self, message: Any, nbytes: int) -> memoryview | None:
        self.received.append(nbytes)
        return memoryview(bytearray(10)) if isinstance(message, Push) else None

    def handle(self, message: Any, payload: memoryview | None) -> Any:
        self.handled.append((message, bytes(payload or b"")))
        return Rows("uint8", [len(PARAMETERS)]), PARAMETERS

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)
        self.ended.set()

    def dial(self, source: str = "127.0.0.1") -> socket.socket:
        """Return a new connection that has said nothing yet."""
        return socket.create_connection(self.listener.address, LIMIT, (source, 0))

    def secured(self) -> socket.socket:
        """Return a connection that has said nothing yet but what TLS needs, if it is spoken."""
        sock, fingerprint = self.dial(), self.listener.fingerprint
        return (
            wrap_client(sock, "server", fingerprint, monotonic() + LIMIT) if fingerprint else sock
        )

    def authenticated(self) -> socket.socket:
        """Return a connection that has proved the secret."""
        sock = self.secured()
        sock.settimeout(LIMIT)
        side = client_handshake(SECRET, self.listener.fingerprint or b"")
        outgoing, expected = next(side)
        try:
            while True:
                sock.sendall(outgoing)
                outgoing, expected = side.send(read(sock, expected))
        except StopIteration:
            if self.steady:
                self._settle(sock)
            return sock

    def _settle(self, sock: socket.socket) -> None:
        for _ in range(STEADY):
            sock.sendall(encode_head(PUSH, 1, 10) + bytes(10))
            header = decode_header(read(sock, HEADER_SIZE))
            read(sock, header.body + header.payload)
        self.received.clear()
        self.handled.clear()


def read(sock: socket.socket, nbytes: int) -> bytes:
    data = bytearray()
    while len(data) < nbytes and (part := sock.recv(min(nbytes - len(data), MOST))):
        data += part
    return bytes(data)


def read_all(sock: socket.socket) -> bytes:
    """Return what comes until the server closes, which it has to."""
    data = b""
    try:
        while part := sock.recv(65_536):
            data += part
    except (ConnectionResetError, ssl.SSLError):
        # What TLS is cut off from without a word is an error of its own.
        pass
    return data


def message(data: bytes) -> Any:
    """Return the message of a frame."""
    header = decode_header(data)
    return decode_body(header.kind, data[HEADER_SIZE : HEADER_SIZE + header.body])


class Relay:
    """Somebody between a client and the server, who hears all and may change it.

    `change(upward, at, data)` returns what to pass on of what came `at` so many bytes after the
    begin of its direction; None to cut the connection.
    """

    def __init__(
        self, target: Any, change: Callable[[bool, int, bytes], bytes | None] | None = None
    ) -> None:
        self.heard = {True: b"", False: b""}
        self._target = target
        self._change = change or (lambda upward, at, data: data)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = self._listening.getsockname()
        self._threads = [threading.Thread(target=self._run)]
        self._threads[0].start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target, LIMIT)
                for upward in (True, False):
                    ends = (client, server) if upward else (server, client)
                    thread = threading.Thread(target=self._pass_on, args=(upward, *ends))
                    thread.start()
                    self._threads.append(thread)

    def _pass_on(self, upward: bool, source: socket.socket, target: socket.socket) -> None:
        at = 0
        with suppress(OSError):
            while data := source.recv(65_536):
                self.heard[upward] += data
                changed = self._change(upward, at, data)
                at += len(data)
                if changed is None:
                    break
                target.sendall(changed)
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()


def memory(nbytes: int, seals: int, token: str = "") -> tuple[str, int]:
    """Return memory with seals of one's own choice: its name for the server, its descriptor."""
    token = token or f"tos-{secrets.token_hex(16)}"
    descriptor = os.memfd_create(token, os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, nbytes)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return f"{token}-{os.getpid()}-{descriptor}", descriptor
