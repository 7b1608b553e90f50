"""Peers without the secret cost a socket for a few seconds, and those with it what is theirs."""

from __future__ import annotations

import math
import os
import random
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.long import few
from tests.unit.transport.peers import LIMIT, PARAMETERS, SECRET, Relay, Server, read, read_all
from tos_notebook.errors import ConnectTimeout, TosError
from tos_notebook.transport import sockets
from tos_notebook.transport.client import ChannelConnection
from tos_notebook.transport.dial import connect_tcp, open_channel
from tos_notebook.transport.sockets import Timeouts
from tos_notebook.transport.tcp import TcpChannel
from tos_notebook.wire.frames import HEADER_SIZE, encode_head
from tos_notebook.wire.messages import Fetch, Push

STRANGER = "127.0.0.2"

CROWDING = 120.0
"""Seconds in which a crowd has to be there."""
PENDING = 16
KINDS = ["tcp", "tls"]
PUSH = Push(0, 0, 1, 1, 0, 0, True, 0.5, 0.0, 0.0, 0.0, 0.0, 0, ())
UPDATE = b"0123456789"

Open = Callable[..., Server]


@pytest.fixture
def serve(nothing_left: None) -> Iterator[Open]:
    made: list[Server] = []

    def start(kind: str, **options: Any) -> Server:
        made.append(Server(tls=kind == "tls", **({"max_pending": PENDING} | options)))
        return made[-1]

    yield start
    for server in made:
        server.listener.close(LIMIT)


def _exchange(server: Server) -> bytes:
    target = *server.listener.address, SECRET, server.listener.fingerprint
    with closing(connect_tcp(*target)) as connection:
        return bytes(connection.request(Fetch(0))[1] or b"")


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


# -- who holds connections -----------------------------------------------------------------


@pytest.mark.parametrize("kind", few(KINDS, "tls"))
def test_ten_thousand_connections_held_open_keep_nobody_out(serve: Open, kind: str) -> None:
    """From another address: neither sockets, threads nor memory are theirs."""
    server = serve(kind, max_pending=256)
    assert _exchange(server) == PARAMETERS
    before, memory = threading.active_count(), _resident()
    with _crowd(server, 10_000, STRANGER) as held:
        assert _exchange(server) == PARAMETERS
        assert sum(map(_is_open, held)) <= 256
        # Those of good workers that have just left may still be ending.
        assert threading.active_count() <= before + 2
        assert _resident() - memory < 100e6
        # All but the last ones were closed.
        opened = len(list(Path("/proc/self/fd").iterdir()))
        assert opened - len(held) < 256 + 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_at_a_workers_own_address_delays_it_at_most(serve: Open, kind: str) -> None:
    server = serve(kind, max_pending=256)
    with _crowd(server, 2_000, "127.0.0.1"):
        assert _exchange(server) == PARAMETERS


def _is_open(sock: socket.socket) -> bool:
    """Return whether a server that says nothing to strangers has yet to close a connection."""
    try:
        return bool(sock.recv(1, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


@contextmanager
def _crowd(server: Server, count: int, source: str) -> Iterator[list[socket.socket]]:
    """Open connections and hold them, and let workers be served while they come."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 1_000:
        pytest.skip(f"needs {count + 1_000} file descriptors, the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 1_000), hard))
    held: list[socket.socket] = []

    def crowd() -> None:
        end = monotonic() + CROWDING
        while len(held) < count and monotonic() < end:
            with suppress(OSError):
                held.append(server.dial(source))

    crowding = threading.Thread(target=crowd)
    crowding.start()
    served = 0
    while crowding.is_alive():
        assert _exchange(server) == PARAMETERS
        served += 1
    crowding.join()
    assert len(held) == count
    assert served
    yield held
    for sock in held:
        sock.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_of_one_address_loses_its_own_oldest(serve: Open, kind: str) -> None:
    server = serve(kind, max_pending=4)
    crowd = [server.dial(STRANGER) for _ in range(3)]
    quiet = server.dial("127.0.0.3")
    more = [server.dial(STRANGER) for _ in range(2)]
    for sock in crowd[:2]:
        assert read_all(sock) == b""
    for sock in (crowd[2], quiet, *more):
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    for sock in (*crowd, quiet, *more):
        sock.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_byte_now_and_then_does_not_prolong_a_handshake(serve: Open, kind: str) -> None:
    server = serve(kind, handshake=0.3)
    with closing(server.dial()) as sock:
        sock.settimeout(0.02)
        with suppress(OSError):
            for _ in range(1000):
                sock.send(b"\x16" if kind == "tls" else b"T")
                with suppress(TimeoutError):
                    if not sock.recv(1):
                        break
        # It was the server that closed it.
        sock.settimeout(LIMIT)
        assert read_all(sock) == b""
    assert not server.made


class Dripping:
    """A socket of a peer that sends a byte a second, by a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0

    def recv_into(self, target: memoryview, *_: int) -> int:
        self.now += 1.0
        assert self.now < 1000, "the frame has no end"
        target[:1] = b"\0"
        return 1


def test_a_frame_that_drips_is_given_up_however_steadily(monkeypatch: pytest.MonkeyPatch) -> None:
    peer: Any = Dripping()
    monkeypatch.setattr(sockets, "monotonic", lambda: peer.now)
    channel = TcpChannel(peer, "peer", 60.0, patience=math.inf)
    with pytest.raises(ConnectTimeout, match="bytes are still missing"):
        channel.receive_payload(memoryview(bytearray(1_000_000)))
    # The timeout, and what the bytes may take.
    assert 60 < peer.now < 60 + 1_000_000 / sockets.SLOWEST + 3


# -- what was heard before -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [True, False], ids=["at once", "in turn"])
def test_a_recorded_session_sent_again_is_nobodys(serve: Open, kind: str, whole: bool) -> None:
    server = serve(kind, handshake=0.3)
    parts: list[bytes] = []

    def keep(upward: bool, at: int, data: bytes) -> bytes:
        if upward:
            parts.append(data)
        return data

    relay = Relay(server.listener.address, keep)
    connection = connect_tcp(*relay.address, SECRET, server.listener.fingerprint)
    connection.request(PUSH, UPDATE)
    connection.close()
    relay.close()
    assert server.ended.wait(LIMIT)
    handled, made = len(server.handled), len(server.made)
    with closing(server.dial()) as sock:
        answers = b""
        with suppress(ConnectionError):
            for part in [b"".join(parts)] if whole else parts:
                sock.sendall(part)
                answers += sock.recv(65_536)
        answers += read_all(sock)
    assert PARAMETERS not in answers
    assert _exchange(server) == PARAMETERS
    assert (len(server.handled), len(server.made)) == (handled + 1, made + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_without_a_handshake_are_not_even_read(serve: Open, kind: str) -> None:
    server = serve(kind)
    for opened in (server.dial, server.secured):
        with closing(opened()) as sock:
            sock.sendall(encode_head(PUSH, 1, 10) + UPDATE)
            assert PARAMETERS not in read_all(sock)
    assert not server.made


@pytest.mark.parametrize("kind", KINDS)
def test_a_challenge_sent_back_is_no_proof(serve: Open, kind: str) -> None:
    """Neither on the connection that it came on, nor as the hello of another one."""
    server = serve(kind)
    hello = b"TOSA\x01" + bytes(32)
    with closing(server.secured()) as sock, closing(server.secured()) as other:
        sock.sendall(hello)
        challenge = read(sock, 69)
        other.sendall(challenge[:37])
        reflected = read(other, 69)
        sock.sendall(reflected[37:])
        other.sendall(challenge[37:])
        for one in (sock, other):
            assert read(one, 1) == b"\0"
    assert not server.made


# -- what is changed on its way ------------------------------------------------------------


def _session(address: Any, fingerprint: bytes, seconds: float) -> bytes:
    """Push and fetch over a connection; return the parameters that came."""
    # One attempt, as each has an end of its own.
    timeouts = Timeouts(seconds, 0.0, seconds)
    channel = open_channel(*address, SECRET, fingerprint, timeouts, pauses=())
    connection = ChannelConnection(channel, 1 << 20)
    try:
        connection.request(PUSH, UPDATE)
        return bytes(connection.request(Fetch(7))[1] or b"")
    finally:
        connection.close()


def _lengths(server: Server) -> dict[bool, int]:
    relay = Relay(server.listener.address)
    _session(relay.address, server.listener.fingerprint or b"", LIMIT)
    relay.close()
    return {upward: len(heard) for upward, heard in relay.heard.items()}


@pytest.mark.parametrize("cut", [False, True], ids=["flipped", "truncated"])
@pytest.mark.parametrize("upward", [True, False], ids=["to the server", "to the worker"])
def test_within_tls_whatever_is_changed_on_its_way_is_noticed(
    serve: Open, upward: bool, cut: bool
) -> None:
    """What arrives is what was sent, or nothing: at forty places of a whole session."""
    server = serve("tls", handshake=0.5, transfer=0.5)
    # The last words are a goodbye, without which the session was complete.
    length = _lengths(serve("tls"))[upward] - 60
    chance = random.Random(length)
    for place in sorted(chance.sample(range(length), 40)):

        def change(up: bool, at: int, data: bytes, place: int = place) -> bytes | None:
            if up != upward or not at <= place < at + len(data):
                return data
            if cut:
                return None
            changed = bytearray(data)
            changed[place - at] ^= 1 << chance.randrange(8)
            return bytes(changed)

        relay = Relay(server.listener.address, change)
        try:
            assert _session(relay.address, server.listener.fingerprint or b"", 0.5) == PARAMETERS
            complete = True
        except TosError:
            complete = False
        relay.close()
        # The first header of all may say any version of TLS.
        assert not complete or place < 3
        assert all(item in [(PUSH, UPDATE), (Fetch(7), b"")] for item in server.handled)
    assert _exchange(server) == PARAMETERS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", [1, HEADER_SIZE, HEADER_SIZE + 5, -1])
def test_a_push_that_is_cut_off_is_not_handled(serve: Open, kind: str, sent: int) -> None:
    server = serve(kind)
    frame = encode_head(PUSH, 1, 10) + UPDATE
    with closing(server.authenticated()) as sock:
        sock.sendall(frame[:sent])
    assert server.ended.wait(LIMIT)
    assert server.ends[0] is not None
    assert not server.handled


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_of_one_with_the_secret_costs_its_connection_only(serve: Open, kind: str) -> None:
    server = serve(kind)
    chance = random.Random(0)
    for _ in range(20):
        with closing(server.authenticated()) as sock:
            with suppress(ConnectionError):
                sock.sendall(chance.randbytes(chance.randrange(1, 5000)))
                sock.shutdown(socket.SHUT_WR)
            assert PARAMETERS not in read_all(sock)
    assert not server.handled
    assert _exchange(server) == PARAMETERS
