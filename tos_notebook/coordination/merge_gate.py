"""Keeps merges out while a copy of the run is made, so that the copy is of one moment."""

from __future__ import annotations

import threading


class MergeGate:
    """Counts the merges under way, and keeps others out while a thread copies the run.

    Every method is to be called with the condition's lock held.

    Parameters
    ----------
    changed : Condition
        The run's.
    """

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._merging = 0
        self.held = False
        """Whether merges wait outside."""

    def wait_open(self) -> None:
        """Wait while the gate is held: for `Timeouts.hold` at most."""
        if self.held:
            self._changed.wait_for(lambda: not self.held)

    def enter(self) -> None:
        """Count a merge that begins."""
        self._merging += 1

    def leave(self, merged: bool) -> None:
        """Count a merge that has ended, and wake threads that wait for it or for a milestone."""
        self._merging -= merged
        self._changed.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no merge is under way; return whether that came within `timeout` seconds."""
        return self._changed.wait_for(lambda: not self._merging, timeout)

    def hold(self, timeout: float) -> bool:
        """Keep further merges out and wait for those under way; return whether they have ended."""
        self.held = True
        return self.wait_idle(timeout)

    def release(self) -> None:
        """Admit merges again."""
        self.held = False
        self._changed.notify_all()
