"""The weighted mean of a vector on each rank, in place: a schedule, run over links."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..common.arrays import ALIGNMENT, Array, aligned_empty
from ..common.checks import at_least_zero
from ..errors import LocalProtocolError, RemoteProtocolError
from ..transport.base import byte_view
from .flow import Flow
from .links import PIECE, Link
from .mesh import Mesh
from .schedules import Message, Round, Schedule
from .weighing import Held, add, mean

_HEAD = struct.Struct("<QQdd")
"""Which reduction of the mesh it is, bytes that follow, and what they are: see `Held`."""

_SMALL = 1 << 16
"""Bytes. To copy so many costs less than one more call to the kernel."""

_NOTHING = Held(1.0, 0.0)


class Traffic(NamedTuple):
    """What one reduction took.

    Attributes
    ----------
    sent, received : mapping of int
        Bytes to and from each rank, without those that TLS adds.
    waited : float
        Seconds in which it waited for peers.
    reducing : float
        Seconds in which it added.
    """

    sent: Mapping[int, int]
    received: Mapping[int, int]
    waited: float
    reducing: float


class _Segment(NamedTuple):
    """A message of the schedule, for vectors of one size."""

    link: Link
    parts: range
    start: int
    stop: int


class _Step(NamedTuple):
    """A round of the schedule, for vectors of one size."""

    sends: tuple[_Segment, ...]
    receives: tuple[_Segment, ...]
    round: Round


class Reducer:
    """Reduces vectors with the other ranks of a mesh; one thread at a time.

    All ranks make the same reductions in the same order.

    Parameters
    ----------
    mesh : Mesh
        Formed; stays its owner's.
    schedule : Schedule
        The same on all ranks, and for as many as the mesh has.

    Raises
    ------
    LocalProtocolError
        The schedule is for another number of ranks.
    """

    def __init__(self, mesh: Mesh, schedule: Schedule) -> None:
        if schedule.n != mesh.n:
            raise LocalProtocolError(
                f"Expected a schedule for {mesh.n} ranks, got one for {schedule.n}."
            )
        self.schedule = schedule
        self._mesh = mesh
        self._plans: dict[int, list[_Step]] = {}
        self._flow = Flow(mesh.patience)
        # What comes begins where its numbers are aligned behind its head.
        inbox = aligned_empty(ALIGNMENT + PIECE)[ALIGNMENT - _HEAD.size :]
        self._inbox, self._piece = inbox.data, inbox[_HEAD.size :]
        self._kept = aligned_empty(0)
        self._held = [_NOTHING] * schedule.parts
        self._reducing = 0.0

    def reduce(self, vector: Array, weight: float) -> Traffic:
        """Replace a vector by the weighted mean of those of all ranks, the same bits on each.

        Parameters
        ----------
        vector : ndarray, shape (size,), of a floating dtype
            Contiguous and writable; of the same size and dtype on all ranks. Undefined after an
            error.
        weight : float
            At least 0. A vector of weight 0 counts for nothing, even if it holds NaN. If all
            weights are 0, each vector stays as it is.

        Returns
        -------
        Traffic
            What it took.

        Raises
        ------
        PeerLost
            A peer has left or was silent. The mesh is closed, so that all other ranks learn it.
        RemoteProtocolError
            A peer reduces something else. The mesh is closed.
        ConnectionClosed
            This side closed the mesh.
        LocalProtocolError
            The vector is not one, or another thread reduces.
        ConfigError
            The weight is not a finite number of at least 0.
        """
        own = float(at_least_zero("weight", weight))
        data = _bytes_of(vector)
        links = self._mesh.links.values()
        for link in links:
            link.sent = link.received = 0
            link.waited = 0.0
        self._reducing = 0.0
        self._mesh.run(self._reduce, vector, data, Held(own, own))
        return Traffic(
            {link.rank: link.sent for link in links},
            {link.rank: link.received for link in links},
            sum([link.waited for link in links]),
            self._reducing,
        )

    def _reduce(self, vector: Array, data: memoryview, own: Held) -> None:
        plan = self._plans.get(vector.size) or self._plan(vector.size)
        self._mesh.reductions += 1
        self._held = [own] * self.schedule.parts
        for step in plan:
            self._run(step, vector, data)

    def _plan(self, size: int) -> list[_Step]:
        bounds = self.schedule.bounds(size)

        def resolved(messages: tuple[Message, ...]) -> tuple[_Segment, ...]:
            return tuple(
                _Segment(self._mesh.links[peer], range(*parts), bounds[parts[0]], bounds[parts[1]])
                for peer, *parts in messages
                if bounds[parts[0]] < bounds[parts[1]]
            )

        rounds = self.schedule.ranks[self._mesh.rank]
        steps = [_Step(resolved(r.sends), resolved(r.receives), r) for r in rounds]
        # Vectors of a run are of one size, or of a few.
        self._plans = {size: [step for step in steps if step.sends or step.receives]}
        return self._plans[size]

    def _run(self, step: _Step, vector: Array, data: memoryview) -> None:
        itemsize = vector.itemsize
        for link, parts, start, stop in step.sends:
            head = _HEAD.pack(
                self._mesh.reductions, (stop - start) * itemsize, *self._held[parts.start]
            )
            self._flow.send(link, head, data[start * itemsize : stop * itemsize])
        if step.round.adds and step.receives:
            self._add(step, vector)
        else:
            for segment in step.receives:
                self._copy(segment, data, itemsize)
        self._flow.finish()

    def _add(self, step: _Step, vector: Array) -> None:
        _, parts, start, stop = step.receives[0]
        mine, own = self._held[parts.start], step.round.own
        kept = self._keep(vector[start:stop]) if own else vector[:0]
        before = _NOTHING if own else mine
        size = PIECE // vector.itemsize
        numbers = self._piece.view(vector.dtype)
        for number, (link, *_) in enumerate(step.receives, 1):
            nbytes = (stop - start) * vector.itemsize
            came = self._begin(link, nbytes, min(nbytes, PIECE))
            together = before.plus(came)
            after = together.plus(mine) if number == own else together
            completes = step.round.final and number == len(step.receives)
            for low in range(start, stop, size):
                target = vector[low : min(low + size, stop)]
                if low > start:
                    self._flow.fill(link, self._piece.data[: target.nbytes])
                began = perf_counter()
                add(target, before, numbers[: target.size], came)
                if number == own:
                    add(target, together, kept[low - start :][: target.size], mine)
                if completes:
                    mean(target, after)
                self._reducing += perf_counter() - began
            before = after
        self._hold(parts, before)

    def _copy(self, segment: _Segment, data: memoryview, itemsize: int) -> None:
        link, parts, start, stop = segment
        first, last = start * itemsize, stop * itemsize
        there = last - first if last - first <= _SMALL else 0
        came = self._begin(link, last - first, there)
        # Where all weights are 0, each rank keeps what it has.
        if there and came.weight:
            data[first:last] = self._piece.data[:there]
        for low in range(first + there, last, PIECE):
            target = data[low : min(low + PIECE, last)]
            self._flow.fill(link, target if came.weight else self._piece.data[: target.nbytes])
        self._hold(parts, came)

    def _begin(self, link: Link, nbytes: int, there: int) -> Held:
        """Receive the head of a message, and its first bytes into the piece."""
        self._flow.fill(link, self._inbox[: _HEAD.size + there])
        number, length, unit, weight = _HEAD.unpack_from(self._inbox)
        expected = self._mesh.reductions
        if number != expected or length != nbytes:
            raise RemoteProtocolError(
                f"Expected rank {link.rank} to send {nbytes} bytes of reduction {expected}, but "
                f"it sends {length} of reduction {number}. All ranks reduce vectors of the same "
                "size in the same order."
            )
        return Held(unit, weight)

    def _hold(self, parts: range, held: Held) -> None:
        for part in parts:
            self._held[part] = held

    def _keep(self, own: Array) -> Array:
        """Return a copy of what is added to others after some of them."""
        if self._kept.nbytes < own.nbytes:
            self._kept = aligned_empty(own.nbytes)
        kept = self._kept[: own.nbytes].view(own.dtype)
        np.copyto(kept, own)
        return kept


def _bytes_of(vector: Array) -> memoryview:
    """Return a vector's bytes; raise LocalProtocolError if it cannot be reduced in place."""
    if vector.ndim != 1 or vector.dtype.kind != "f":
        raise LocalProtocolError(
            f"Expected a vector of floating numbers, got {vector.dtype} of shape {vector.shape}."
        )
    data = byte_view(vector, writable=True)
    return memoryview(b"") if data is None else data
