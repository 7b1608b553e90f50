"""The weighted mean of a vector on each rank, in place: a schedule, run over links."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..common.arrays import Array
from ..errors import ConfigError, LocalProtocolError, PeerLost
from .flow import Flow
from .links import PIECE
from .mesh import Mesh
from .plans import Inbox, Plan, Received, Step
from .schedules import Schedule
from .weighing import Held, add, mean

_HEAD = struct.Struct("<QQdd")
"""Which reduction of the mesh it is, bytes that follow, and what they are: see `Held`."""

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
    weight : float
        The sum of all ranks' weights, the same bits on each.
    """

    sent: Mapping[int, int]
    received: Mapping[int, int]
    waited: float
    reducing: float
    weight: float


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

    sums = True
    """Whether sums travel, which may be too large for a dtype whose values they are of."""

    def __init__(self, mesh: Mesh, schedule: Schedule) -> None:
        if schedule.n != mesh.n:
            raise LocalProtocolError(
                f"Expected a schedule for {mesh.n} ranks, got one for {schedule.n}."
            )
        self.schedule = schedule
        self._mesh = mesh
        self._flow = Flow(mesh.patience)
        self._inbox = Inbox(_HEAD.size)
        self._plan: Plan | None = None
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
            A peer has left, was silent, or sends something else. The mesh is closed, so that all
            other ranks learn it.
        ConnectionClosed
            This side closed the mesh.
        LocalProtocolError
            The vector is not one, or another thread reduces.
        ConfigError
            The weight is not a finite number of at least 0.
        """
        if not 0.0 <= weight < math.inf:
            raise ConfigError(f"weight: expected a finite number of at least 0, got {weight!r}.")
        self._prepare(vector)
        links = self._mesh.links.values()
        for link in links:
            link.sent = link.received = 0
            link.waited = 0.0
        self._reducing = 0.0
        self._mesh.run(self._reduce, weight)
        return Traffic(
            {link.rank: link.sent for link in links},
            {link.rank: link.received for link in links},
            sum([link.waited for link in links]),
            self._reducing,
            # A part without elements is not sent: its weight is this rank's alone.
            max(held.weight for held in self._held),
        )

    def _prepare(self, vector: Array) -> None:
        """Plan for a vector, unless that is done."""
        if self._plan is None or self._plan.vector is not vector:
            mesh = self._mesh
            self._plan = Plan(self.schedule, mesh.rank, mesh.links, vector, self._inbox)

    def _reduce(self, weight: float) -> None:
        assert self._plan is not None
        flow = self._flow
        self._mesh.reductions += 1
        self._held = [Held(weight, weight)] * self.schedule.parts
        for step in self._plan.steps:
            if step.apart.size:
                np.copyto(step.apart, self._plan.vector)
            for link, part, nbytes, data in step.sends:
                unit, total = self._held[part]
                flow.send(link, _HEAD.pack(self._mesh.reductions, nbytes, unit, total), data)
            if step.round.adds:
                self._add(step)
            else:
                for received in step.receives:
                    self._copy(received)
            if flow.sending:
                flow.finish()

    def _add(self, step: Step) -> None:
        """Add what comes, in its order, and the rank's own numbers in their place."""
        own = step.round.own
        before = mine = self._held[step.receives[0].parts[0]] if step.receives else _NOTHING
        if own:
            np.copyto(step.kept, step.own)
            before = _NOTHING
        for number, received in enumerate(step.receives, 1):
            came = self._begin(received)
            together = before.plus(came)
            after = together.plus(mine) if number == own else together
            completes = step.round.final and number == len(step.receives)
            for target, numbers, payload, kept in received.pieces:
                if payload:
                    self._flow.fill(received.link, payload)
                began = perf_counter()
                add(target, before, numbers, came)
                if number == own:
                    add(target, together, kept, mine)
                if completes:
                    mean(target, after)
                self._reducing += perf_counter() - began
            before = after
            for part in received.parts:
                self._held[part] = after

    def _copy(self, received: Received) -> None:
        """Copy what comes; where all weights are 0, each rank keeps what it has."""
        came = self._begin(received)
        for part in received.parts:
            self._held[part] = came
        there = len(received.first) - _HEAD.size
        payload = self._inbox.payload.data
        if came.weight and there:
            received.data[:] = payload[:there]
        elif came.weight:
            self._flow.fill(received.link, received.data)
        else:
            for start in range(there, received.nbytes, PIECE):
                self._flow.fill(received.link, payload[: received.nbytes - start])

    def _begin(self, received: Received) -> Held:
        """Receive the head of a message, and what comes with it."""
        self._flow.fill(received.link, received.first)
        number, nbytes, unit, weight = _HEAD.unpack_from(received.first)
        expected = self._mesh.reductions
        if number != expected or nbytes != received.nbytes:
            raise PeerLost(
                received.link.rank,
                f"sends {nbytes} bytes of reduction {number}, and not {received.nbytes} of "
                f"reduction {expected}. All ranks reduce vectors of the same size in the same "
                "order.",
            )
        if not (0.0 <= weight < math.inf and 0.0 <= unit < math.inf and (unit or not weight)):
            raise PeerLost(received.link.rank, f"sends the weight {weight} in units of {unit}.")
        return Held(unit, weight)
