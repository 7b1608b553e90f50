"""Who may connect: a mutual challenge with HMAC-SHA256 over the session's secret.

::

    client -> server   magic "TOSA", version u8, client nonce (32)
    server -> client   magic "TOSA", version u8, server nonce (32), HMAC(secret, "server" + all)
    client -> server   HMAC(secret, "client" + all + hello), hello
    server -> client   1 if let in, 0 if not

    all   = both nonces, and within TLS the fingerprint of the server's certificate
    hello = what the client says of itself; a worker says nothing to the server

Both sides know the size of every message, so that a peer that is not let in can make neither
allocate. The role in each HMAC makes it worthless when sent back, and the fingerprint
when passed on by another in between, whose certificate is another. A handshake is a generator
without sockets: it yields what to send and how many bytes it expects then.
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Generator

from ..errors import AuthenticationError, RemoteProtocolError
from ..wire.frames import VERSION, version_mismatch

MAGIC = b"TOSA"
NONCE_SIZE = 32
PROOF_SIZE = 32
MIN_SECRET = 16

_HELLO = struct.Struct(f">4sB{NONCE_SIZE}s")
_CHALLENGE = struct.Struct(f">4sB{NONCE_SIZE}s{PROOF_SIZE}s")
_NO_PROOF = bytes(PROOF_SIZE)
_WELCOME = b"\x01"
_REJECTED = b"\x00"

Handshake = Generator[tuple[bytes, int], bytes, bytes]
"""Yields (bytes to send, number of bytes expected in return) and is sent those bytes.

The server's side returns the client's hello, the client's side nothing.
"""


class Secret(bytes):
    """Bytes that do not show themselves in logs; they pickle, compare and hash as bytes."""

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"


def new_secret() -> Secret:
    """Return 32 random bytes from the system."""
    return Secret(os.urandom(32))


def check_secret(secret: bytes) -> None:
    """Raise AuthenticationError for a secret that could be guessed."""
    if len(secret) < MIN_SECRET:
        raise AuthenticationError(
            f"Expected a secret of at least {MIN_SECRET} bytes, got {len(secret)}. "
            "Make one with new_secret()."
        )


def prove(
    secret: bytes, role: bytes, client_nonce: bytes, server_nonce: bytes, besides: bytes = b""
) -> bytes:
    """Return the HMAC by which `role` (``b"client"`` or ``b"server"``) shows the secret.

    Besides are the fingerprint of the server's certificate, and the hello, if there are any.
    """
    return hmac.digest(secret, role + client_nonce + server_nonce + besides, "sha256")


def client_handshake(secret: bytes, fingerprint: bytes = b"", hello: bytes = b"") -> Handshake:
    """Prove the secret to a server that proves it too.

    Without TLS the fingerprint, that of the certificate which the server has shown, is empty. The
    hello is what to say of ourselves, of the length that the server expects.

    Raises
    ------
    AuthenticationError
        The server does not hold the secret, or says that we do not.
    RemoteProtocolError
        The server is none of ours.
    VersionMismatch
        The server speaks another version.
    """
    nonce = os.urandom(NONCE_SIZE)
    answer = yield _HELLO.pack(MAGIC, VERSION, nonce), _CHALLENGE.size
    magic, version, server_nonce, proof = _CHALLENGE.unpack(answer)
    _check_greeting(magic, version)
    expected = prove(secret, b"server", nonce, server_nonce, fingerprint)
    if not hmac.compare_digest(proof, expected):
        # The server is told, so that both sides report what is wrong and neither waits.
        yield _NO_PROOF + bytes(len(hello)), len(_REJECTED)
        raise _stranger("server")
    proof = prove(secret, b"client", nonce, server_nonce, fingerprint + hello)
    verdict = yield proof + hello, len(_WELCOME)
    if verdict != _WELCOME:
        raise _stranger("client")
    return b""


def server_handshake(secret: bytes, fingerprint: bytes = b"", hello_size: int = 0) -> Handshake:
    """Prove the secret to a client and let it in if it proves it too.

    Without TLS the fingerprint, that of our certificate, is empty. The client's hello has
    `hello_size` bytes.

    Raises
    ------
    AuthenticationError
        The client does not hold the secret.
    RemoteProtocolError
        The client is none of ours.
    VersionMismatch
        The client speaks another version; it is told ours.
    """
    hello = yield b"", _HELLO.size
    magic, version, client_nonce = _HELLO.unpack(hello)
    nonce = os.urandom(NONCE_SIZE)
    if magic == MAGIC and version != VERSION:
        yield _CHALLENGE.pack(MAGIC, VERSION, nonce, _NO_PROOF), 0
    _check_greeting(magic, version)
    proof = prove(secret, b"server", client_nonce, nonce, fingerprint)
    answer = yield _CHALLENGE.pack(MAGIC, VERSION, nonce, proof), PROOF_SIZE + hello_size
    proof, hello = answer[:PROOF_SIZE], answer[PROOF_SIZE:]
    expected = prove(secret, b"client", client_nonce, nonce, fingerprint + hello)
    if not hmac.compare_digest(proof, expected):
        yield _REJECTED, 0
        raise _stranger("client")
    yield _WELCOME, 0
    return hello


def _check_greeting(magic: bytes, version: int) -> None:
    if magic != MAGIC:
        raise RemoteProtocolError(
            f"Expected a greeting that starts with {MAGIC!r}, got {magic!r}. "
            "Check that host and port are those of this session's server."
        )
    if version != VERSION:
        raise version_mismatch(version)


def _stranger(who: str) -> AuthenticationError:
    return AuthenticationError(
        f"Expected the {who} to hold the other side's secret, but it does not. Host and port may "
        "belong to another session: start a new run from the session that owns the server."
    )
