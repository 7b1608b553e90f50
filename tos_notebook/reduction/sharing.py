"""Links between two ranks of one host, each of which can read the other's memory.

Bytes do not go through the connection between them, and are not encrypted. It carries signals: how
many bytes are there to read, and how many were read. So a rank that dies is noticed as on any other
link, and a signal that has come proves that the bytes before it are in memory.

A rank writes into its own memory alone, which the others map for reading. What is there already,
such as a part of a large vector, is not copied to be sent: the peer reads it where it is, and the
sender owes it until then. Anything else is copied into a ring buffer, one for each peer. MPI calls
the two ways rendezvous and eager: Buntinas, Mercier and Gropp 2006, "Design and evaluation of
Nemesis, a scalable, low-latency, message-passing communication subsystem", CCGRID.

The memory begins with a random number, which is another one for each mesh. A peer proves by it that
it has mapped the right memory, and looks again after each read: once a rank has left a mesh, it
writes what it likes.
"""

from __future__ import annotations

import secrets
import select
import struct
from collections import deque
from collections.abc import Collection
from enum import IntEnum

import numpy as np

from ..common.arrays import ALIGNMENT, Buffer
from ..errors import PeerLost
from ..transport.shared import Segment, attach
from .links import PIECE, Link

_SIGNAL = struct.Struct("<IIQQQ")
"""Bytes that are in the ring, and bytes of the other ring that were read. Then where bytes are
outside of the ring, how many, and how many of the other's were read there."""

_NONCE = 16
_OFFER = struct.Struct(f"64s{_NONCE}sQ")
"""The name of the memory, what is written at its begin, and its length."""

OFFER = _OFFER.size
"""Bytes of an offer."""

NO_OFFER = bytes(OFFER)

_RINGS = 1 << 22
"""Bytes of all ring buffers of a rank."""

_LARGE = 1 << 16
"""Bytes. To copy less costs less than to wait until a peer has read them."""


class Within(IntEnum):
    """How a rank reaches others on its host; the last of several ways is the worst."""

    NONE = 1
    """There is no other."""
    SHARED = 2
    """Over shared memory."""
    NO_MEMORY = 3
    """Over sockets: the system gives no memory to share."""
    APART = 4
    """Over sockets: they cannot map each other's memory, as in containers."""


class Memory:
    """A rank's memory, which others on its host can map until it is closed.

    Parameters
    ----------
    nbytes : int
        Of the rank's vectors.

    Attributes
    ----------
    vectors : ndarray of uint8, shape (nbytes,)
        For vectors that links send without a copy. Aligned; ordinary memory where the system gives
        none to share.
    whole : ndarray of uint8
        With what is before the vectors.
    """

    def __init__(self, nbytes: int) -> None:
        self._segment = Segment(ALIGNMENT + _RINGS + nbytes)
        self.whole = self._segment.buffer
        self.vectors = self.whole[ALIGNMENT + _RINGS :]
        self._nonce = bytes(_NONCE)

    def begin(self) -> bytes:
        """Offer it to the peers of a new mesh; those of the one before read nothing any more.

        Returns
        -------
        bytes, of length `OFFER`
            `NO_OFFER` where the system gives no memory to share.
        """
        self._nonce, name = secrets.token_bytes(_NONCE), self._segment.name.encode()
        self.whole[:_NONCE] = np.frombuffer(self._nonce, np.uint8)
        return _OFFER.pack(name, self._nonce, self.whole.size) if name else NO_OFFER

    def end(self, offer: bytes) -> None:
        """Keep the peers of a mesh from reading what is written from now on.

        Parameters
        ----------
        offer : bytes
            Where it is not the latest one, nothing is to be done.
        """
        if offer != NO_OFFER and _OFFER.unpack(offer)[1] == self._nonce:
            self.whole[:_NONCE] = 0

    def close(self) -> None:
        """Keep others from mapping it; may be repeated."""
        self._segment.close()


def accept(offer: bytes) -> tuple[Within, Buffer | None]:
    """Map the memory of another rank, for reading.

    Parameters
    ----------
    offer : bytes
        Its own.

    Returns
    -------
    within : Within
    memory : ndarray of uint8, shape (nbytes,), or None
        It cannot be written.
    """
    name, nonce, nbytes = _OFFER.unpack(offer)
    if not nbytes:
        return Within.NO_MEMORY, None
    memory = None
    if ALIGNMENT + _RINGS <= nbytes < 1 << 62:
        memory = attach(name.rstrip(b"\0").decode("ascii", "replace"), nbytes, writable=False)
    if memory is None or memory[:_NONCE].tobytes() != nonce:
        return Within.APART, None
    return Within.SHARED, memory


def _ring(memory: Buffer, rank: int, group: Collection[int]) -> memoryview:
    """Return the ring buffer for a rank of those on a host."""
    size = _RINGS // len(group)
    start = ALIGNMENT + sorted(group).index(rank) * size
    return memory.data[start : start + size]


class _Ring:
    """Bytes in the order in which one end writes and the other one reads them."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._at = 0

    def write(self, data: memoryview) -> None:
        first = min(len(data), len(self._memory) - self._at)
        self._memory[self._at : self._at + first] = data[:first]
        if first < len(data):
            self._memory[: len(data) - first] = data[first:]
        self._at = (self._at + len(data)) % len(self._memory)

    def read(self, target: memoryview) -> None:
        first = min(len(target), len(self._memory) - self._at)
        target[:first] = self._memory[self._at : self._at + first]
        if first < len(target):
            target[first:] = self._memory[: len(target) - first]
        self._at = (self._at + len(target)) % len(self._memory)


class SharedLink:
    """A link to a rank whose memory this one reads, and that reads this one's; see `Link`.

    What was read of a ring is told by quarters, or with what is sent next. So few signals are under
    way at a time, and the kernel always has room for them.

    Parameters
    ----------
    signals : Link
        The connection, from now on this link's.
    rank : int
        This rank.
    mine, theirs : ndarray of uint8, shape (nbytes,)
        The memory of both.
    group : collection of int
        All ranks on the host, these two included.
    offer : bytes
        By which `theirs` was mapped.
    """

    def __init__(
        self,
        signals: Link,
        rank: int,
        mine: Buffer,
        theirs: Buffer,
        group: Collection[int],
        offer: bytes,
    ) -> None:
        self.rank = signals.rank
        self.sent = self.received = 0
        self.fileno, self.shutdown = signals.fileno, signals.shutdown
        self._signals = signals
        self._mine, self._theirs = _address(mine.data), theirs.data
        self._nonce = _OFFER.unpack(offer)[1]
        self._length = mine.size
        outgoing = _ring(mine, self.rank, group)
        self._outgoing, self._incoming = _Ring(outgoing), _Ring(_ring(theirs, rank, group))
        self._size = self._room = len(outgoing)
        self._lent = 0
        # What the peer is not told yet.
        self._wrote = self._read = self._start = self._count = self._returned = 0
        self._unsent = b""
        # What is to be read: bytes of the ring, and then those outside of it.
        self._come: deque[tuple[int, memoryview]] = deque()
        self._filled, self._outside = 0, memoryview(b"")
        self._signal = memoryview(bytearray(_SIGNAL.size))
        self._heard = 0

    @property
    def waited(self) -> float:
        """See `Link.waited`."""
        return self._signals.waited

    @waited.setter
    def waited(self, seconds: float) -> None:
        self._signals.waited = seconds

    @property
    def untold(self) -> bool:
        """See `Link.untold`."""
        return bool(self._unsent or self._wrote or self._count or self._signals.untold)

    @property
    def owes(self) -> bool:
        """See `Link.owes`."""
        return self._lent > 0 or self.untold

    @property
    def sends_on(self) -> int:
        """See `Link`: the peer's signals tell of room, and of what it has read."""
        waits = self._lent or not self._room
        return select.POLLIN if waits and not self.untold else select.POLLOUT

    def send_some(self, head: bytes, data: memoryview) -> int:
        """Send what fits now; see `Link`."""
        wanted = min(len(head) + len(data), PIECE)
        while (self._lent or self._room < wanted) and self._listen():
            pass
        first = memoryview(head)[: self._room]
        self._write(first)
        taken = len(first)
        if taken == len(head):
            start = self._place(data) if len(data) >= _LARGE else -1
            if start >= 0:
                self._start, self._count = start, len(data)
                self._lent += len(data)
                taken += len(data)
            else:
                part = data[: min(self._room, wanted - taken)]
                self._write(part)
                taken += len(part)
        self._tell()
        return taken

    def receive_some(self, target: memoryview) -> int:
        """Receive what is there; see `Link`."""
        while not (self._filled or self._outside or self._come) and self._listen():
            pass
        return self._take(target)

    def receive(self, target: memoryview) -> None:
        """Wait until all has come; see `Link`."""
        while target := target[self._take(target) :]:
            self._signals.receive(self._signal[self._heard :])
            self._note(_SIGNAL.size - self._heard)

    def close(self) -> None:
        """Close the socket, and let go of the memory; see `Link`."""
        self._signals.close()
        nothing = memoryview(b"")
        self._outgoing = self._incoming = _Ring(nothing)
        self._theirs = self._outside = nothing
        self._come.clear()

    def _write(self, data: memoryview) -> None:
        if data:
            self._outgoing.write(data)
            self._room -= len(data)
            self._wrote += len(data)

    def _place(self, data: memoryview) -> int:
        """Return where bytes are in this rank's memory; -1 if they are elsewhere."""
        start = _address(data) - self._mine
        return start if 0 <= start <= self._length - len(data) else -1

    def _take(self, target: memoryview) -> int:
        """Read what is there, in its order."""
        got = 0
        while got < len(target):
            if not (self._filled or self._outside):
                if not self._come:
                    break
                self._filled, self._outside = self._come.popleft()
            got += self._take_next(target[got:])
        if got and self._theirs[:_NONCE] != self._nonce:
            raise PeerLost(self.rank, "has left.")
        return got

    def _take_next(self, target: memoryview) -> int:
        if self._filled:
            got = min(self._filled, len(target))
            self._incoming.read(target[:got])
            self._filled -= got
            self._read += got
            if self._read >= self._size // 4:
                self._tell()
            return got
        got = min(len(self._outside), len(target))
        target[:got] = self._outside[:got]
        self._outside = self._outside[got:]
        self._returned += got
        if not self._outside:
            self._tell()
        return got

    def _tell(self) -> None:
        """Signal what the peer does not know, as far as the kernel takes it."""
        if not self._unsent and (self._wrote or self._read or self._count or self._returned):
            self._unsent = _SIGNAL.pack(
                self._wrote, self._read, self._start, self._count, self._returned
            )
            self._wrote = self._read = self._count = self._returned = 0
        if self._unsent or self._signals.untold:
            sent = self._signals.send_some(b"", memoryview(self._unsent))
            self._unsent = self._unsent[sent:]
            self.sent += sent

    def _listen(self) -> bool:
        """Take note of a signal; return whether something has come."""
        got = self._signals.receive_some(self._signal[self._heard :])
        self._note(got)
        return got > 0

    def _note(self, got: int) -> None:
        """Take note of a signal, once all of its bytes are there."""
        self.received += got
        self._heard += got
        if self._heard < _SIGNAL.size:
            return
        self._heard = 0
        wrote, read, start, count, returned = _SIGNAL.unpack(self._signal)
        self._room += read
        self._lent -= returned
        there = self._filled + wrote + sum(filled for filled, _ in self._come)
        outside = count + len(self._outside) + sum(len(lent) for _, lent in self._come)
        fits = there <= self._size and max(start + count, outside) <= len(self._theirs)
        if not (fits and self._room <= self._size and self._lent >= 0):
            raise PeerLost(
                self.rank,
                "sends signals of memory that is not there: "
                f"{wrote} written, {read} read, {count} at {start}, {returned} returned.",
            )
        if wrote or count:
            self._come.append((wrote, self._theirs[start : start + count]))


def _address(data: memoryview) -> int:
    """Return where bytes are in this process."""
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address
