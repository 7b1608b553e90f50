"""Frames over TLS 1.3, with a certificate that is known by its fingerprint.

A session makes its own certificate and tells its tasks the fingerprint, so that no authority
is needed, and none is trusted. Older versions of TLS are refused by both sides.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from ..errors import AuthenticationError
from .secured import SecuredSocket
from .sockets import Connected, SocketChannel, Timeouts, gone, limit, unfinished
from .tcp import TcpChannel

RECORD = 16_384
"""Bytes. The most that a record of TLS holds."""

_LIFETIME = timedelta(days=3650)


class TlsChannel(SocketChannel[SecuredSocket]):
    """One end of a TLS connection, after its handshake; see `SocketChannel`."""

    def configure(self) -> None:
        """Set the socket up for frames; see `SocketChannel.configure`."""
        super().configure()
        self._sock.expect_frames()

    def _limit_waits(self, sock: SecuredSocket) -> None:
        # Below TLS the kernel's own limits would go unnoticed.
        sock.settimeout(self._timeout)

    def _send(self, head: bytes, payload: memoryview | None) -> None:
        for part in _parts(head, payload):
            self._sock.sendall(part)

    def _send_now(self, head: bytes, payload: memoryview | None) -> bytes:
        sealed = b"".join(map(self._sock.encrypt, _parts(head, payload)))
        return sealed[self._sock.send_now(sealed) :]

    def _send_rest(self, rest: bytes) -> None:
        self._sock.raw.sendall(rest)

    def _take(self, target: memoryview, whole: bool) -> int:
        return self._sock.recv_into(target)

    def _take_now(self, target: memoryview) -> int:
        return self._sock.recv_now(target)


def _parts(head: bytes, payload: memoryview | None) -> Iterator[bytes | memoryview]:
    """Yield a frame in pieces: one record for what one record can hold."""
    if payload is None:
        yield head
        return
    first = max(0, RECORD - len(head))
    yield b"".join((head, payload[:first]))
    if first < payload.nbytes:
        yield payload[first:]


def channel_over(sock: Connected, peer: str, timeouts: Timeouts) -> SocketChannel[Any]:
    """Return the channel over a connection of TCP or of TLS."""
    if isinstance(sock, SecuredSocket):
        return TlsChannel(sock, peer, timeouts.transfer, timeouts.patience)
    return TcpChannel(sock, peer, timeouts.transfer, timeouts.patience)


class Certificate:
    """A server's certificate, made for one session, with its key.

    Attributes
    ----------
    fingerprint : bytes
        SHA-256 of the certificate, by which clients know it.
    """

    def __init__(self) -> None:
        certificate, key, password = _self_signed()
        self._context = _modern(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        # Sessions are not resumed: each connection proves who it is.
        self._context.num_tickets = 0
        # OpenSSL takes keys from files only. What is on the disk for a moment is worthless
        # without a password that never was there.
        with tempfile.NamedTemporaryFile(prefix="tos-") as file:
            file.write(certificate + key)
            file.flush()
            self._context.load_cert_chain(file.name, password=password)
        self.fingerprint = fingerprint_of(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")))

    def wrap(self, sock: socket.socket) -> SecuredSocket:
        """Return the server's end of TLS over a socket; its handshake is still to be done."""
        return SecuredSocket(sock, self._context, server_side=True)


def _self_signed() -> tuple[bytes, bytes, bytes]:
    """Return a certificate and its encrypted key, both as PEM, and the key's password."""
    # Only a driver that other hosts reach needs this package; executors do with OpenSSL.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tos_notebook session")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .sign(key, hashes.SHA256())
    )
    password = secrets.token_hex(32).encode("ascii")
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), encrypted, password


def fingerprint_of(certificate: bytes) -> bytes:
    """Return the SHA-256 of a certificate in DER, 32 bytes."""
    return hashlib.sha256(certificate).digest()


def wrap_client(
    sock: socket.socket, peer: str, fingerprint: bytes, deadline: float
) -> SecuredSocket:
    """Return the client's end of TLS over a socket, with a server that has a certificate.

    What is returned takes the socket over; if this fails, that stays its owner's.

    Raises
    ------
    AuthenticationError
        The server has another certificate, or does not speak TLS 1.3.
    ConnectTimeout
        The handshake was not over by the deadline.
    ConnectionClosed
        The server closed the connection.
    """
    try:
        limit(sock, deadline)
        secured = SecuredSocket(sock, _client_context(), server_side=False)
        secured.do_handshake()
        _check(secured, peer, fingerprint)
    except TimeoutError:
        raise unfinished(peer) from None
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLEOFError):
            raise gone(peer, error) from error
        raise AuthenticationError(
            f"Expected {peer} to speak TLS 1.3, but: {error}. Host and port may belong to "
            "another session: start a new run from the session that owns the server."
        ) from error
    except OSError as error:
        raise gone(peer, error) from error
    return secured


def _check(sock: SecuredSocket, peer: str, fingerprint: bytes) -> None:
    if not hmac.compare_digest(fingerprint_of(sock.certificate()), fingerprint):
        raise AuthenticationError(
            f"Expected {peer} to have this session's certificate, but it has another. Another "
            "program may answer there: start a new run from the session that owns the server."
        )


@cache
def _client_context() -> ssl.SSLContext:
    context = _modern(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    # The fingerprint takes the place of names and authorities. That the server has the
    # certificate's key, OpenSSL checks in any case.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _modern(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Of OpenSSL's other groups some let one short message of a stranger cost 500 times as much.
    # Python 3.11.2, which is Debian's, can set none of those that are no curve of NIST.
    context.set_ecdh_curve("prime256v1")
    return context
