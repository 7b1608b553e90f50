"""One connection to a peer, without frames, that never keeps a sender from receiving."""

from __future__ import annotations

import math
import select
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from ..errors import PeerLost
from ..transport.secured import SecuredSocket
from ..transport.sockets import SocketChannel

PIECE = 1 << 18
"""Bytes. What is added while the next ones come; it stays in a processor's own cache."""

_AT_ONCE = 1 << 20
"""Bytes that a call gives to the kernel at most: enough for a peer to be busy with meanwhile."""

_ENDED = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def ask_none(rank: int) -> None:
    """Wait for a peer, and ask whether it is needed of none."""


class Patience(NamedTuple):
    """How long to wait for a peer of which something is expected, and whom to ask meanwhile.

    Parameters
    ----------
    seconds : float
        Of silence, after which the peer is lost.
    every : float
        Seconds of silence between two calls of `ask`.
    ask : callable
        Takes the peer's rank. What it raises ends the wait.
    """

    seconds: float
    every: float = math.inf
    ask: Callable[[int], object] = ask_none

    @property
    def turn(self) -> float:
        """Seconds to wait before it asks."""
        return min(self.seconds, self.every)

    def turns(self, rank: int) -> Iterator[float]:
        """Yield seconds to wait for a peer, and ask after each but the last.

        Parameters
        ----------
        rank : int
            The peer's.
        """
        left = self.seconds
        while left > 0:
            yield min(left, self.every)
            left -= self.every
            if left > 0:
                self.ask(rank)


class Link(Protocol):
    """A connection to a peer that takes and brings what it can without waiting.

    All of its calls raise PeerLost once the peer is gone, or silent for longer than its patience.
    """

    rank: int
    """The peer's."""
    sent: int
    """Bytes, without those that TLS adds."""
    received: int
    """Likewise."""
    waited: float
    """Seconds that it has waited for the peer."""

    @property
    def untold(self) -> bool:
        """Whether something was taken that the kernel has not."""

    @property
    def owes(self) -> bool:
        """Whether what was taken must not change yet: it is untold, or the peer still reads it."""

    @property
    def sends_on(self) -> int:
        """The event of `select.poll` after which it can send more."""

    def fileno(self) -> int:
        """Return the descriptor of its socket."""

    def send_some(self, head: bytes, data: memoryview) -> int:
        """Send what fits now of some bytes and then others; return how many were taken.

        Parameters
        ----------
        head, data : bytes, memoryview
        """

    def receive_some(self, target: memoryview) -> int:
        """Receive what is there; return how many bytes.

        Parameters
        ----------
        target : memoryview
            Where to.
        """

    def receive(self, target: memoryview) -> None:
        """Wait until all of a buffer has come; nothing may be owed.

        Parameters
        ----------
        target : memoryview
            Where to.
        """

    def shutdown(self) -> None:
        """End the connection, from any thread."""

    def close(self) -> None:
        """Close the socket, once no thread uses it."""


class _SocketLink(ABC):
    sends_on = select.POLLOUT

    def __init__(self, sock: Any, rank: int, patience: Patience) -> None:
        self.rank = rank
        self.sent = self.received = 0
        self.waited = 0.0
        self.untold = False
        self.fileno = sock.fileno
        self.close = sock.close
        self._sock = sock
        self._patience = patience

    def shutdown(self) -> None:
        # The peer may have ended it before.
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    @property
    def owes(self) -> bool:
        """See `Link.owes`."""
        return self.untold

    @abstractmethod
    def _take(self, target: memoryview) -> int:
        """Receive what is there, without waiting; return how many bytes."""

    def receive_some(self, target: memoryview) -> int:
        """Receive what is there; see `Link`."""
        try:
            got = self._take(target)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(error) from error
        if not got:
            raise self._lost()
        self.received += got
        return got

    def _lost(self, error: OSError | None = None) -> PeerLost:
        reason = f": {error}" if error else ""
        return PeerLost(self.rank, f"has left{reason}.")


class TcpLink(_SocketLink):
    """A link over plain TCP.

    Parameters
    ----------
    sock : socket
        Blocks.
    rank : int
        The peer's.
    patience : Patience
    """

    def __init__(self, sock: socket.socket, rank: int, patience: Patience) -> None:
        super().__init__(sock, rank, patience)
        seconds, fraction = divmod(patience.turn, 1)
        # A call ends with its turn, by the kernel's own limit.
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def send_some(self, head: bytes, data: memoryview) -> int:
        """Send what fits now; see `Link`."""
        try:
            if head:
                sent: int = self._sock.sendmsg((head, data[:_AT_ONCE]), (), socket.MSG_DONTWAIT)
            else:
                sent = self._sock.send(data[:_AT_ONCE], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(error) from error
        self.sent += sent
        return sent

    def _take(self, target: memoryview) -> int:
        return int(self._sock.recv_into(target, 0, socket.MSG_DONTWAIT))

    def receive(self, target: memoryview) -> None:
        """Wait until all has come; see `Link`."""
        began = perf_counter()
        turns: Iterator[float] | None = None
        while target:
            try:
                got = self._sock.recv_into(target, 0, socket.MSG_WAITALL)
            except BlockingIOError:
                turns = turns or self._first_turn()
                if next(turns, None) is None:
                    raise silent(self.rank, self._patience) from None
                continue
            except OSError as error:
                raise self._lost(error) from error
            if not got:
                raise self._lost()
            self.received += got
            target, turns = target[got:], None
        self.waited += perf_counter() - began

    def _first_turn(self) -> Iterator[float]:
        """Return the turns of a wait, the first of which is over."""
        turns = self._patience.turns(self.rank)
        next(turns)
        return turns


class TlsLink(_SocketLink):
    """A link over TLS.

    Parameters
    ----------
    sock : SecuredSocket
        Does not block.
    rank : int
        The peer's.
    patience : Patience
    """

    def __init__(self, sock: SecuredSocket, rank: int, patience: Patience) -> None:
        super().__init__(sock, rank, patience)
        self._encrypted = memoryview(b"")

    def send_some(self, head: bytes, data: memoryview) -> int:
        """Send what fits now; see `Link`. What is taken is encrypted, and owed until it is sent."""
        if not self._flush():
            return 0
        taken = data[: PIECE - len(head)]
        together = b"".join((head, taken)) if head else taken
        self._encrypted = memoryview(self._sock.encrypt(together))
        self._flush()
        sent = len(head) + len(taken)
        self.sent += sent
        return sent

    def _flush(self) -> bool:
        """Send what is owed, as far as it fits; return whether all of it was sent."""
        try:
            while self._encrypted:
                self._encrypted = self._encrypted[self._sock.raw.send(self._encrypted) :]
        except BlockingIOError:
            pass
        except OSError as error:
            raise self._lost(error) from error
        self.untold = bool(self._encrypted)
        return not self.untold

    def _take(self, target: memoryview) -> int:
        return int(self._sock.recv_into(target))

    def receive(self, target: memoryview) -> None:
        """Wait until all has come; see `Link`."""
        while target:
            got = self.receive_some(target)
            target = target[got:]
            if not got:
                wait((self,), (), self._patience)


def link_over(channel: SocketChannel[Any], rank: int, patience: Patience) -> Link:
    """Return the link over a channel to a peer that was let in, whose socket it owns from now on.

    Parameters
    ----------
    channel : SocketChannel
    rank : int
        The peer's.
    patience : Patience
        With it.
    """
    sock = channel.detach()
    if not isinstance(sock, SecuredSocket):
        return TcpLink(sock, rank, patience)
    sock.settimeout(0.0)
    return TlsLink(sock, rank, patience)


def wait(receiving: Iterable[Link], sending: Iterable[Link], patience: Patience) -> None:
    """Wait until something comes, or fits.

    Parameters
    ----------
    receiving, sending : iterable of Link
        Of which something is expected, and which have something to send.
    patience : Patience
        With the first of them.

    Raises
    ------
    PeerLost
        Nothing has moved; it names the first of them. Or a peer has closed, which the kernel may
        notice late, or not at all, by what is sent to it.
    """
    links = [*receiving, *sending]
    poll, began = select.poll(), perf_counter()
    for link in receiving:
        poll.register(link, select.POLLIN)
    for link in sending:
        # What the peer has said before it has left counts, and is read first.
        said = link in receiving or link.sends_on == select.POLLIN
        poll.register(link, link.sends_on | (select.POLLIN if said else _ENDED))
    moved: list[tuple[int, int]] = []
    for seconds in patience.turns(links[0].rank):
        moved = poll.poll(seconds * 1e3)
        if moved:
            break
    links[0].waited += perf_counter() - began
    if not moved:
        raise silent(links[0].rank, patience)
    ended = {descriptor for descriptor, events in moved if events & _ENDED}
    for link in sending:
        gone = link.fileno() in ended and link.sends_on == select.POLLOUT
        if gone and link not in receiving:
            raise PeerLost(link.rank, "has left.")


def silent(rank: int, patience: Patience) -> PeerLost:
    """Return the error for a peer of which something was expected for too long."""
    return PeerLost(
        rank, f"was silent for {patience.seconds:.3g} s. Look at its log for what it waits for."
    )
