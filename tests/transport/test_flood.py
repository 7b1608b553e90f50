"""Hellos of strangers: what one costs the server, and that workers come in among hundreds."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from time import monotonic, thread_time

import pytest

from tests.transport.peers import LIMIT, PARAMETERS, SECRET, Server
from tos_notebook.errors import ConnectTimeout
from tos_notebook.transport import dial
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.tls import Certificate
from tos_notebook.wire.messages import Fetch

STRANGER = "127.0.0.2"

GROUPS = [
    *("X448", "prime256v1", "secp384r1", "secp521r1"),
    *("ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"),
]
"""All that OpenSSL 3.0 to 3.4 agrees on by default, besides X25519."""

PER_SECOND, SECONDS = 300, 2.0


def hello(group: str) -> bytes:
    """Return what a client says first that offers one group."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ecdh_curve(group)
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def cost(certificate: Certificate, said: bytes) -> float:
    """Return the processor time, in seconds, that 50 such hellos take of a server."""
    began = thread_time()
    for _ in range(50):
        incoming = ssl.MemoryBIO()
        incoming.write(said)
        end = certificate._context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
        with suppress(ssl.SSLError):
            end.do_handshake()
    return thread_time() - began


@pytest.mark.parametrize("group", GROUPS)
def test_no_hello_costs_more_than_that_of_a_worker(group: str) -> None:
    certificate = Certificate()
    assert cost(certificate, hello(group)) < cost(certificate, hello("X25519"))


@contextmanager
def flood(server: Server, said: bytes, source: str) -> Iterator[None]:
    """Send a hello on connections of its own, so many a second, for a while."""
    over = threading.Event()

    def send() -> None:
        held: list[socket.socket] = []
        begin = monotonic()
        for number in range(int(PER_SECOND * SECONDS)):
            if over.wait(max(0.0, begin + number / PER_SECOND - monotonic())):
                break
            with suppress(OSError):
                held.append(server.dial(source))
                held[-1].sendall(said)
        for sock in held:
            sock.close()

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join(LIMIT)


@pytest.mark.parametrize("group", ["X25519", "ffdhe8192"])
def test_workers_join_while_a_stranger_sends_hundreds_of_hellos(
    nothing_left: None, group: str
) -> None:
    server = Server(tls=True)
    with flood(server, hello(group), STRANGER):
        for _ in range(20):
            target = *server.listener.address, SECRET, server.listener.fingerprint
            with closing(connect_tcp(*target)) as connection:
                assert bytes(connection.request(Fetch(0))[1] or b"") == PARAMETERS
    server.listener.close(LIMIT)


def test_a_server_that_comes_too_late_once_is_asked_a_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def late(*_: object) -> None:
        asked.append(1)
        raise ConnectTimeout("too late")

    monkeypatch.setattr(dial, "_open", late)
    with pytest.raises(ConnectTimeout):
        connect_tcp("server", 1, SECRET)
    assert len(asked) == 2


def _record(kind: int, body: bytes) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


ALERT, CHANGE, HANDSHAKE, DATA = 21, 20, 22, 23

MESSAGES = {
    "empty records": _record(HANDSHAKE, b"") * 200,
    "changes of the cipher": _record(CHANGE, b"\x01") * 200,
    "alerts": _record(ALERT, b"\x01\x00") * 200,
    "data before the handshake": _record(DATA, bytes(100)) * 12,
    "a hello of 16 kB": _record(HANDSHAKE, b"\x01\x00\x3f\xfc" + bytes(16_380)),
    "a hello in parts of one byte": b"",
    "a certificate first": _record(HANDSHAKE, b"\x0b\x00\x04\x00" + bytes(1024)),
    "a finish first": _record(HANDSHAKE, b"\x14\x00\x00\x20" + bytes(32)) * 30,
    "no TLS": b"GET / HTTP/1.1\r\n" * 80,
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" * 100,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_no_byte_of_a_stranger_costs_more_than_some_of_a_worker_s_hello(name: str) -> None:
    certificate, honest = Certificate(), hello("X25519")
    parts = b"".join(_record(HANDSHAKE, honest[n : n + 1]) for n in range(5, len(honest)))
    said = MESSAGES[name] or parts
    per_byte = cost(certificate, honest) / len(honest)
    assert cost(certificate, said) / len(said) < 2 * per_byte
