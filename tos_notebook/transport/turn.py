"""Which peer sends a server a long payload."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LONG = 1 << 20
"""Bytes of a payload from which on peers take turns."""

FIRST, MOST, TIMES = 1.0, 10.0, 2.0
"""Seconds after which a peer loses its turn, so that no other waits long for one that is slower, or
has stalled: those of the first one, those of any, and how many times what the others take."""

SLOWER = 1.25
"""By how much the pace falls at most from one payload to the next."""

SLOW = 2e8
"""Bytes a second, of a link of almost 2 Gb/s. On a faster one, a single thread does not decrypt
as fast as the bytes come, so that several receive at the same time."""


class Turn:
    """Lets one peer after the other send, where the link is what they wait for. Thread-safe.

    Peers that send at the same time share the server's link and end at the same time. Then all
    wait for answers, and the link brings nothing. One after the other, one sends while others
    receive.

    Parameters
    ----------
    clock : callable
        Seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._holder: object = None
        self._until = 0.0
        # Seconds that a byte takes of late, of the fastest peers.
        self._pace = math.inf
        self._fast = False

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[None]:
        """Wait for the turn, but not for long; inside, so many bytes come."""
        if nbytes < LONG:
            yield
            return
        own = object()
        with self._changed:
            while self._holder is not None and not self._fast and (left := self._left()) > 0:
                self._changed.wait(left)
            began, usual = self._clock(), TIMES * nbytes * self._pace
            self._holder = own
            self._until = began + (FIRST if usual == math.inf else min(MOST, usual))
        try:
            yield
        finally:
            with self._changed:
                if self._holder is own:
                    took = max(1e-3, self._clock() - began)
                    self._fast = nbytes > SLOW * took
                    self._pace = min(took / nbytes, SLOWER * self._pace)
                    self._holder = None
                    self._changed.notify()

    def _left(self) -> float:
        return self._until - self._clock()
