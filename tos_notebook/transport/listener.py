"""The server's end of the transport between processes: who is let in, and then served."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from typing import Any

from ..errors import TransportError
from .auth import Handshake, check_secret, server_handshake
from .base import Address, HandlerFactory
from .gate import Connected, Gate
from .secured import SecuredSocket
from .server import ConnectionThreads, join_all
from .sockets import SocketChannel, is_loopback
from .tcp import TcpChannel
from .tls import Certificate, TlsChannel

HANDSHAKE_TIMEOUT = 5.0
MAX_PENDING = 256

_BACKLOG = 1024


class TcpListener:
    """Serves connections from other processes; see `base.Listener`.

    The port is taken at once, so that an address is known before anybody needs it. Unless it
    is on the loopback interface, nothing is said there but within TLS 1.3.

    Parameters
    ----------
    factory : HandlerFactory
        Makes the handler of each connection that has proved the secret.
    secret : bytes
        The session's secret.
    host : str
        The interface to listen on, all of them if empty.
    port : int
        The port, any free one if 0.
    timeout : float
        Seconds without a byte after which a transfer under way has failed.
    handshake_timeout : float
        Seconds for a client to prove the secret.
    max_pending : int
        Clients that may be at it at a time.
    tls : bool
        Whether to speak TLS on the loopback interface, too.
    failed : callable
        Takes the error after which it accepts no more connections.
    max_connections : int, optional
        Clients that have proved the secret; see `ConnectionThreads`.

    Attributes
    ----------
    fingerprint : bytes or None
        By which clients know the server; None where it does not speak TLS.

    Raises
    ------
    TransportError
        The address cannot be listened on.
    AuthenticationError
        The secret is too short.
    """

    def __init__(
        self,
        factory: HandlerFactory,
        secret: bytes,
        host: str = "127.0.0.1",
        port: int = 0,
        timeout: float = 60.0,
        handshake_timeout: float = HANDSHAKE_TIMEOUT,
        max_pending: int = MAX_PENDING,
        tls: bool = False,
        failed: Callable[[TransportError], object] = lambda error: None,
        max_connections: int | None = None,
    ) -> None:
        check_secret(secret)
        self._secret = secret
        self._timeout = timeout
        self._threads = ConnectionThreads(factory, max_connections)
        self._sock = _listen(host, port)
        self.address = Address(*self._sock.getsockname()[:2])
        needed = tls or not is_loopback(self.address.host)
        self._certificate = Certificate() if needed else None
        self.fingerprint = self._certificate.fingerprint if self._certificate else None
        self._gate = Gate(
            self._sock,
            self._prepare,
            self._handshake,
            self._admit,
            handshake_timeout,
            max_pending,
            lambda error: failed(_deaf(self.address, error)),
        )
        name = "tos-server-accept"
        self._acceptor = threading.Thread(target=self._gate.run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._acceptor.start()

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more, abort the connections and wait for their threads.

        Raises
        ------
        WaitTimeout
            A thread did not end within `timeout` seconds.
        """
        self._gate.close()
        self._threads.close(timeout)
        if self._acceptor.ident is not None:
            join_all([self._acceptor], timeout)
        self._sock.close()

    def _prepare(self, sock: socket.socket) -> Connected:
        return sock if self._certificate is None else self._certificate.wrap(sock)

    def _handshake(self) -> Handshake:
        return server_handshake(self._secret, self.fingerprint or b"")

    def _admit(self, sock: Connected, peer: str) -> None:
        channel: SocketChannel[Any]
        if isinstance(sock, SecuredSocket):
            channel = TlsChannel(sock, peer, self._timeout, patience=math.inf)
        else:
            channel = TcpChannel(sock, peer, self._timeout, patience=math.inf)
        channel.configure()
        self._threads.spawn(channel)


def _deaf(address: Address, error: Exception) -> TransportError:
    found = TransportError(
        f"The server at {address.host}:{address.port} lets no more workers in: "
        f"{type(error).__name__}: {error}. Start a new session."
    )
    found.__cause__ = error
    return found


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise TransportError(
            f"Cannot listen on {host}:{port}: {error}. Set `server_host` to an address of this "
            "machine, and `server_port` to a free port, or to 0 for any."
        ) from error
    sock.setblocking(False)
    return sock
