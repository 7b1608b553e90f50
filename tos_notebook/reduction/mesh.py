"""Links between all workers of a generation: who listens, who connects, and who comes too late."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple

from ..errors import (
    AuthenticationError,
    ConnectionClosed,
    LocalProtocolError,
    PeerLost,
    TransportError,
)
from ..transport.acceptor import Acceptor
from ..transport.base import LOOPBACK, Address, Endpoint
from ..transport.dial import open_channel
from ..transport.sockets import SocketChannel, Timeouts
from .links import Link, Patience, ask_none, link_over, wait

_HELLO = struct.Struct(">QI")
"""The generation, and the rank of who connects."""

_READY = b"\x01"
"""What the one that was connected to says, once it takes the link into its mesh."""

UNHEARD = 60.0
"""Seconds in which a peer's host must acknowledge what was sent, however long the peer computes."""

FORMING, REDUCING = 0.05, 1.0
"""Seconds of silence after which a rank asks whether it still needs a peer: while it connects to
the others, and later. Only a computation that long makes a reduction ask."""

MOST_RANKS = 1000
"""As many as the driver names in an answer."""

KEPT = 2
"""Channels of each rank that a listener keeps: those of this generation and of the next one. One of
a generation that never comes is closed in time."""


class Peer(NamedTuple):
    """Where a worker's listener is.

    Attributes
    ----------
    address : Address
        By which others reach it.
    fingerprint : bytes or None
        Of its certificate; None where it does not speak TLS.
    """

    address: Address
    fingerprint: bytes | None = None


class PeerListener:
    """Where a worker's peers connect, one generation after the other. It listens at once.

    Parameters
    ----------
    secret : bytes
        The session's secret, which all workers hold.
    endpoint : Endpoint
        Where to listen.
    patience : float
        Seconds that a peer may be silent when something is expected of it.

    Attributes
    ----------
    here : Peer
        What others have to know. Its host is the endpoint's, which may be all interfaces.

    Raises
    ------
    TransportError, AuthenticationError
        See `Acceptor`.
    """

    def __init__(
        self, secret: bytes, endpoint: Endpoint = LOOPBACK, patience: float = 60.0
    ) -> None:
        self.secret = secret
        self.patience = patience
        self.timeouts = Timeouts(min(patience, UNHEARD), patience)
        self._generation = 0
        # By generation and rank, in the order in which they came.
        self._arrived: dict[tuple[int, int], SocketChannel[Any]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._acceptor = Acceptor(
            secret, self._admit, endpoint, self.timeouts, hello_size=_HELLO.size
        )
        self.here = Peer(self._acceptor.address, self._acceptor.fingerprint)
        self._acceptor.start()

    def begin(self, generation: int) -> None:
        """Refuse peers of generations before this one, and close what is left of them.

        Parameters
        ----------
        generation : int
            At least that of the last call.
        """
        with self._changed:
            self._generation = generation
            for place in [place for place in self._arrived if place[0] < generation]:
                self._arrived.pop(place).close()

    def take(self, generation: int, rank: int, timeout: float) -> SocketChannel[Any] | None:
        """Return the channel to a peer of a generation, once it has connected.

        Parameters
        ----------
        generation, rank : int
            The peer's.
        timeout : float
            Seconds.

        Returns
        -------
        SocketChannel or None
            None if it has not connected in time.

        Raises
        ------
        ConnectionClosed
            This listener was closed.
        """
        place = generation, rank
        with self._changed:
            self._changed.wait_for(lambda: self._closed or place in self._arrived, timeout)
            if self._closed:
                raise ConnectionClosed("The listener for peers was closed on this side.")
            return self._arrived.pop(place, None)

    def close(self, timeout: float = 5.0) -> None:
        """End listening, and close what no mesh has taken; may be repeated.

        Parameters
        ----------
        timeout : float
            Seconds to wait for its thread.

        Raises
        ------
        WaitTimeout
            The thread did not end in time.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._acceptor.close(timeout)
        with self._changed:
            while self._arrived:
                self._arrived.popitem()[1].close()

    def _admit(self, channel: SocketChannel[Any], hello: bytes) -> None:
        generation, rank = _HELLO.unpack(hello)
        with self._changed:
            if self._closed or generation < self._generation or rank >= MOST_RANKS:
                raise ConnectionClosed(
                    f"Expected a peer of generation {self._generation} or later with a rank below "
                    f"{MOST_RANKS}, but {channel.peer} is of generation {generation} with rank "
                    f"{rank}."
                )
            before = self._arrived.pop((generation, rank), None)
            kept = [place for place in self._arrived if place[1] == rank]
            if len(kept) == KEPT:
                before = self._arrived.pop(kept[0])
            self._arrived[generation, rank] = channel
            self._changed.notify_all()
        if before is not None:
            before.close()


class Mesh:
    """A link to each other worker of one generation.

    Parameters
    ----------
    listener : PeerListener
        This worker's; stays its owner's.
    rank : int
        This worker's.
    peers : sequence of Peer
        All workers by their ranks, this one included.
    generation : int
        Higher than that of each mesh which the listener has served before.
    ask : callable
        Called now and then while it waits for a peer, with that one's rank. What it raises ends
        the wait, and closes the mesh.

    Attributes
    ----------
    links : mapping of int
        To each other rank, once it is formed.
    reductions : int
        How many were begun on it.
    """

    def __init__(
        self,
        listener: PeerListener,
        rank: int,
        peers: Sequence[Peer],
        generation: int = 0,
        ask: Callable[[int], object] = ask_none,
    ) -> None:
        self.rank = rank
        self.n = len(peers)
        self.generation = generation
        self.patience = Patience(listener.patience, REDUCING, ask)
        self.links: Mapping[int, Link] = {}
        self.reductions = 0
        self._listener = listener
        self._peers = tuple(peers)
        self._busy = threading.Lock()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether its links are ended, or about to be."""
        return self._closed

    def form(self, timeout: float) -> None:
        """Connect to the ranks below, and wait for those above and for all to say so.

        Parameters
        ----------
        timeout : float
            Seconds for all of it.

        Raises
        ------
        PeerLost
            A peer cannot be reached, is not the one, or has not done the same in time. The mesh
            is closed.
        ConnectionClosed
            This side closed the mesh or the listener.
        """
        self._listener.begin(self.generation)
        self.run(self._form, monotonic() + timeout)

    def _form(self, deadline: float) -> None:
        links = self.links = dict[int, Link]()
        for rank in range(self.rank):
            links[rank] = self._over(self._dial(rank, deadline), rank)
        for rank in range(self.rank + 1, self.n):
            links[rank] = self._over(self._take(rank, deadline), rank)
        # Only now, as a peer that hears it may begin to send.
        for rank in range(self.rank + 1, self.n):
            links[rank].send_some(_READY, memoryview(b""))
        for rank in range(self.rank):
            said = bytearray(len(_READY))
            while not links[rank].receive_some(memoryview(said)):
                wait((links[rank],), (), self._until(deadline))
            if said != _READY:
                raise PeerLost(rank, f"says {bytes(said)!r} where it is to say that it is ready.")

    def _until(self, deadline: float) -> Patience:
        return Patience(deadline - monotonic(), FORMING, self.patience.ask)

    def _take(self, rank: int, deadline: float) -> SocketChannel[Any]:
        for seconds in self._until(deadline).turns(rank):
            taken = self._listener.take(self.generation, rank, seconds)
            if taken is not None:
                return taken
        raise PeerLost(rank, "has not connected in time.")

    def run(self, call: Callable[..., None], *arguments: object) -> None:
        """Make a call that uses the links, one at a time; any error there ends them.

        What is left in them would be taken for something else.

        Parameters
        ----------
        call : callable
        *arguments : object
            Its arguments.

        Raises
        ------
        LocalProtocolError
            Another thread uses them.
        ConnectionClosed
            This side closed the mesh, before or meanwhile.
        """
        if not self._busy.acquire(blocking=False):
            raise LocalProtocolError("Expected one thread to use the links to peers at a time.")
        try:
            if not self._closed:
                call(*arguments)
            if self._closed:
                raise self._ended()
        except BaseException as error:
            ended_here, self._closed = self._closed, True
            if ended_here and isinstance(error, PeerLost):
                raise self._ended() from error
            raise
        finally:
            self._busy.release()
            if self._closed:
                self.close()

    def close(self) -> None:
        """End all links, from any thread; peers that wait on them lose this one. Repeatable."""
        self._closed = True
        links = list(self.links.values())
        for link in links:
            link.shutdown()
        # A thread that uses the links closes them itself, when it has done with them.
        if self._busy.acquire(blocking=False):
            for link in links:
                link.close()
            self._busy.release()

    def _over(self, channel: SocketChannel[Any], rank: int) -> Link:
        return link_over(channel, rank, self.patience)

    def _dial(self, rank: int, deadline: float) -> SocketChannel[Any]:
        (host, port), fingerprint = self._peers[rank]
        left = max(0.0, deadline - monotonic())
        usual = self._listener.timeouts
        timeouts = replace(usual, handshake=min(usual.handshake, left))
        hello = _HELLO.pack(self.generation, self.rank)
        try:
            return open_channel(host, port, self._listener.secret, fingerprint, timeouts, hello)
        except TransportError as error:
            # The system's own words: what else is said is about the driver.
            system = error.__context__
            foreign = isinstance(error, AuthenticationError)
            problem = f"{system}." if isinstance(system, OSError) and not foreign else error
            raise PeerLost(rank, f"cannot be reached at {host}:{port}: {problem}") from error

    def _ended(self) -> ConnectionClosed:
        return ConnectionClosed("The links to peers were closed on this side. Form a new mesh.")
