"""Reports commands that have taken effect: every active worker goes by them.

Pure state: no locks, no sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ..events import CommandApplied, Event
from ..steering.machine import Command
from .membership import Membership


class _Pending(NamedTuple):
    """A change of settings that some member has not pushed under yet."""

    command: str
    detail: str
    names: frozenset[str]
    """Names of the settings that it changed."""


class Acknowledgements:
    """The commands of a run that some member does not go by yet.

    Parameters
    ----------
    membership : Membership
        Its active members have to acknowledge.
    publish : callable
        Takes an event: `CommandApplied`, once for each command.
    """

    def __init__(self, membership: Membership, publish: Callable[[Event], None]) -> None:
        self._membership = membership
        self._publish = publish
        # By the version that a change of settings has made.
        self._pending: dict[int, _Pending] = {}
        self._pausing = False
        self._chaos_strikes = False

    def expect_change(self, version: int, command: str, detail: str, names: frozenset[str]) -> None:
        """Report a change of settings once every active member has pushed under it.

        Parameters
        ----------
        version : int
            The version that the change has made.
        command, detail : str
            What the event says.
        names : frozenset of str
            Names of the settings that it changed. An earlier change of the same ones is reported
            now, because some members will never see it.
        """
        for earlier, pending in list(self._pending.items()):
            if (pending.command, pending.names) == (command, names):
                del self._pending[earlier]
                self._report(command, f"{pending.detail}: a later change has taken its place")
        self._pending[version] = _Pending(command, detail, names)

    def report_changes(self) -> None:
        """Report the changes of settings under which every active member has pushed."""
        if not self._pending:
            return
        used = [member.settings_version for member in self._membership.active()]
        for version in [v for v in self._pending if used and v <= min(used)]:
            done = self._pending.pop(version)
            self._report(done.command, done.detail)

    def expect_pause(self, pausing: bool) -> None:
        """Report a pause once every active member waits, or do not report it after all."""
        self._pausing = pausing

    def report_pause(self) -> None:
        """Report the pause if every active member waits."""
        if self._pausing and all(member.waiting for member in self._membership.active()):
            self._pausing = False
            self._report(Command.PAUSE, "every worker waits")

    def expect_chaos_end(self, strikes: bool) -> None:
        """Report once that chaos has ended by itself, if there are rules that strike."""
        self._chaos_strikes = strikes

    def report_chaos_end(self) -> None:
        """Report that chaos has ended; no change of it has an effect to wait for any more."""
        if not self._chaos_strikes:
            return
        self._chaos_strikes = False
        waiting = {v: p for v, p in self._pending.items() if p.command != Command.CHAOS}
        self._pending = waiting
        self._report(Command.CHAOS, "off: it has run its course")

    def _report(self, command: str, detail: str) -> None:
        self._publish(CommandApplied(time.time(), command, detail))
