"""Links between all workers of a generation: who listens, who connects, and who comes too late."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
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
from .sharing import NO_OFFER, OFFER, Memory, SharedLink, Within, accept

_HELLO = struct.Struct(f">QI{OFFER}s")
"""The generation, and the rank of who connects; the memory that it offers."""

_READY = b"\x01"
"""What the one that was connected to says before its offer, once the link is in its mesh."""

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


class Arrived(NamedTuple):
    """A peer that has connected.

    Attributes
    ----------
    channel : SocketChannel
    offer : bytes
        See `sharing.accept`.
    """

    channel: SocketChannel[Any]
    offer: bytes


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
        self._arrived: dict[tuple[int, int], Arrived] = {}
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
                self._arrived.pop(place).channel.close()

    def take(self, generation: int, rank: int, timeout: float) -> Arrived | None:
        """Return a peer of a generation, once it has connected.

        Parameters
        ----------
        generation, rank : int
            The peer's.
        timeout : float
            Seconds.

        Returns
        -------
        Arrived or None
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
                self._arrived.popitem()[1].channel.close()

    def _admit(self, channel: SocketChannel[Any], hello: bytes) -> None:
        generation, rank, offer = _HELLO.unpack(hello)
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
            self._arrived[generation, rank] = Arrived(channel, offer)
            self._changed.notify_all()
        if before is not None:
            before.channel.close()


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
    memory : Memory, optional
        This worker's, for those on its host; stays its owner's.
    near : collection of int
        The ranks on this one's host. All of them name the same ones.

    Attributes
    ----------
    links : mapping of int
        To each other rank, once it is formed.
    within : Within
        How it reaches those on its host: the worst, where ways differ.
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
        memory: Memory | None = None,
        near: Collection[int] = (),
    ) -> None:
        self.rank = rank
        self.n = len(peers)
        self.generation = generation
        self.patience = Patience(listener.patience, REDUCING, ask)
        self.links: Mapping[int, Link] = {}
        self.reductions = 0
        self.within = Within.NONE
        self._memory, self._near = memory, near
        self._offered = memory.begin() if memory and near else NO_OFFER
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
        below, above = range(self.rank), range(self.rank + 1, self.n)
        offers: dict[int, bytes] = {}
        for rank in below:
            links[rank] = self._over(self._dial(rank, deadline), rank)
        for rank in above:
            arrived = self._take(rank, deadline)
            links[rank] = self._over(arrived.channel, rank)
            offers[rank] = arrived.offer
        # Only now, as a peer that hears it may begin to send.
        for rank in above:
            links[rank].send_some(_READY + self._offer(rank), memoryview(b""))
        for rank in below:
            ready = self._hear(links[rank], len(_READY) + OFFER, deadline)
            if not ready.startswith(_READY):
                raise PeerLost(rank, f"says {ready!r} where it is to say that it is ready.")
            offers[rank] = ready[len(_READY) :]
        self._share(links, offers, deadline)

    def _share(self, links: dict[int, Link], offers: dict[int, bytes], deadline: float) -> None:
        """Share memory with those on this host, where both can read the other's."""
        near = sorted({*self._near} - {self.rank})
        found = {rank: accept(offers[rank]) for rank in near}
        for rank, (within, _) in found.items():
            links[rank].send_some(bytes([within]), memoryview(b""))
        for rank, (within, memory) in found.items():
            (said,) = self._hear(links[rank], 1, deadline)
            if said not in [*Within]:
                raise PeerLost(rank, f"says {said} where it is to say whether it shares memory.")
            self.within = max(self.within, within, Within(said))
            if memory is not None and said == Within.SHARED and self._memory is not None:
                both = self.rank, self._memory.whole, memory, [self.rank, *near], offers[rank]
                links[rank] = SharedLink(links[rank], *both)

    def _offer(self, rank: int) -> bytes:
        return self._offered if rank in self._near else NO_OFFER

    def _hear(self, link: Link, nbytes: int, deadline: float) -> bytes:
        """Wait for what a peer says."""
        said = bytearray(nbytes)
        left = memoryview(said)
        while left := left[link.receive_some(left) :]:
            wait((link,), (), self._until(deadline))
        return bytes(said)

    def _until(self, deadline: float) -> Patience:
        return Patience(deadline - monotonic(), FORMING, self.patience.ask)

    def _take(self, rank: int, deadline: float) -> Arrived:
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
            if self._memory is not None:
                self._memory.end(self._offered)
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
        hello = _HELLO.pack(self.generation, self.rank, self._offer(rank))
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
