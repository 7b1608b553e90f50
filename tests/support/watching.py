"""Wait for what a run has reached, by its events, instead of for time to pass."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from tos_notebook.events import Event, MilestoneCommitted, RunFinished


class RunIsOver(AssertionError):
    """The run ended before what was waited for."""


class Watch:
    """A sink that keeps the events, each with the moment when it came.

    Attributes
    ----------
    events : list of Event
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        """Keep an event."""
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of a kind so far."""
        with self._changed:
            return [event for event in self.events if isinstance(event, kind)]

    def mark(self) -> int:
        """Return how many events there are: where to begin to wait."""
        with self._changed:
            return len(self.events)

    def until(
        self,
        kind: type[Event],
        since: int = 0,
        where: Callable[[Any], bool] = lambda event: True,
        count: int = 1,
        timeout: float = 120.0,
    ) -> int:
        """Wait for `count` events of a kind that come after a mark; return the mark behind them.

        Raises
        ------
        RunIsOver
            The run ended before.
        TimeoutError
            They did not come in time.
        """
        deadline = monotonic() + timeout
        found, position = 0, since
        with self._changed:
            while True:
                for event in self.events[position:]:
                    position += 1
                    found += isinstance(event, kind) and where(event)
                    if found == count:
                        return position
                    if isinstance(event, RunFinished):
                        raise RunIsOver(f"The run ended before {kind.__name__}: {event}")
                left = deadline - monotonic()
                if left <= 0 or not self._changed.wait(left):
                    last = self.events[-3:]
                    raise TimeoutError(f"No {kind.__name__} within {timeout:g} s; last: {last}")

    def wait_for(self, kind: type[Event], count: int = 1, timeout: float = 120.0) -> list[Any]:
        """Wait until there are `count` events of a kind, and return them all. Raises as `until`."""
        self.until(kind, count=count, timeout=timeout)
        return self.of(kind)

    def mid_epoch(self, partition: int, since: int | None = None) -> int:
        """Wait for a partition's next milestone that neither begins nor ends an epoch."""
        return self.until(
            MilestoneCommitted,
            self.mark() if since is None else since,
            lambda event: event.partition == partition and event.sequence in range(1, 20),
        )
