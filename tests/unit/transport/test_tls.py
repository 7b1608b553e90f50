"""TLS wherever others could listen, with the one right server, and nothing less."""

from __future__ import annotations

import re
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.unit.transport.peers import LIMIT, PARAMETERS, SECRET, Relay, Server, read_all
from tos_notebook.errors import (
    AuthenticationError,
    ConnectionClosed,
    ConnectTimeout,
    TransportError,
)
from tos_notebook.transport import dial
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.secured import SecuredSocket
from tos_notebook.transport.sockets import is_loopback
from tos_notebook.transport.tls import RECORD, Certificate, TlsChannel, wrap_client
from tos_notebook.wire.frames import encode_head
from tos_notebook.wire.messages import Fetch, Push

PUSH = Push(0, 0, 1, 1, 0, 0, True, 0.5, 0.0, 0.0, 0.0, 0.0, 0, ())


@pytest.fixture
def server(nothing_left: None) -> Iterator[Server]:
    made = Server(tls=True)
    yield made
    made.listener.close(LIMIT)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "sleep", lambda seconds: None)


# -- when ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
    ],
)
def test_only_the_loopback_interface_goes_without_tls(
    nothing_left: None, host: str, plain: bool
) -> None:
    made = Server(host=host)
    assert (made.listener.fingerprint is None) == plain
    made.listener.close(LIMIT)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_what_never_leaves_this_host_is_known_by_its_address(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected


def test_a_worker_without_a_fingerprint_says_nothing_to_another_host(
    nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "is_loopback", lambda address: False)
    made = Server()
    relay = Relay(made.listener.address)
    with pytest.raises(AuthenticationError, match="fingerprint"):
        connect_tcp(*relay.address, SECRET)
    relay.close()
    made.listener.close(LIMIT)
    assert relay.heard[True] == b""


# -- no way down ---------------------------------------------------------------------------


def test_nothing_travels_in_the_clear(server: Server) -> None:
    relay = Relay(server.listener.address)
    connection = connect_tcp(*relay.address, SECRET, server.listener.fingerprint)
    _, payload = connection.request(PUSH, b"0123456789")
    connection.close()
    relay.close()
    assert bytes(payload or b"") == PARAMETERS
    heard = relay.heard[True] + relay.heard[False]
    assert len(heard) > 1000
    for text in (b"TOSA", b"TOSN", b"0123456789", PARAMETERS, SECRET):
        assert text not in heard


def test_whoever_speaks_plainly_to_it_hears_nothing_plain(server: Server) -> None:
    with pytest.raises(TransportError):
        connect_tcp(*server.listener.address, SECRET)
    with closing(server.dial()) as sock:
        sock.sendall(b"TOSA\1" + bytes(32))
        answer = read_all(sock)
    # At most a record of TLS that says: no.
    assert answer == b"" or (answer[0], len(answer)) == (21, 7)
    assert not server.made


def test_a_worker_that_expects_tls_does_not_speak_plainly(nothing_left: None) -> None:
    plain = Server()
    relay = Relay(plain.listener.address)
    with pytest.raises((AuthenticationError, ConnectionClosed)):
        connect_tcp(*relay.address, SECRET, bytes(32))
    relay.close()
    plain.listener.close(LIMIT)
    assert relay.heard[True][0] == 22  # a record of TLS's handshake
    assert b"TOSA" not in relay.heard[True]
    assert not plain.made


def _older(context: ssl.SSLContext) -> ssl.SSLContext:
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def test_a_client_of_an_older_tls_is_refused(server: Server) -> None:
    context = _older(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    with closing(server.dial()) as sock, pytest.raises(ssl.SSLError, match="version"):
        context.wrap_socket(sock)
    assert not server.made


def test_a_server_of_an_older_tls_is_refused(nothing_left: None) -> None:
    certificate = Certificate()
    context = _older(certificate._context)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def answer() -> None:
            sock, _ = listening.accept()
            with suppress(OSError):
                context.wrap_socket(sock, server_side=True)
            sock.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(AuthenticationError, match=r"TLS 1\.3"):
            connect_tcp(*listening.getsockname(), SECRET, certificate.fingerprint)
        thread.join(LIMIT)


def test_another_certificate_is_refused_before_anything_is_proved(server: Server) -> None:
    with pytest.raises(AuthenticationError, match="certificate"):
        connect_tcp(*server.listener.address, SECRET, bytes(32))
    server.listener.close(LIMIT)
    assert not server.made


def test_sessions_are_not_resumed(server: Server) -> None:
    with closing(server.authenticated()) as sock:
        assert isinstance(sock, SecuredSocket)
        tls = sock._tls
        assert tls.version() == "TLSv1.3"
        assert tls.session is None or not tls.session.has_ticket


# -- the certificate -----------------------------------------------------------------------


def test_each_session_has_a_certificate_and_a_key_of_its_own() -> None:
    first, second = Certificate(), Certificate()
    assert len(first.fingerprint) == 32
    assert first.fingerprint != second.fingerprint


def test_the_key_is_on_the_disk_only_encrypted_only_ours_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found: list[Any] = []
    load = ssl.SSLContext.load_cert_chain

    def look(self: Any, name: str, **options: Any) -> None:
        path = Path(name)
        found.append((stat.S_IMODE(path.stat().st_mode), path.read_text(), options["password"]))
        load(self, name, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", look)
    Certificate()
    ((mode, text, password),) = found
    assert mode == 0o600
    kinds = re.findall("BEGIN (.*?)-", text)
    assert kinds == ["CERTIFICATE", "ENCRYPTED PRIVATE KEY"]
    assert len(password) == 64
    assert list(tmp_path.iterdir()) == []


# -- the channel ---------------------------------------------------------------------------


class Records:
    """A socket that keeps what it is given, call by call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.calls.append(bytes(data))


@pytest.mark.parametrize("nbytes", [1, RECORD - 4, RECORD, RECORD + 1, 3_000_001])
@pytest.mark.parametrize("head", [b"head", bytes(RECORD), bytes(RECORD + 1)], ids=len)
def test_what_fits_into_one_record_is_one(head: bytes, nbytes: int) -> None:
    sock: Any = Records()
    payload = bytes(range(256)) * (nbytes // 256 + 1)
    TlsChannel(sock, "peer", 1.0, patience=0.0).send(head, memoryview(payload)[:nbytes])
    assert b"".join(sock.calls) == head + payload[:nbytes]
    if len(head) + nbytes <= RECORD:
        assert len(sock.calls) == 1


def test_a_channel_that_another_thread_shuts_down_never_falls_back_to_plain_text(
    server: Server,
) -> None:
    relay = Relay(server.listener.address)
    sock = socket.create_connection(relay.address, LIMIT)
    fingerprint = server.listener.fingerprint or b""
    secured = wrap_client(sock, "server", fingerprint, monotonic() + LIMIT)
    channel = TlsChannel(secured, "server", LIMIT, patience=0.0)
    channel.shutdown()
    for _ in range(3):
        with suppress(ConnectionClosed):
            channel.send(b"TOSN in the clear", None)
        with pytest.raises(ConnectionClosed):
            channel.receive_payload(memoryview(bytearray(1)))
    channel.close()
    relay.close()
    assert b"TOSN" not in relay.heard[True]


def test_a_worker_that_stalls_within_a_frame_is_given_up(nothing_left: None) -> None:
    impatient = Server(transfer=0.05, tls=True)
    with closing(impatient.authenticated()) as sock:
        sock.sendall(encode_head(Fetch(1), 1, 0)[:10])
        assert impatient.ended.wait(LIMIT)
    assert isinstance(impatient.ends[0], ConnectTimeout)
    impatient.listener.close(LIMIT)


def test_a_worker_that_computes_for_long_is_not(nothing_left: None) -> None:
    impatient = Server(transfer=0.01, tls=True)
    with closing(impatient.authenticated()) as sock:
        assert not impatient.ended.wait(0.1)
        sock.sendall(encode_head(Fetch(1), 1, 0))
        assert len(sock.recv(10)) == 10
    impatient.listener.close(LIMIT)


def test_a_server_that_stalls_within_the_handshake_is_a_timeout(nothing_left: None) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as mute, pytest.raises(ConnectTimeout):
        connect_tcp(*mute.getsockname(), SECRET, bytes(32), timeout=0.05)


def test_a_peer_that_takes_leave_of_tls_has_ended_the_stream(nothing_left: None) -> None:
    """By an alert, which OpenSSL reads as no bytes and no error."""
    certificate = Certificate()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = context.wrap_bio(incoming, outgoing, server_side=False)
    theirs, ours = socket.socketpair()
    with closing(theirs), closing(certificate.wrap(ours)) as secured:
        ours.setblocking(False)
        theirs.settimeout(LIMIT)
        for step in (peer.do_handshake, secured.do_handshake) * 2:
            with suppress(ssl.SSLWantReadError, BlockingIOError):
                step()
            if outgoing.pending:
                theirs.sendall(outgoing.read())
            with suppress(BlockingIOError):
                theirs.setblocking(False)
                incoming.write(theirs.recv(1 << 16))
        peer.write(b"last words")
        with suppress(ssl.SSLWantReadError):
            peer.unwrap()
        theirs.sendall(outgoing.read())
        assert secured.recv(100) == b"last words"
        assert secured.recv(100) == b""
