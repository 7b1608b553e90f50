"""Hellos of strangers: what one costs the server, and that workers come in among hundreds."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from time import monotonic, thread_time

import pytest

from tests.unit.transport.peers import LIMIT, PARAMETERS, SECRET, Server
from tos_notebook.errors import ConnectTimeout
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.transport.tls import Certificate
from tos_notebook.wire.messages import Fetch

STRANGER = "127.0.0.2"

NAMED = [
    *("X25519", "X448", "secp384r1", "secp521r1"),
    *("ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"),
    *("X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "MLKEM512", "MLKEM1024"),
]
"""Groups of TLS 1.3 besides ours, some of which an older OpenSSL does not know."""

OURS = "prime256v1"
"""By which a worker and the server agree on keys."""

PER_SECOND, SECONDS = 300, 2.0

CHANGE, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
"""Kinds of records of TLS."""


def hello(group: str) -> bytes:
    """Return what a client says first that offers one group; nothing if OpenSSL cannot say it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    try:
        context.set_ecdh_curve(group)
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    except (ValueError, ssl.SSLWantReadError):
        return outgoing.read()
    except ssl.SSLError:
        return b""
    raise AssertionError("The handshake ended without an answer.")


def curves() -> list[str]:
    """Return the elliptic curves that OpenSSL's program lists, if there is one."""
    program = shutil.which("openssl")
    if program is None:
        return []
    command = [program, "ecparam", "-list_curves"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return re.findall(r"^ *([\w-]+) *:", listed.stdout, re.MULTILINE)


OTHERS = dict.fromkeys(group for group in [*NAMED, *curves()] if group != OURS)
HELLOS = {group: said for group in OTHERS if (said := hello(group))}
"""What clients say that offer one group each, for all that this OpenSSL knows."""


def cost(certificate: Certificate, said: bytes, times: int = 50) -> float:
    """Return the processor time, in seconds, that so many such hellos take of a server at least.

    What else happens in the process, such as a collection of garbage, takes time in some rounds.
    """

    def once() -> float:
        began = thread_time()
        for _ in range(times):
            incoming = ssl.MemoryBIO()
            incoming.write(said)
            end = certificate._context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
            with suppress(ssl.SSLError):
                end.do_handshake()
        return thread_time() - began

    return min(once() for _ in range(3))


def record(kind: int, body: bytes) -> bytes:
    """Return a record of TLS."""
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


def first_messages() -> Iterator[bytes]:
    """Yield a message of every kind, which is not a hello, and a record of every kind."""
    for kind in range(256):
        body = bytes([kind]) + (1000).to_bytes(3, "big") + bytes(1000)
        yield record(HANDSHAKE, body)
        yield record(kind, bytes(1000))


def test_the_groups_of_which_hellos_are_made_are_those_of_openssl() -> None:
    assert {"secp384r1", "secp521r1"} <= HELLOS.keys()
    assert hello(OURS)


@pytest.mark.parametrize("group", HELLOS)
def test_no_hello_costs_more_than_that_of_a_worker(group: str) -> None:
    certificate = Certificate()
    assert cost(certificate, HELLOS[group]) < cost(certificate, hello(OURS))


def test_no_other_first_message_costs_more_than_the_hello_of_a_worker() -> None:
    certificate = Certificate()
    honest = cost(certificate, hello(OURS))
    assert max(cost(certificate, said, 10) for said in first_messages()) * 5 < honest


def test_what_strangers_send_takes_a_bounded_number_of_bytes(nothing_left: None) -> None:
    """The server reads no more of each than a hello may have."""
    server, strangers = Server(tls=True), 200
    held = []
    tracemalloc.start()
    try:
        for _ in range(strangers):
            held.append(server.dial(STRANGER))
            held[-1].settimeout(LIMIT)
            with suppress(OSError):
                held[-1].sendall(record(HANDSHAKE, bytes([1, 0, 64, 0]) + bytes(16_000))[:10_000])
        with closing(connect_tcp(*server.listener.address, SECRET, server.listener.fingerprint)):
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        for sock in held:
            sock.close()
        server.listener.close(LIMIT)
    assert peak < strangers * 16_000


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


@pytest.mark.parametrize("group", [OURS, "ffdhe8192"])
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


def test_a_server_that_comes_too_late_once_is_asked_a_second_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(ConnectTimeout):
            connect_tcp(*server.getsockname(), SECRET, timeout=0.01)
        server.setblocking(False)
        for _ in range(2):
            server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()


MESSAGES = {
    "empty records": record(HANDSHAKE, b"") * 200,
    "changes of the cipher": record(CHANGE, b"\x01") * 200,
    "alerts": record(ALERT, b"\x01\x00") * 200,
    "data before the handshake": record(DATA, bytes(100)) * 12,
    "a hello of 16 kB": record(HANDSHAKE, b"\x01\x00\x3f\xfc" + bytes(16_380)),
    "a hello in parts of one byte": b"",
    "a certificate first": record(HANDSHAKE, b"\x0b\x00\x04\x00" + bytes(1024)),
    "a finish first": record(HANDSHAKE, b"\x14\x00\x00\x20" + bytes(32)) * 30,
    "no TLS": b"GET / HTTP/1.1\r\n" * 80,
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" * 100,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_no_byte_of_a_stranger_costs_more_than_some_of_a_worker_s_hello(name: str) -> None:
    certificate, honest = Certificate(), hello(OURS)
    parts = b"".join(record(HANDSHAKE, honest[n : n + 1]) for n in range(5, len(honest)))
    said = MESSAGES[name] or parts
    per_byte = cost(certificate, honest) / len(honest)
    assert cost(certificate, said) / len(said) < 2 * per_byte
