"""Lets a copy of the run be made when no worker is in the midst of a milestone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import WaitTimeout

PATIENCE = 30.0
"""Seconds for the milestones under way when a copy is asked for."""


class Pace:
    """Knows the workers that change the variables now, between a `Reply` and the next `Push`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._training: set[object] = set()
        self._held = False

    def begin(self, worker: object) -> None:
        """Let a worker begin a milestone; not while a copy is made."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held)
            self._training.add(worker)

    def end(self, worker: object) -> None:
        """Note that a worker has ended its milestone, or is gone; may be repeated."""
        with self._changed:
            self._training.discard(worker)
            self._changed.notify_all()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait until all have ended their milestones; none begins another one inside.

        Raises
        ------
        WaitTimeout
            A milestone has taken longer.
        """
        with self._changed:
            self._held = True
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: not self._training, PATIENCE):
                    raise WaitTimeout(
                        f"A worker still trains its milestone after {PATIENCE:g} s, and the "
                        "variables would hold a part of it. Choose a smaller sync_interval."
                    )
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()
