"""Where workers that connect to each other learn of all others that an epoch needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from string import hexdigits
from typing import NamedTuple

from ..errors import RemoteProtocolError
from ..wire.messages import Awaiting, Directive, Formed, Proceed, Ready
from .membership import Doing, Member
from .state import ControlState

ATTEMPTS = 3
"""Generations in a row whose workers cannot connect, though all of them live, are enough."""

IN_VAIN = 10
"""Generations in a row, none of which makes a step, that one worker may end though all live."""


FINGERPRINT = 64
"""Digits of a certificate's SHA-256."""


class Place(NamedTuple):
    """A worker that is ready."""

    member: Member
    message: Ready


def _check_place(message: Ready) -> None:
    """Raise RemoteProtocolError for a place that all others would fail at."""
    port, digits = message.port, message.fingerprint
    if not 1 <= port <= 65_535:
        raise RemoteProtocolError(f"Ready: expected a port from 1 to 65535, got {port}.")
    if digits and not (len(digits) == FINGERPRINT and set(digits) <= set(hexdigits)):
        raise RemoteProtocolError(
            f"Ready: expected a fingerprint of {FINGERPRINT} hexadecimal digits, got {digits!r}."
        )


class Rendezvous:
    """Forms generations of workers, each of which trains together until one of them is lost."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._generation = 0
        self._ready: dict[int, Place] = {}
        self._formed: dict[int, Formed] = {}
        self._told: set[int] = set()
        self._unconnected = 0
        # By Spark's task.
        self._ended: Counter[int] = Counter()

    @property
    def used(self) -> bool:
        """Whether workers of this run connect to each other."""
        return bool(self._generation)

    def holds(self, member: Member) -> bool:
        """Return whether a worker is of the present generation, and knows it."""
        place = self._ready.get(member.partition)
        return member.partition in self._told and place is not None and place.member is member

    def lacks(self, partitions: Collection[int]) -> bool:
        """Return whether a worker of the present generation is of none of some partitions."""
        return not self._formed.keys() <= set(partitions)

    def enter(self, member: Member, message: Ready) -> bool:
        """Note that a worker is ready; return whether that ends a generation.

        It does if the worker is new, or has lost others of it.

        Raises
        ------
        RemoteProtocolError
            It listens nowhere, or has ended too many generations and is taken for lost.
        """
        _check_place(message)
        ends = bool(self._formed) and not self._is_later(member, message)
        if member.partition in self._formed and not self.holds(member):
            place = self._ready[member.partition]
            # It asks again, for what it was not told in time.
            ends = place.member is not member
        if ends:
            if self._all_live():
                self._count(member)
            self._end()
        self._ready[member.partition] = Place(member, message)
        return ends

    def _is_later(self, member: Member, message: Ready) -> bool:
        """Whether a worker only waits for the next epoch, for which all others come again."""
        first = next(iter(self._formed))
        epoch = self._ready[first].message.epoch
        return member.partition not in self._formed and message.epoch > epoch

    def _count(self, member: Member) -> None:
        """Count what a worker ends though all others live, so that it cannot hold them up."""
        self._ended[member.task] += 1
        if self._ended[member.task] > IN_VAIN:
            reason = f"it has ended {IN_VAIN} generations of workers that have made no step"
            self._state.lost(member, reason)
            raise RemoteProtocolError(
                f"Ready: expected partition {member.partition} to train with others, but {reason}."
            )

    def _end(self) -> None:
        """End the generation: those that know of it have to come again."""
        self._ready = {p: place for p, place in self._ready.items() if p not in self._told}
        self._formed.clear()
        self._told.clear()

    def lasts(self, member: Member, generation: int) -> bool:
        """Return whether a worker is of a generation of which none was lost."""
        if generation != self._generation or not self.holds(member):
            return False
        return self._all_live()

    def _all_live(self) -> bool:
        """Whether no worker of the present generation was lost."""
        present = self._state.membership.present
        return all(
            present(partition) is self._ready[partition].member for partition in self._formed
        )

    def blame(self, member: Member, message: Awaiting) -> str | None:
        """End a generation in which a worker cannot reach another one, unless that one was lost.

        Parameters
        ----------
        member : Member
        message : Awaiting
            Of the present generation.

        Returns
        -------
        str or None
            Which workers cannot reach each other, once `ATTEMPTS` generations did not connect.

        Raises
        ------
        RemoteProtocolError
            The generation has no such rank.
        """
        state = self._state
        other = self._of_rank(message.rank)

        def lost() -> bool:
            stops = state.directive(member) is Directive.STOP
            return stops or not self.lasts(member, message.generation)

        # That it has died may reach the driver later than its peers.
        if state.changed.wait_for(lost, state.timeouts.long_poll):
            return None
        self._end()
        state.changed.notify_all()
        self._unconnected += 1
        if self._unconnected < ATTEMPTS:
            return None
        return (
            f"The worker of partition {member.partition} on {member.host} cannot connect to that "
            f"of partition {other.partition} on {other.host}. {message.problem}"
        )

    def _of_rank(self, rank: int) -> Member:
        for partition, formed in self._formed.items():
            if formed.rank == rank:
                return self._ready[partition].member
        raise RemoteProtocolError(
            f"Awaiting: expected a rank below {len(self._formed)}, got {rank}."
        )

    def note_step(self) -> None:
        """Note that the present generation has made a step: its workers reach each other."""
        self._unconnected = 0
        self._ended.clear()

    def wait(self, member: Member, epoch: int) -> Formed | Proceed:
        """Wait until all workers of an epoch are ready, for `Timeouts.long_poll` at most.

        Returns
        -------
        Formed or Proceed
            Version 0 stands for that of the parameters. `Proceed`: to ask again, or to stop.
        """
        state, partition = self._state, member.partition
        with state.changed:
            state.wait(member)
            state.changed.wait_for(lambda: self._over(member, epoch), state.timeouts.long_poll)
            state.check_current(member)
            place, formed = self._ready.get(partition), self._formed.get(partition)
            if formed is None or place is None or place.member is not member:
                directive = state.issue_directive(member)
                stops = directive in (Directive.STOP, Directive.LEAVE)
                return Proceed(
                    directive if stops else Directive.WAIT, member.settings_version, None
                )
            self._told.add(partition)
            member.waiting = False
            member.told_version = formed.settings_version
            member.hear(Doing.TRAIN)
            return formed

    def _over(self, member: Member, epoch: int) -> bool:
        self._form(epoch)
        stops = self._state.directive(member) is Directive.STOP
        return stops or member.partition in self._formed

    def _form(self, epoch: int) -> None:
        """Begin a generation, if all are ready that an epoch still needs."""
        state = self._state
        partitions = range(state.ledger.partitions or 0)
        needed = [p for p in partitions if not state.ledger.is_finished(epoch, p)]
        if self._formed or not needed:
            return
        if not all(self._is_ready(partition, epoch) for partition in needed):
            return
        self._generation += 1
        messages = [self._ready[partition].message for partition in needed]
        for rank, partition in enumerate(needed):
            self._formed[partition] = Formed(
                self._generation,
                rank,
                [message.host for message in messages],
                [message.port for message in messages],
                [message.fingerprint for message in messages],
                len(needed) == len(partitions),
                0,
                state.settings_log.version,
                state.settings.for_worker(),
            )
        state.changed.notify_all()

    def _is_ready(self, partition: int, epoch: int) -> bool:
        place = self._ready.get(partition)
        if place is None or place.message.epoch != epoch:
            return False
        present = self._state.membership.present(partition) is place.member
        return present and self._state.directive(place.member) is Directive.GO
