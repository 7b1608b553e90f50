"""Where workers that connect to each other learn of all others that an epoch needs."""

from __future__ import annotations

from typing import NamedTuple

from ..wire.messages import Directive, Formed, Proceed, Ready
from .membership import Doing, Member
from .state import ControlState


class Place(NamedTuple):
    """A worker that is ready."""

    member: Member
    message: Ready


class Rendezvous:
    """Forms generations of workers, each of which trains together until one of them is lost."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._generation = 0
        self._ready: dict[int, Place] = {}
        self._formed: dict[int, Formed] = {}
        self._told: set[int] = set()

    @property
    def used(self) -> bool:
        """Whether workers of this run connect to each other."""
        return bool(self._generation)

    def holds(self, member: Member) -> bool:
        """Return whether a worker is of the present generation, and knows it."""
        place = self._ready.get(member.partition)
        return member.partition in self._told and place is not None and place.member is member

    def enter(self, member: Member, message: Ready) -> bool:
        """Note that a worker is ready; return whether that ends a generation.

        It does if the worker is new, or has lost others of it.
        """
        ends = bool(self._formed)
        if member.partition in self._formed and not self.holds(member):
            place = self._ready[member.partition]
            # It asks again, for what it was not told in time.
            ends = place.member is not member
        if ends:
            # Those that know of the generation have to come again.
            waiting = self._formed.keys() - self._told
            self._ready = {p: place for p, place in self._ready.items() if p in waiting}
            self._formed.clear()
            self._told.clear()
        self._ready[member.partition] = Place(member, message)
        return ends

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
