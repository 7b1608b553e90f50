"""The worker's end of the transport between processes."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

from ..errors import AuthenticationError, ConnectionClosed, ConnectTimeout, TransportError
from .auth import client_handshake
from .client import MAX_PAYLOAD, ChannelConnection
from .sockets import Connected, SocketChannel, Timeouts, gone, is_loopback
from .tls import channel_over, wrap_client

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds. A server that many strangers crowd may close a connection before its turn, or not come
to it in time."""


ANSWER = 600.0
"""Seconds that a worker waits for an answer. The server gives up a push that waits for its turn
after `ps.center.MERGE_TIMEOUT`, which is less: no worker leaves and returns while others merge."""


def connect_tcp(
    host: str,
    port: int,
    secret: bytes,
    fingerprint: bytes | None = None,
    timeout: float = 10.0,
    request_timeout: float = 60.0,
    max_payload: int = MAX_PAYLOAD,
    answer_timeout: float = 0.0,
) -> ChannelConnection:
    """Connect to a listener and prove the secret to it; raises what `open_channel` does.

    Parameters
    ----------
    host, port, secret, fingerprint
        See `open_channel`.
    timeout : float
        Seconds to connect, and again to shake hands.
    request_timeout : float
        Seconds without a byte after which a request has failed.
    max_payload : int
        Bytes that an answer may bring when no buffer is given for it.
    answer_timeout : float
        Seconds to wait until an answer begins, if more than `request_timeout`. A server whose host
        is gone is noticed much sooner.
    """
    timeouts = Timeouts(request_timeout, answer_timeout, timeout)
    return ChannelConnection(open_channel(host, port, secret, fingerprint, timeouts), max_payload)


def open_channel(
    host: str,
    port: int,
    secret: bytes,
    fingerprint: bytes | None,
    timeouts: Timeouts,
    hello: bytes = b"",
    pauses: Sequence[float] = PAUSES,
) -> SocketChannel[Any]:
    """Connect to an acceptor and prove the secret to it.

    Parameters
    ----------
    host, port : str, int
        The other side's contact address.
    secret : bytes
        The session's secret.
    fingerprint : bytes, optional
        Of its certificate. Without it the connection is plain TCP, which is for the loopback
        interface only; with it there is nothing but TLS 1.3 with that side.
    timeouts : Timeouts
        How long the other side may take.
    hello : bytes
        What to say of ourselves, of the length that the acceptor expects.
    pauses : sequence of float
        Seconds before each further attempt, where the other side has closed the connection.

    Raises
    ------
    ConnectTimeout
        Two attempts found no answer in time.
    TransportError
        The address cannot be reached, or no program listens there.
    AuthenticationError
        One side does not hold the other's secret, or the server has another certificate.
    ProtocolError
        The program that listens there is not ours, or of another version.
    """
    late = False
    for pause in pauses:
        try:
            return _open(host, port, secret, fingerprint, timeouts, hello)
        except ConnectTimeout:
            if late:
                raise
            late = True
        except ConnectionClosed:
            sleep(pause)
    return _open(host, port, secret, fingerprint, timeouts, hello)


def _open(
    host: str,
    port: int,
    secret: bytes,
    fingerprint: bytes | None,
    timeouts: Timeouts,
    hello: bytes,
) -> SocketChannel[Any]:
    sock, peer = _dial(host, port, timeouts.handshake), f"{host}:{port}"
    deadline = monotonic() + timeouts.handshake
    connected: Connected = sock
    try:
        if fingerprint is None:
            _refuse_to_be_heard(sock, peer)
        else:
            connected = wrap_client(sock, peer, fingerprint, deadline)
        channel = channel_over(connected, peer, timeouts)
        channel.shake_hands(client_handshake(secret, fingerprint or b"", hello), deadline)
        channel.configure()
    except BaseException as error:
        sock.close()
        if isinstance(error, OSError):
            raise gone(peer, error) from error
        raise
    return channel


def _refuse_to_be_heard(sock: socket.socket, peer: str) -> None:
    address = sock.getpeername()[0]
    if not is_loopback(address):
        raise AuthenticationError(
            f"Expected the fingerprint of {peer}'s certificate, got none: {address} is not on "
            "this host, and connections there have to use TLS."
        )


def _dial(host: str, port: int, timeout: float) -> socket.socket:
    hint = "Set `server_host` to an address of the driver that executors can reach."
    try:
        return socket.create_connection((host, port), timeout)
    except TimeoutError:
        raise ConnectTimeout(
            f"Expected the server at {host}:{port} to answer within {timeout} s. {hint}"
        ) from None
    except (OSError, OverflowError, UnicodeError) as error:
        message = f"Cannot reach the server at {host}:{port}: {error}. {hint}"
        raise TransportError(message) from error
