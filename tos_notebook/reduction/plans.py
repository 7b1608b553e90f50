"""A rank's rounds for one vector: each slice that is sent, received or added, made beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ..common.arrays import ALIGNMENT, Array, aligned_empty
from ..errors import LocalProtocolError
from ..transport.base import byte_view
from .links import PIECE, Link
from .schedules import Message, Round, Schedule

SMALL = 1 << 16
"""Bytes. To copy so many costs less than one more call to the kernel."""


class Inbox:
    """Where messages come: a head, and behind it, aligned, the first or next bytes of the rest.

    Parameters
    ----------
    head : int
        Bytes of a head, at most `ALIGNMENT`.
    """

    def __init__(self, head: int) -> None:
        memory = aligned_empty(ALIGNMENT + PIECE)[ALIGNMENT - head :]
        self.head = head
        self.bytes = memory.data
        self.payload = memory[head:]


class Sent(NamedTuple):
    """A message to send."""

    link: Link
    part: int
    nbytes: int
    data: memoryview


class Piece(NamedTuple):
    """What is added at once."""

    target: Array
    """A slice of the vector."""
    came: Array
    """What comes for it, in the inbox."""
    payload: memoryview
    """The same as bytes; empty for the first piece, which comes with the head."""
    own: Array
    """The rank's own numbers, where others come before them; else empty."""


class Received(NamedTuple):
    """A message to receive."""

    link: Link
    parts: tuple[int, ...]
    nbytes: int
    first: memoryview
    """The head, and what comes with it."""
    data: memoryview
    """The slice of the vector as bytes, for what is copied."""
    pieces: tuple[Piece, ...]
    """For what is added."""


class Step(NamedTuple):
    """A round."""

    sends: tuple[Sent, ...]
    receives: tuple[Received, ...]
    round: Round
    own: Array
    """The slice of the vector that others are added to before; else empty."""
    kept: Array
    """Where it is kept meanwhile."""
    apart: Array
    """A copy of the vector to send, where what comes is added to what is sent; else empty."""


class Plan:
    """The steps of one rank for one vector, which stays its owner's.

    Parameters
    ----------
    schedule : Schedule
    rank : int
    links : mapping of int
        To the peers.
    vector : ndarray, shape (size,), of a floating dtype
        Contiguous and writable.
    inbox : Inbox

    Raises
    ------
    LocalProtocolError
        The vector cannot be reduced in place.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        links: Mapping[int, Link],
        vector: Array,
        inbox: Inbox,
    ) -> None:
        if vector.ndim != 1 or vector.dtype.kind != "f":
            raise LocalProtocolError(
                f"Expected a vector of floating numbers, got {vector.dtype} of shape "
                f"{vector.shape}."
            )
        self.vector = vector
        self._data = byte_view(vector, writable=True) or memoryview(b"")
        self._bounds = schedule.bounds(vector.size)
        self._links = links
        self._inbox = inbox
        self._numbers = inbox.payload.view(vector.dtype)
        # Slices without elements are not sent, and no peer waits for them.
        made = [self._step(each) for each in schedule.ranks[rank]]
        self.steps = [step for step in made if step.sends or step.receives]

    def _step(self, made: Round) -> Step:
        own = kept = self.vector[:0]
        if made.own:
            _, first, behind = made.receives[0]
            own = self.vector[self._bounds[first] : self._bounds[behind]]
            kept = np.empty_like(own)
        received = [
            self._received(message, made.adds, kept)
            for message in made.receives
            if self._size(message)
        ]
        sent = {part for message in made.sends for part in self._parts(message)}
        changes = made.adds and any(not sent.isdisjoint(each.parts) for each in received)
        # Elsewhere: a peer that shares this memory reads what is sent while that changes.
        apart = np.empty_like(self.vector) if changes else self.vector[:0]
        sends = self._sent(made.sends, apart.view(np.uint8).data if changes else self._data)
        return Step((*sends,), tuple(received), made, own, kept, apart)

    def _size(self, message: Message) -> int:
        return self._bounds[message.stop] - self._bounds[message.start]

    def _parts(self, message: Message) -> tuple[int, ...]:
        """Return the parts with elements: of others, no message tells what they weigh."""
        bounds = self._bounds
        parts = range(message.start, message.stop)
        return tuple(part for part in parts if bounds[part] < bounds[part + 1])

    def _bytes(self, message: Message, of: memoryview) -> memoryview:
        itemsize = self.vector.itemsize
        low, high = (self._bounds[part] * itemsize for part in message[1:])
        return of[low:high]

    def _sent(self, messages: tuple[Message, ...], of: memoryview) -> Iterator[Sent]:
        for message in messages:
            if self._size(message):
                data = self._bytes(message, of)
                yield Sent(self._links[message.peer], self._parts(message)[0], data.nbytes, data)

    def _received(self, message: Message, adds: bool, kept: Array) -> Received:
        data = self._bytes(message, self._data)
        with_head = min(data.nbytes, PIECE) if adds else data.nbytes * (data.nbytes <= SMALL)
        return Received(
            self._links[message.peer],
            self._parts(message),
            data.nbytes,
            self._inbox.bytes[: self._inbox.head + with_head],
            data,
            (*self._pieces(message, kept),) if adds else (),
        )

    def _pieces(self, message: Message, kept: Array) -> Iterator[Piece]:
        size = PIECE // self.vector.itemsize
        whole = self.vector[self._bounds[message.start] : self._bounds[message.stop]]
        for start in range(0, whole.size, size):
            target = whole[start : start + size]
            payload = self._inbox.payload.data[: target.nbytes if start else 0]
            yield Piece(target, self._numbers[: target.size], payload, kept[start : start + size])
