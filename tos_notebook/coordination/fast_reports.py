"""Reports that take the fast path: who may, and what was merged there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from ..common.threads import in_thread
from ..errors import CombinerError, SessionClosed, TosError
from ..events import Event
from ..transport.fast_path import Noted, Path
from ..wire.messages import Directive, Push
from .membership import Doing, Member
from .state import ControlState

# Python 3.11 calls a function to look a member up in its enumeration: too long for every push.
_GO, _TRAIN = Directive.GO, Doing.TRAIN
_new = tuple.__new__


class _Followed(NamedTuple):
    nbytes: int
    tear: Callable[[str], None]


class FastReports:
    """Agrees to the fast path, and counts what was merged there as `Reports.commit` does."""

    def __init__(self, state: ControlState) -> None:
        self._state = state

    def follow(self, path: Path, nbytes: int, tear: Callable[[str], None]) -> None:
        """Count what a path merges; see `RunLock`.

        Parameters
        ----------
        path : Path
        nbytes : int
            Length of an update, and of what the worker adopts.
        tear : callable
            Takes why the parameters are not what the ledger says, in a sentence.
        """
        self._state.lock.follow(path, partial(self._settle, _Followed(nbytes, tear)))

    def arm(self, member: Member, arm: Callable[[int, int, int, int], object]) -> None:
        """Let a worker's next pushes take the fast path, if `Reports.commit` would say GO to each.

        Parameters
        ----------
        member : Member
        arm : callable
            Takes epoch and sequence of its next push, the version of the settings, and how many
            metrics it has. It is short, and waits for nothing.
        """
        state = self._state
        # Without the lock at first, which costs more.
        if not self._may(member):
            return
        with state.lock.unchanged():
            place = state.ledger.next_push(member.partition, member.task)
            if place is not None and self._may(member):
                arm(*place, member.settings_version, len(member.metrics))

    def _may(self, member: Member) -> bool:
        """Whether a worker can only train next, unless something about the run changes."""
        state = self._state
        settings = state.settings_log.settings
        return (
            settings.sync.slack is None
            and not settings.strategy.lockstep
            and not state.chaos.asked_for
            and not state.gate.held
            and member.suspect is None
            and member.settings_version == state.settings_log.version
            and state.membership.is_current(member)
            and state.directive(member) is _GO
        )

    def _settle(self, followed: _Followed, take: Callable[[], Sequence[Noted]]) -> None:
        """Count and report; the run's lock is held."""
        try:
            notes = take()
            events = self._count_all(followed.nbytes, notes) if notes else []
        except Exception as error:
            # A part of them may count by now, and the rest would be trained again.
            followed.tear("The parameters hold pushes that do not count.")
            in_thread("tos-uncounted", partial(self._state.fail, _uncounted(error)))
            return
        # After the books: the bus of a run that is over takes no event.
        with suppress(SessionClosed):
            for event in events:
                self._state.publish(event)

    def _count_all(self, nbytes: int, notes: Sequence[Noted]) -> list[Event]:
        state, traffic, events = self._state, (nbytes, nbytes), list[Event]()
        workers = len(state.membership.active()) or 1
        pushed = defaultdict[Member, list[Push]](list)
        for member, merged, heard, staleness, version, values in notes:
            message = _new(Push, values)
            pushed[member].append(message)
            member.hear(_TRAIN, heard)
            told = version, staleness, traffic, workers, message.steps, merged
            events.append(member.milestone(message, *told))
        for member, messages in pushed.items():
            self._count(member, messages)
        state.changed.notify_all()
        return events

    def _count(self, member: Member, messages: Sequence[Push]) -> None:
        """Record pushes of one epoch that follow each other, and came once each."""
        state, first = self._state, messages[0]
        place = first.epoch, member.partition
        steps = [message.steps for message in messages]
        state.ledger.admit_all(*place, member.task, first.sequence, steps)
        for message in messages:
            state.ledger.keep_digest(*place, message.digest, message.steps)
        state.committed[member.partition] += len(messages)
        state.tick(member, len(messages))


def _uncounted(error: Exception) -> TosError:
    found = CombinerError(
        f"Pushes were merged and could not be counted: {type(error).__name__}: {error}. No "
        "checkpoint is written of these parameters. tos.resume continues from the last one before."
    )
    found.__cause__ = error
    return found
