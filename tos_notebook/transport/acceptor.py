"""Where peers connect, and the channels of those that prove the secret."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any

from ..common.threads import join_all
from ..errors import TransportError
from .auth import Handshake, check_secret, server_handshake
from .base import LOOPBACK, Address, Endpoint
from .gate import Gate
from .sockets import Connected, SocketChannel, Timeouts, is_loopback
from .tls import Certificate, channel_over

_BACKLOG = 1024

Admit = Callable[[SocketChannel[Any], bytes], object]
"""Takes the channel to a peer that was let in, which it owns from now on, and the peer's hello."""


USUAL = Timeouts()
MAX_PENDING = 256


class Acceptor:
    """Lets in peers that prove the secret; each is a channel then.

    The port is taken at once, so that its address is known before it is needed.

    Parameters
    ----------
    secret : bytes
        The session's secret.
    admit : Admit
        Called in the acceptor's thread, so it must not wait. If it raises, the peer is closed.
    endpoint, timeouts : Endpoint, Timeouts
        Where to listen, and how long a peer may take.
    max_pending : int
        Peers that may be proving the secret at a time.
    hello_size : int
        Bytes that each peer says of itself.
    failed : callable
        Takes the error after which it lets no more peers in.

    Attributes
    ----------
    address : Address
        Where it listens.
    fingerprint : bytes or None
        By which peers know it; None where it does not speak TLS.

    Raises
    ------
    TransportError
        It cannot listen at the endpoint, or each port of the range is taken.
    AuthenticationError
        The secret is too short.
    """

    def __init__(
        self,
        secret: bytes,
        admit: Admit,
        endpoint: Endpoint = LOOPBACK,
        timeouts: Timeouts = USUAL,
        max_pending: int = MAX_PENDING,
        hello_size: int = 0,
        failed: Callable[[Exception], object] = lambda error: None,
    ) -> None:
        check_secret(secret)
        self._secret = secret
        self._admit = admit
        self._timeouts = timeouts
        self._hello_size = hello_size
        self._sock = _listen(endpoint)
        self.address = Address(*self._sock.getsockname()[:2])
        needed = endpoint.tls or not is_loopback(self.address.host)
        self._certificate = Certificate() if needed else None
        self.fingerprint = self._certificate.fingerprint if self._certificate else None
        self._gate = Gate(
            self._sock,
            self._prepare,
            self._handshake,
            self._let_in,
            timeouts.handshake,
            max_pending,
            failed,
        )
        name = f"tos-accept-{self.address.port}"
        self._thread = threading.Thread(target=self._gate.run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to let peers in."""
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Let no more peers in; the channels stay with who has admitted them. May be repeated.

        Raises
        ------
        WaitTimeout
            The thread did not end within `timeout` seconds.
        """
        self._gate.close()
        if self._thread.ident is not None:
            join_all([self._thread], timeout)
        self._sock.close()

    def _prepare(self, sock: socket.socket) -> Connected:
        return sock if self._certificate is None else self._certificate.wrap(sock)

    def _handshake(self) -> Handshake:
        return server_handshake(self._secret, self.fingerprint or b"", self._hello_size)

    def _let_in(self, sock: Connected, peer: str, hello: bytes) -> None:
        channel = channel_over(sock, peer, self._timeouts)
        channel.configure()
        self._admit(channel, hello)


def _listen(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    for port in range(endpoint.port, max(endpoint.port, endpoint.last) + 1):
        try:
            sock = socket.create_server((endpoint.host, port), family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            problem = error
            if not (isinstance(error, OSError) and error.errno == errno.EADDRINUSE):
                break
        else:
            sock.setblocking(False)
            return sock
    raise TransportError(f"Cannot listen on {endpoint}: {problem}. {endpoint.advice}") from problem
