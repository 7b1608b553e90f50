"""Which peer sends a server a long payload."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LONG = 1 << 20
"""Bytes of a payload from which on peers take turns."""

PATIENCE = 10.0
"""Much less than the seconds for which a transfer may pause."""

FIRST, TIMES = 1.0, 2.0
"""Seconds after which the first peer loses its turn, so that no other waits long for one that is
slower or has stalled; and how many times what others take, after which a later one does."""

SLOWER = 1.25
"""By how much the pace falls at most from one payload to the next."""

SLOW = 2e8
"""Bytes a second, of a link of almost 2 Gb/s. On a faster one, a single thread does not decrypt
as fast as the bytes come, so that several receive at the same time."""

BUFFERED = 8 << 20
"""Bytes that the kernel may have of a peer that has waited: the link did not bring them since."""


class Turn:
    """Lets one peer after the other send, where the link is what they wait for. Thread-safe.

    Peers that send at the same time share the server's link and end at the same time. Then all
    wait for answers, and the link brings nothing. One after the other, one sends while others
    receive.

    Parameters
    ----------
    clock : callable
        Seconds.
    patience : float
        Seconds after which a peer sends without the turn.
    """

    def __init__(self, clock: Callable[[], float] = monotonic, patience: float = PATIENCE) -> None:
        self._clock, self._patience = clock, patience
        self._changed = threading.Condition()
        self._line: deque[object] = deque()
        self._holder: object = None
        self._until = 0.0
        # Seconds that a byte takes of late, of the fastest peers.
        self._pace = math.inf
        self._fast = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._line)

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[None]:
        """Wait for the turn, but not for long; inside, so many bytes come."""
        if nbytes < LONG:
            yield
            return
        own = object()
        with self._changed:
            waits = self._wait(own)
            began, usual = self._clock(), TIMES * nbytes * self._pace
            if waits < self._patience:
                self._holder = own
                self._until = began + (FIRST if usual == math.inf else usual)
            # The next one has another to wait for.
            self._changed.notify_all()
        try:
            yield
            with self._changed:
                came = nbytes - (BUFFERED if waits else 0)
                self._measure(came, max(1e-3, self._clock() - began), self._holder is own)
        finally:
            with self._changed:
                if self._holder is own:
                    self._holder = None
                self._changed.notify_all()

    def _wait(self, own: object) -> float:
        """Wait until a peer may send; return the seconds, 0 if it did not have to."""
        self._line.append(own)
        arrived = now = self._clock()
        while (left := min(arrived + self._patience, self._due(own)) - now) > 0:
            self._changed.wait(left)
            now = self._clock()
        self._line.remove(own)
        return now - arrived

    def _due(self, own: object) -> float:
        """Return when a peer may send, as far as is known."""
        if self._fast:
            return -math.inf
        if self._line[0] is not own:
            return math.inf
        return -math.inf if self._holder is None else self._until

    def _measure(self, nbytes: int, seconds: float, in_time: bool) -> None:
        if nbytes > 0:
            self._fast = nbytes > SLOW * seconds
            self._pace = min(seconds / nbytes, SLOWER * self._pace)
        elif not in_time:
            self._pace *= SLOWER
