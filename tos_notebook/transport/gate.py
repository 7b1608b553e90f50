"""Where clients prove the secret, before anything of the server's is theirs.

All of them in one thread that waits for none: a client that has not proved the secret costs a
socket for a few seconds and some kilobytes, and no thread. Of these there are only so many;
when one more comes, the oldest of the address that has most of them must go. An address whose
handshakes have taken more processor time than it has waits. So a client that opens connections
without end is in its own way rather than in others'.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable
from time import monotonic, thread_time

from ..errors import TosError
from .auth import Handshake
from .budget import Budget
from .secured import SecuredSocket
from .sockets import Connected, gone, unfinished

log = logging.getLogger(__name__)

_POLL = 1.0
_RETRY = 0.1
_GIVE_UP = 50
"""Errors of its own in a row, `_RETRY` seconds apart, after which the gate is out of order."""
_AT_ONCE = 16
"""Clients that come in between two looks at those who are there."""


class PendingClient:
    """A client that has yet to prove the secret, by a deadline of `time.monotonic`.

    Its connection does not block, and is one before TLS's own handshake.
    """

    def __init__(
        self, sock: Connected, host: str, peer: str, handshake: Handshake, deadline: float
    ) -> None:
        self.sock = sock
        self.host = host
        self.peer = peer
        self.deadline = deadline
        self.spent = 0.0
        """Seconds of processor time so far."""
        self.hello = b""
        """What it has said of itself, once it is let in."""
        self._handshake = handshake
        self._expected = next(handshake)[1]
        self._received = b""
        self._secured = not isinstance(sock, SecuredSocket)

    def advance(self) -> bool:
        """Go as far as what has come allows; return whether it is let in.

        Raises TosError if it may not come in, OSError if its connection broke.
        """
        try:
            if not self._secured and isinstance(self.sock, SecuredSocket):
                self.sock.do_handshake()
                self._secured = True
            while True:
                outgoing, self._expected = self._handshake.send(self._receive())
                # It always fits: nothing else is on its way to a client that has to answer.
                self.sock.sendall(outgoing)
        except BlockingIOError:
            return False
        except StopIteration as end:
            self.hello = end.value
            return True

    def _receive(self) -> bytes:
        while len(self._received) < self._expected:
            part = self.sock.recv(self._expected - len(self._received))
            if not part:
                raise gone(self.peer)
            self._received += part
        received, self._received = self._received, b""
        return received


class Gate:
    """Lets in who proves the secret, in a thread that runs `run`.

    Parameters
    ----------
    sock : socket
        Listens, and does not block; stays its owner's.
    prepare : callable
        Takes a new connection; returns what the handshake goes over.
    handshake : callable
        Returns the server's side of a new handshake.
    admit : callable
        Takes a connection that was let in, its peer's name and hello.
    seconds : float
        For a client to prove the secret.
    max_pending : int
        Clients that may be at it at a time.
    failed : callable
        Takes the error after which it lets no more clients in.
    retry : float
        Seconds to wait after an error of its own.
    """

    def __init__(
        self,
        sock: socket.socket,
        prepare: Callable[[socket.socket], Connected],
        handshake: Callable[[], Handshake],
        admit: Callable[[Connected, str, bytes], None],
        seconds: float,
        max_pending: int,
        failed: Callable[[Exception], object],
        retry: float = _RETRY,
    ) -> None:
        self._sock = sock
        self._prepare = prepare
        self._handshake = handshake
        self._admit = admit
        self._seconds = seconds
        self._max_pending = max_pending
        self._failed = failed
        self._retry = retry
        # The oldest first, as all have the same time.
        self._clients: dict[PendingClient, None] = {}
        self._hosts: Counter[str] = Counter()
        self._budget = Budget()
        # By the time from which they may continue.
        self._postponed: dict[PendingClient, float] = {}
        self._selector = selectors.DefaultSelector()
        self._closing = threading.Event()

    def run(self) -> None:
        """Let clients in until closed, whatever goes wrong with one of them."""
        self._selector.register(self._sock, selectors.EVENT_READ)
        errors = 0
        while not self._closing.is_set():
            try:
                self._turn()
                errors = 0
            except Exception as error:
                errors += 1
                log.exception("The server's gate met an internal error")
                if errors == _GIVE_UP:
                    self._failed(error)
                    break
                self._closing.wait(self._retry)
        for client in list(self._clients):
            self._dismiss(client)
        self._selector.close()

    def _turn(self) -> None:
        """Serve those of whom something has come, and welcome new ones."""
        ready = [key.data for key, _ in self._selector.select(self._patience())]
        for client in ready:
            if client is not None:
                self._attend(client)
        self._dismiss_late()
        self._recall()
        if None in ready:
            self._welcome()

    def close(self) -> None:
        """Let `run` end; from any thread."""
        self._closing.set()
        try:
            # On Linux this wakes it; elsewhere it looks up by itself.
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("No longer listening: %s", error)

    def _patience(self) -> float:
        oldest = next(iter(self._clients), None)
        if oldest is None:
            return _POLL
        next_at = min(oldest.deadline, *self._postponed.values(), monotonic() + _POLL)
        return max(0.0, next_at - monotonic())

    def _welcome(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                sock, address = self._sock.accept()
                self._enter(sock, address[0], f"{address[0]}:{address[1]}")
        except (BlockingIOError, ConnectionError):
            # None is left, or one that has left again.
            return
        except OSError as error:
            if not self._closing.wait(self._retry):
                log.warning("A connection could not be accepted: %s", error)

    def _enter(self, sock: socket.socket, host: str, peer: str) -> None:
        if len(self._clients) == self._max_pending:
            self._dismiss(self._superfluous())
        try:
            sock.setblocking(False)
            prepared = self._prepare(sock)
            client = PendingClient(
                prepared, host, peer, self._handshake(), monotonic() + self._seconds
            )
            self._selector.register(prepared, selectors.EVENT_READ, client)
        except Exception as error:
            _report(peer, error)
            sock.close()
            return
        self._clients[client] = None
        self._hosts[host] += 1

    def _superfluous(self) -> PendingClient:
        most = max(self._hosts.values())
        return next(client for client in self._clients if self._hosts[client.host] == most)

    def _attend(self, client: PendingClient) -> None:
        wait = self._budget.wait(client.host)
        if wait:
            self._selector.unregister(client.sock)
            self._postponed[client] = monotonic() + wait
            return
        try:
            if self._advance(client):
                # Those that belong here take nothing of what strangers have.
                self._budget.spend(client.host, -client.spent)
                self._forget(client)
                self._admit(client.sock, client.peer, client.hello)
        except Exception as error:
            _report(client.peer, error)
            self._dismiss(client)

    def _advance(self, client: PendingClient) -> bool:
        began = thread_time()
        try:
            return client.advance()
        finally:
            spent = thread_time() - began
            client.spent += spent
            self._budget.spend(client.host, spent)

    def _recall(self) -> None:
        now = monotonic()
        for client in [client for client, at in self._postponed.items() if at <= now]:
            try:
                self._selector.register(client.sock, selectors.EVENT_READ, client)
            except Exception as error:
                _report(client.peer, error)
                self._dismiss(client)
            else:
                del self._postponed[client]

    def _dismiss_late(self) -> None:
        now = monotonic()
        late = [client for client in self._clients if client.deadline <= now]
        for client in late:
            log.debug("%s was not let in: %s", client.peer, unfinished(client.peer))
            self._dismiss(client)

    def _dismiss(self, client: PendingClient) -> None:
        if client in self._clients:
            self._forget(client)
        client.sock.close()

    def _forget(self, client: PendingClient) -> None:
        del self._clients[client]
        self._hosts[client.host] -= 1
        if not self._hosts[client.host]:
            del self._hosts[client.host]
        if self._postponed.pop(client, None) is None:
            self._selector.unregister(client.sock)


def _report(peer: str, error: Exception) -> None:
    """Log why a client was not let in: loudly, if that was not the client's doing."""
    if isinstance(error, TosError | OSError):
        log.debug("%s was not let in: %s", peer, error)
    else:
        log.error("%s was not let in", peer, exc_info=error)
