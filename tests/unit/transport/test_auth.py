from __future__ import annotations

import pickle

import pytest

from tos_notebook.errors import AuthenticationError, RemoteProtocolError, VersionMismatch
from tos_notebook.transport import auth
from tos_notebook.transport.auth import (
    Handshake,
    Secret,
    check_secret,
    client_handshake,
    new_secret,
    prove,
    server_handshake,
)
from tos_notebook.wire.frames import VERSION

SECRET = Secret(b"0123456789abcdef0123456789abcdef")


def _advance(side: Handshake, received: bytes | None) -> tuple[bytes, int] | Exception | None:
    """Return what a side says next, the error it ends with, or None if it is content."""
    try:
        return next(side) if received is None else side.send(received)
    except StopIteration:
        return None
    except Exception as error:
        return error


def _meet(
    client: bytes, server: bytes, sees: bytes = b"", shows: bytes = b""
) -> tuple[Exception | None, Exception | None]:
    """Run both sides against each other; return how each of them ended."""
    ours, theirs = client_handshake(client, sees), server_handshake(server, shows)
    hello, wait = next(ours)
    assert (b"", len(hello)) == next(theirs)
    challenge, proof_size = theirs.send(hello)
    assert len(challenge) == wait
    proof, verdict_size = ours.send(challenge)
    assert len(proof) == proof_size
    verdict, nothing = theirs.send(proof)
    assert (len(verdict), nothing) == (verdict_size, 0)
    ends = _advance(ours, verdict), _advance(theirs, b"")
    assert not any(isinstance(end, tuple) for end in ends)
    return ends  # type: ignore[return-value]


def test_two_sides_with_one_secret_let_each_other_in() -> None:
    assert _meet(SECRET, SECRET) == (None, None)


@pytest.mark.parametrize("changed", [False, True])
def test_a_hello_reaches_the_server_and_is_part_of_the_proof(changed: bool) -> None:
    hello = b"rank 3"
    ours, theirs = client_handshake(SECRET, hello=hello), server_handshake(SECRET, b"", len(hello))
    next(theirs)
    proof, _ = ours.send(theirs.send(next(ours)[0])[0])
    assert proof.endswith(hello)
    verdict, _ = theirs.send(proof[:-1] + b"4" if changed else proof)
    assert verdict == bytes([not changed])
    with pytest.raises(AuthenticationError if changed else StopIteration) as end:
        theirs.send(b"")
    assert changed or end.value.value == hello


def test_another_secret_is_an_authentication_error_on_both_sides() -> None:
    for error in _meet(SECRET, new_secret()):
        assert isinstance(error, AuthenticationError)


@pytest.mark.parametrize("sees", [b"", bytes(32)])
def test_a_relay_with_a_certificate_of_its_own_is_refused_on_both_sides(sees: bytes) -> None:
    """It can pass on what both prove, but both prove another certificate."""
    assert _meet(SECRET, SECRET, b"\1" * 32, b"\1" * 32) == (None, None)
    for error in _meet(SECRET, SECRET, sees, b"\1" * 32):
        assert isinstance(error, AuthenticationError)


def test_a_client_that_does_not_check_is_still_refused() -> None:
    server = server_handshake(SECRET)
    next(server)
    hello, _ = next(client_handshake(new_secret()))
    server.send(hello)
    verdict, _ = server.send(bytes(32))
    assert verdict == b"\x00"
    assert isinstance(_advance(server, b""), AuthenticationError)


def test_a_servers_own_proof_sent_back_is_worthless() -> None:
    server = server_handshake(SECRET)
    next(server)
    hello, _ = next(client_handshake(SECRET))
    challenge, size = server.send(hello)
    assert server.send(challenge[-size:])[0] == b"\x00"


def test_a_proof_heard_in_another_handshake_is_worthless() -> None:
    client, server = client_handshake(SECRET), server_handshake(SECRET)
    hello, _ = next(client)
    next(server)
    proof, _ = client.send(server.send(hello)[0])
    again = server_handshake(SECRET)
    next(again)
    again.send(hello)
    assert again.send(proof)[0] == b"\x00"


def test_a_client_that_is_rejected_says_so() -> None:
    client, server = client_handshake(SECRET), server_handshake(SECRET)
    hello, _ = next(client)
    next(server)
    client.send(server.send(hello)[0])
    assert isinstance(_advance(client, b"\x00"), AuthenticationError)


def test_another_version_is_told_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_handshake(SECRET)
    with monkeypatch.context() as older:
        older.setattr(auth, "VERSION", VERSION + 1)
        hello, _ = next(client)
    server = server_handshake(SECRET)
    next(server)
    challenge, _ = server.send(hello)
    with monkeypatch.context() as older:
        older.setattr(auth, "VERSION", VERSION + 1)
        assert isinstance(_advance(client, challenge), VersionMismatch)
    error = _advance(server, b"")
    assert isinstance(error, VersionMismatch)
    assert f"version {VERSION}," in str(error)
    assert f"version {VERSION + 1}." in str(error)


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"\0"])
def test_a_stranger_is_a_protocol_error_on_either_side(first: bytes) -> None:
    server, client = server_handshake(SECRET), client_handshake(SECRET)
    _, hello_size = next(server)
    _, challenge_size = next(client)
    assert isinstance(_advance(server, first.ljust(hello_size)[:hello_size]), RemoteProtocolError)
    answer = first.ljust(challenge_size)
    assert isinstance(_advance(client, answer), RemoteProtocolError)


def test_roles_nonces_and_fingerprint_all_enter_the_proof() -> None:
    one, two = bytes(32), b"\1" * 32
    proofs = {
        prove(secret, role, first, second, fingerprint)
        for fingerprint in (b"", one, two)
        for secret in (SECRET, new_secret())
        for role in (b"client", b"server")
        for first in (one, two)
        for second in (one, two)
    }
    assert len(proofs) == 48


def test_a_secret_does_not_show_itself() -> None:
    secret = new_secret()
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret])):
        assert bytes(secret).hex() not in text
        assert repr(bytes(secret)) not in text
        assert "***" in text


def test_a_secret_travels_and_compares_as_its_bytes() -> None:
    secret = new_secret()
    back = pickle.loads(pickle.dumps(secret))
    assert type(back) is Secret
    assert back == secret
    assert {secret: 1}[back] == 1
    assert new_secret() != secret


def test_a_secret_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="at least 16 bytes, got 3"):
        check_secret(b"abc")
