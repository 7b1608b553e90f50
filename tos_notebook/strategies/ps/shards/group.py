"""The driver's side of all shards of a run: who they are, and what they are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic

from ....common.arrays import Buffer, aligned_empty
from ....errors import ClusterUnreachable, RemoteProtocolError, SessionClosed, TosError, WaitTimeout
from ....steering.shards import ShardLoad
from ....transport.base import BytesLike
from ....wire.messages import Answer, Done, Order, Refused, Request, Serving
from ....wire.refusals import error_of
from .load import LoadMeter

LOOK = 0.5
"""Seconds for which a shard's question is held while there is nothing to do."""

MOST_BYTES = {"send": 1 << 32, "written": 1 << 16, "find rows": 1 << 32, "send rows": 1 << 32}
"""Of what a shard sends at once, by the order; nothing for others."""

Answered = tuple[int, Buffer | None]
"""A shard's version, and what was asked for."""


class Group:
    """All shards of one generation. If one is lost, all are: a new generation takes over.

    Parameters
    ----------
    count : int
    lost : callable
        Called once, from any thread, with the reason: ClusterUnreachable if one is gone, or
        what else one could not do.
    """

    def __init__(self, count: int, lost: Callable[[TosError], object]) -> None:
        self.count = count
        self.error: TosError | None = None
        """Why it is of no use any more; None while it is."""
        self._lost = lost
        self._changed = threading.Condition()
        self._seats: dict[int, Seat] = {}
        self._ended = False

    def seat(self, message: Serving) -> Seat:
        """Return what serves a shard that has come; see `Service`.

        Raises
        ------
        SessionClosed
            It comes twice, or too late.
        """
        with self._changed:
            taken = message.shard in self._seats or message.shard >= self.count
            if taken or self._ended or self.error is not None:
                raise SessionClosed(f"No shard {message.shard} is expected.")
            seat = self._seats[message.shard] = Seat(self, message)
            self._changed.notify_all()
            return seat

    @property
    def changed(self) -> threading.Condition:
        """Notified when a shard comes, answers or is lost, or is to do something."""
        return self._changed

    @property
    def over(self) -> bool:
        """Whether shards are to end."""
        return self._ended or self.error is not None

    def members(self) -> list[Serving]:
        """Return who they are, in their order."""
        return [self._seats[number].member for number in range(self.count)]

    def wait(self, timeout: float, onward: Callable[[], bool]) -> bool:
        """Wait until all have come; return whether they have, and none is lost.

        Parameters
        ----------
        timeout : float
            Seconds.
        onward : callable
            Returns whether to wait longer.
        """
        end = monotonic() + timeout
        with self._changed:
            while len(self._seats) < self.count and self.error is None:
                if not onward() or monotonic() >= end:
                    return False
                self._changed.wait(LOOK)
            return self.error is None

    def loads(self) -> list[ShardLoad]:
        """Return what those that have come are busy with."""
        with self._changed:
            return [seat.meter.load() for _, seat in sorted(self._seats.items())]

    @property
    def come(self) -> int:
        """How many have come."""
        return len(self._seats)

    def command(
        self, what: str, payloads: Sequence[Buffer | None], timeout: float
    ) -> list[Answered]:
        """Give each shard an order, and return what they answer, in their order.

        One thread at a time may call this.

        Parameters
        ----------
        what : str
            See `service.Shard`.
        payloads : sequence of ndarray or None
            One for each.
        timeout : float
            Seconds.

        Raises
        ------
        WaitTimeout
            One did not answer in time.
        TosError
            One is lost, or could not obey.
        """
        with self._changed:
            seats = [self._seats[number] for number in range(self.count)]
            for seat, payload in zip(seats, payloads, strict=True):
                seat.give(what, payload)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self.error is not None or all(seat.answered for seat in seats), timeout
            )
            if self.error is not None:
                raise self.error
            late = [str(seat.member.shard + 1) for seat in seats if not seat.answered]
            if not late:
                return [seat.take() for seat in seats]
        found = WaitTimeout(
            f"Expected shards to {what} within {timeout:g} s; shard {', '.join(late)} did not. See "
            "the logs of its executor, and the load of its host."
        )
        # What it does later would be of another moment than what the others have done.
        self.lose(ClusterUnreachable(str(found)))
        raise found

    def lose(self, error: TosError) -> None:
        """Take note that one is lost, unless they are to end."""
        with self._changed:
            if self.over:
                return
            self.error = error
            self._changed.notify_all()
        self._lost(error)

    def end(self, timeout: float = 2.0) -> None:
        """Let all shards end; wait a while until they know."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: all(s.gone for s in self._seats.values()), timeout)


class Seat:
    """The driver's side of one shard's connection; see `ServiceHandler`.

    Parameters
    ----------
    group : Group
    member : Serving
        Who it is.
    """

    def __init__(self, group: Group, member: Serving) -> None:
        self._group = group
        self.member = member
        self.meter = LoadMeter(member)
        self.gone = False
        self._number = 0
        self._what = ""
        self._payload: Buffer | None = None
        self._given = 0
        self._done: Done | None = None
        self._received: Buffer | None = None

    def give(self, what: str, payload: Buffer | None) -> None:
        """Let the shard do something next; the group's lock is held."""
        self._number += 1
        self._what, self._payload, self._done, self._received = what, payload, None, None

    @property
    def answered(self) -> bool:
        """Whether it has answered the last order."""
        return self._done is not None

    def take(self) -> Answered:
        """Return the answer; raise the error that it tells of. The group's lock is held."""
        assert self._done is not None
        done, received = self._done, self._received
        self._payload = self._received = None
        if done.error:
            raise error_of(Refused(done.error, done.text))
        return done.version, received

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""
        if not nbytes:
            return None
        due = isinstance(message, Done) and message.order == self._number
        if not due or nbytes > MOST_BYTES.get(self._what, 0):
            name = type(message).__name__
            raise RemoteProtocolError(f"{name}: expected a payload of 0 bytes, got {nbytes}.")
        self._received = aligned_empty(nbytes)
        return self._received.data

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """See `Handler.handle`."""
        if isinstance(message, Done):
            self._take_note(message)
        elif message is not self.member:
            raise RemoteProtocolError(f"A shard sends no {type(message).__name__}.")
        changed, group = self._group.changed, self._group
        with changed:
            changed.wait_for(lambda: group.over or self._given < self._number, LOOK)
            if group.over:
                return Order(0, "end"), None
            if self._given == self._number:
                return Order(0, "wait"), None
            self._given = self._number
            return Order(self._number, self._what), self._payload

    def _take_note(self, message: Done) -> None:
        if message.error and not message.order:
            self._group.lose(error_of(Refused(message.error, message.text)))
            return
        with self._group.changed:
            self.meter.add(message)
            if message.order == self._number and self._number:
                self._done = message
                self._group.changed.notify_all()

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`."""
        with self._group.changed:
            self.gone = True
            self._group.changed.notify_all()
        why = "it left early" if error is None else str(error)
        number = self.member.shard + 1
        self._group.lose(ClusterUnreachable(f"Shard {number} of the parameters was lost: {why}"))
