"""An acceptor by itself: peers that send and receive at once, and nothing but what they say."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.transport.conftest import LIMIT
from tests.unit.transport.peers import SECRET, read_all
from tos_notebook.errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectTimeout,
    TransportError,
)
from tos_notebook.transport.acceptor import Acceptor
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.dial import open_channel
from tos_notebook.transport.secured import SecuredSocket
from tos_notebook.transport.sockets import SocketChannel, Timeouts

Aside = Callable[[Callable[[], Any]], Callable[[], Any]]

HELLO = b"rank 3, of 4"
NBYTES = 4_000_000


class Peer:
    """An acceptor, and the channels and hellos of those that it has let in."""

    def __init__(self, tls: bool, **timeouts: Any) -> None:
        self.arrived: SimpleQueue[tuple[SocketChannel[Any], bytes]] = SimpleQueue()
        self.acceptor = Acceptor(
            SECRET,
            lambda channel, hello: self.arrived.put((channel, hello)),
            Endpoint(tls=tls),
            Timeouts(**timeouts),
            hello_size=len(HELLO),
        )
        self.acceptor.start()

    def dial(self, secret: bytes = SECRET) -> SocketChannel[Any]:
        """Return another peer's end of a new channel."""
        fingerprint = self.acceptor.fingerprint
        return open_channel(*self.acceptor.address, secret, fingerprint, Timeouts(), HELLO)

    def close(self) -> None:
        self.acceptor.close(LIMIT)
        while not self.arrived.empty():
            self.arrived.get()[0].close()


class OneAtATime:
    """TLS that does not bear two calls at the same time; OpenSSL promises no more."""

    def __init__(self, sock: SecuredSocket) -> None:
        self._tls, self._busy = sock._tls, threading.Lock()

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            assert self._busy.acquire(blocking=False)
            try:
                return getattr(self._tls, name)(*args)
            finally:
                self._busy.release()

        return call


@pytest.fixture(params=[False, True], ids=["tcp", "tls"])
def peer(request: pytest.FixtureRequest, nothing_left: None) -> Iterator[Peer]:
    made = Peer(request.param)
    yield made
    made.close()


def test_two_peers_send_and_receive_megabytes_at_once(peer: Peer, aside: Aside) -> None:
    """Of what the kernel keeps on the way this is many times: neither may send first."""
    rounds = 3
    with ExitStack() as stack:
        ours = stack.enter_context(closing(peer.dial()))
        theirs, hello = peer.arrived.get(timeout=LIMIT)
        stack.callback(theirs.close)
        assert hello == HELLO
        for sock in (ours._sock, theirs._sock):
            if isinstance(sock, SecuredSocket):
                sock._tls = cast("Any", OneAtATime(sock))
        said = [os.urandom(NBYTES) for _ in range(2)]
        heard = [np.zeros(rounds * NBYTES, np.uint8) for _ in range(2)]

        def send(channel: SocketChannel[Any], data: bytes) -> None:
            for _ in range(rounds):
                channel.send(b"", memoryview(data))

        def receive(channel: SocketChannel[Any], into: Any) -> None:
            for number in range(rounds):
                channel.receive(into[number * NBYTES :][:NBYTES].data)

        ends = [
            aside(lambda: send(ours, said[0])),
            aside(lambda: send(theirs, said[1])),
            aside(lambda: receive(theirs, heard[0])),
            aside(lambda: receive(ours, heard[1])),
        ]
        for end in ends:
            end()
    assert [data.tobytes() for data in heard] == [data * rounds for data in said]


def test_a_stranger_costs_one_closed_connection(peer: Peer) -> None:
    with pytest.raises(AuthenticationError):
        peer.dial(new_secret())
    with closing(socket.create_connection(peer.acceptor.address, LIMIT)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9)
        read_all(sock)
    peer.dial().close()
    assert peer.arrived.get(timeout=LIMIT)[1] == HELLO
    assert peer.arrived.empty()


def test_a_hello_of_another_length_lets_no_peer_in(nothing_left: None) -> None:
    peer = Peer(tls=False, handshake=0.05)
    address = peer.acceptor.address
    for hello in (HELLO[:-1], HELLO + b"!"):
        with pytest.raises((AuthenticationError, ConnectionClosed, ConnectTimeout)):
            open_channel(*address, SECRET, None, Timeouts(), hello, pauses=())
    peer.close()
    assert peer.arrived.empty()


def test_closing_ends_the_handshakes_and_gives_the_port_back(peer: Peer) -> None:
    """The channels that it has let in are their owner's, and stay."""
    with ExitStack() as stack:
        ours = stack.enter_context(closing(peer.dial()))
        theirs, _ = peer.arrived.get(timeout=LIMIT)
        stack.callback(theirs.close)
        pending = stack.enter_context(
            closing(socket.create_connection(peer.acceptor.address, LIMIT))
        )
        peer.acceptor.close(LIMIT)
        peer.acceptor.close(LIMIT)
        assert read_all(pending) == b""
        again = Endpoint(port=peer.acceptor.address.port)
        Acceptor(SECRET, lambda channel, hello: None, again).close()
        ours.send(b"still", memoryview(b" here"))
        heard = bytearray(10)
        theirs.receive(memoryview(heard))
    assert heard == b"still here"


def test_a_channel_that_is_shut_down_wakes_both_directions(peer: Peer, aside: Aside) -> None:
    ours = peer.dial()
    sending = aside(lambda: ours.send(b"", memoryview(bytes(30_000_000))))
    receiving = aside(lambda: ours.receive(memoryview(bytearray(1))))
    ours.shutdown()
    for end in (sending, receiving):
        with pytest.raises(ConnectionClosed):
            end()
    ours.close()


def _in_a_row(count: int) -> list[socket.socket]:
    """Take so many ports one after the other."""
    for _ in range(100):
        taken = [socket.create_server(("127.0.0.1", 0))]
        first = taken[0].getsockname()[1]
        try:
            others = range(first + 1, first + count)
            taken.extend(socket.create_server(("127.0.0.1", port)) for port in others)
            return taken
        except (OSError, OverflowError):
            for sock in taken:
                sock.close()
    pytest.skip("needs three free ports in a row")


def test_the_first_free_port_of_a_range_is_taken_and_a_range_that_is_taken_is_named() -> None:
    with ExitStack() as stack:
        taken = [stack.enter_context(sock) for sock in _in_a_row(3)]
        first = taken[0].getsockname()[1]
        endpoint = Endpoint("127.0.0.1", first, first + 2, advice="Name other ports.")
        message = rf"Cannot listen on 127\.0\.0\.1:{first}-{first + 2}: .*\. Name other ports\."
        with pytest.raises(TransportError, match=message):
            Acceptor(SECRET, lambda channel, hello: None, endpoint)
        taken[1].close()
        acceptor = Acceptor(SECRET, lambda channel, hello: None, endpoint)
        assert acceptor.address.port == first + 1
        acceptor.close()
