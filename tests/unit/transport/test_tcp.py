"""What only TCP has: strangers, ports and bytes that come as they like."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.unit.transport.peers import (
    LIMIT,
    PARAMETERS,
    PUSH,
    SECRET,
    Server,
    message,
    read,
    read_all,
)
from tos_notebook.errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectTimeout,
    TransportError,
)
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.listener import TcpListener
from tos_notebook.wire.frames import HEADER, HEADER_SIZE, MAGIC, VERSION, decode_header, encode_head
from tos_notebook.wire.messages import Fetch, Goodbye, Refused


@pytest.fixture(params=["tcp", "tls", "reactor"])
def server(request: pytest.FixtureRequest, nothing_left: None) -> Iterator[Server]:
    kind = request.param
    made = Server(kind == "reactor", max_pending=2, tls=kind == "tls")
    yield made
    made.listener.close(LIMIT)


def test_a_port_is_known_before_the_listener_starts() -> None:
    listener = TcpListener(lambda peer: pytest.fail("nobody came"), SECRET)
    assert listener.address.port > 0
    assert str(listener.address) == f"127.0.0.1:{listener.address.port}"
    listener.close()


def test_a_port_in_use_is_named_with_what_to_set(server: Server) -> None:
    port = server.listener.address.port
    with pytest.raises(TransportError, match=rf"127\.0\.0\.1:{port}.*`server_port`"):
        TcpListener(server._make, SECRET, Endpoint(port=port))


@pytest.mark.parametrize("address", [("192.0.2.1", 0), ("127.0.0.1", 70_000)])
def test_an_address_that_is_not_ours_is_named(address: tuple[str, int]) -> None:
    with pytest.raises(TransportError, match=rf"{address[0]}:{address[1]}.*`server_host`"):
        TcpListener(lambda peer: pytest.fail("nobody came"), SECRET, Endpoint(*address))


def test_a_closed_listener_gives_its_port_back() -> None:
    first = Server()
    port = first.listener.address.port
    first.listener.close(LIMIT)
    second = Server(port=port)
    second.listener.close(LIMIT)


def test_nobody_listening_is_named_with_what_to_set() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as sock:
        port = sock.getsockname()[1]
    with pytest.raises(TransportError, match=rf"127\.0\.0\.1:{port}.*`server_host`"):
        connect_tcp("127.0.0.1", port, SECRET)


def test_a_name_that_no_host_can_have_is_named_with_what_to_set() -> None:
    with pytest.raises(TransportError, match=r"Cannot reach .*x:1: .*`server_host`"):
        connect_tcp("x" * 64, 1, SECRET)


def test_a_server_that_never_speaks_is_a_timeout() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute, pytest.raises(ConnectTimeout):
        connect_tcp("127.0.0.1", mute.getsockname()[1], SECRET, timeout=0.05)


def test_another_secret_is_an_authentication_error_on_both_sides(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(AuthenticationError):
        connect_tcp(*server.listener.address, new_secret(), server.listener.fingerprint)
    server.listener.close(LIMIT)
    assert "was not let in: Expected the client to hold" in caplog.text
    assert not server.made


def test_a_server_with_another_secret_gets_no_proof() -> None:
    """A false server learns nothing that it could use at the true one."""
    with closing(socket.create_server(("127.0.0.1", 0))) as false:
        proofs: list[bytes] = []

        def impersonate() -> None:
            sock, _ = false.accept()
            with closing(sock):
                read(sock, 37)
                sock.sendall(b"TOSA" + bytes([VERSION]) + bytes(64))
                proofs.append(read(sock, 32))
                sock.sendall(b"\x01")

        thread = threading.Thread(target=impersonate)
        thread.start()
        with pytest.raises(AuthenticationError):
            connect_tcp("127.0.0.1", false.getsockname()[1], SECRET)
        thread.join(LIMIT)
    assert proofs == [bytes(32)]


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 9, b"\0" * 4000])
def test_garbage_costs_one_closed_connection(server: Server, garbage: bytes) -> None:
    with closing(server.dial()) as sock:
        sock.sendall(garbage)
        assert read_all(sock) == b""
    assert len(_exchange(server)) > HEADER_SIZE
    assert len(server.made) == 1


def test_clients_that_dawdle_make_room_for_others(server: Server) -> None:
    """More of them than may be pending: the next client waits its turn and no longer."""
    slow = [server.dial() for _ in range(4)]
    for sock in slow:
        sock.sendall(b"T")
    assert len(_exchange(server)) > HEADER_SIZE
    for sock in slow[:3]:
        assert read_all(sock) == b""
    for sock in slow:
        sock.close()
    assert len(server.made) == 1


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
def test_a_client_that_dawdles_is_closed_in_time(nothing_left: None, tls: bool) -> None:
    impatient = Server(handshake=0.05, tls=tls)
    with closing(impatient.dial()) as sock:
        sock.sendall(b"T")
        assert read_all(sock) == b""
    impatient.listener.close(LIMIT)
    assert not impatient.made


def test_a_client_that_leaves_during_the_handshake_is_forgotten(server: Server) -> None:
    for _ in range(5):
        server.dial().close()
    assert len(_exchange(server)) > HEADER_SIZE
    assert len(server.made) == 1


def _exchange(server: Server) -> bytes:
    with closing(server.authenticated()) as sock:
        head = encode_head(Fetch(1), 1, 0)
        sock.sendall(head)
        return read(sock, HEADER_SIZE + 1)


def test_a_frame_may_come_byte_by_byte(server: Server) -> None:
    with closing(server.authenticated()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in encode_head(PUSH, 7, 10) + b"0123456789":
            sock.sendall(bytes([byte]))
        header = decode_header(read(sock, HEADER_SIZE))
        assert (header.sequence, header.payload) == (7, len(PARAMETERS))
        read(sock, header.body + header.payload)
        sock.sendall(encode_head(Goodbye(), 0, 0))
        assert read_all(sock) == b""
    assert server.ended.wait(LIMIT)
    assert server.ends == [None]


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"NOPE" + bytes(20), "TOSN"),
        (HEADER.pack(MAGIC, VERSION, 3, 0, 1, 2**32 - 1, 0), "at most"),
        (HEADER.pack(MAGIC, VERSION + 1, 3, 0, 1, 3, 0), f"version {VERSION + 1}"),
        (HEADER.pack(MAGIC, VERSION, 3, 0, 1, 3, 0) + b"{}}", "Fetch"),
        (encode_head(Fetch(1), 1, 0) + b"more", "4 bytes beyond"),
        (encode_head(Refused("TosError", "x"), 1, 0), "Expected a request, got Refused"),
    ],
)
def test_a_frame_outside_the_rules_is_refused_and_ends_it(
    server: Server, head: bytes, text: str
) -> None:
    with closing(server.authenticated()) as sock:
        sock.sendall(head)
        answer = message(read_all(sock))
    assert isinstance(answer, Refused)
    assert text in answer.text
    assert server.ended.wait(LIMIT)
    assert len(server.ends) == 1


def test_a_claim_is_refused_before_anything_is_allocated_for_it(server: Server) -> None:
    with closing(server.authenticated()) as sock:
        sock.sendall(encode_head(PUSH, 1, 2**63))
        sock.shutdown(socket.SHUT_WR)
        answer = message(read_all(sock))
    assert isinstance(answer, Refused)
    assert f"expected 10 bytes of payload, got {2**63}" in answer.text
    assert server.received == [2**63]


@pytest.mark.parametrize("sent", [1, HEADER_SIZE - 1, HEADER_SIZE + 1, -1])
def test_a_connection_cut_within_a_frame_is_a_lost_worker(server: Server, sent: int) -> None:
    frame = encode_head(PUSH, 1, 10) + bytes(10)
    with closing(server.authenticated()) as sock:
        sock.sendall(frame[:sent])
    assert server.ended.wait(LIMIT)
    (error,) = server.ends
    assert isinstance(error, ConnectionClosed)


def test_a_worker_that_stalls_within_a_frame_is_given_up(nothing_left: None) -> None:
    impatient = Server(transfer=0.05)
    with closing(impatient.authenticated()) as sock:
        sock.sendall(encode_head(Fetch(1), 1, 0)[:10])
        assert impatient.ended.wait(LIMIT)
    (error,) = impatient.ends
    assert isinstance(error, ConnectTimeout)
    impatient.listener.close(LIMIT)


def test_a_worker_that_computes_for_long_is_not(nothing_left: None) -> None:
    """Between two requests the timeout does not count: it passes several times here."""
    impatient = Server(transfer=0.01)
    with closing(impatient.authenticated()) as sock:
        assert not impatient.ended.wait(0.1)
        sock.sendall(encode_head(Fetch(1), 1, 0))
        assert len(read(sock, HEADER_SIZE)) == HEADER_SIZE
    impatient.listener.close(LIMIT)


def test_closing_the_listener_ends_handshakes_under_way(nothing_left: None) -> None:
    patient = Server(handshake=LIMIT)
    with closing(patient.dial()) as sock:
        sock.sendall(b"T")
        with closing(patient.authenticated()):
            patient.listener.close(LIMIT)
        assert read_all(sock) == b""


def test_ipv6_is_an_address_like_others() -> None:
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    try:
        listener = TcpListener(lambda peer: pytest.fail("nobody came"), SECRET, Endpoint("::1"))
    except TransportError:
        pytest.skip("needs an IPv6 loopback address")
    assert listener.address.host == "::1"
    listener.close()
