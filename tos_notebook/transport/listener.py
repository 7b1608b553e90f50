"""The server's end of the transport between processes: an acceptor, and what serves its peers."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import TransportError
from .acceptor import MAX_PENDING, USUAL, Acceptor
from .base import LOOPBACK, Endpoint, HandlerFactory
from .server import RequestServer
from .sockets import Timeouts


class TcpListener:
    """Serves connections from other processes; see `base.Listener`.

    Parameters
    ----------
    factory : HandlerFactory
        Makes the handler of each connection that has proved the secret.
    secret : bytes
        The session's secret.
    endpoint, timeouts, max_pending
        See `Acceptor`, also for what is raised.
    failed : callable
        Takes the error after which it accepts no more connections.

    Attributes
    ----------
    fingerprint : bytes or None
        By which clients know the server; None where it does not speak TLS.
    """

    def __init__(
        self,
        factory: HandlerFactory,
        secret: bytes,
        endpoint: Endpoint = LOOPBACK,
        timeouts: Timeouts = USUAL,
        max_pending: int = MAX_PENDING,
        failed: Callable[[TransportError], object] = lambda error: None,
    ) -> None:
        self._server = RequestServer(factory)
        self._acceptor = Acceptor(
            secret,
            lambda channel, hello: self._server.spawn(channel),
            endpoint,
            timeouts,
            max_pending,
            failed=lambda error: failed(self._deaf(error)),
        )
        self.address = self._acceptor.address
        self.fingerprint = self._acceptor.fingerprint
        self.start = self._acceptor.start

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more and abort the connections; see `base.Listener.close`."""
        try:
            self._acceptor.close(timeout)
        finally:
            self._server.close(timeout)

    def _deaf(self, error: Exception) -> TransportError:
        found = TransportError(
            f"The server at {self.address} lets no more workers in: "
            f"{type(error).__name__}: {error}. Start a new session."
        )
        found.__cause__ = error
        return found
