"""Which peer sends a server a long payload."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LONG = 1 << 20
"""Bytes of a payload from which on peers take turns."""

LEAST, MOST, TIMES = 1.0, 10.0, 4.0
"""Seconds after which a peer that has stalled loses its turn: so many times what the last payload
took, within these bounds."""

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
        self._began = self._took = 0.0
        self._fast = False

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[None]:
        """Wait for the turn, unless the peer that has it stalls; inside, so many bytes come."""
        if nbytes < LONG:
            yield
            return
        own = object()
        with self._changed:
            while self._holder is not None and not self._fast and (left := self._left()) > 0:
                self._changed.wait(left)
            self._holder, self._began = own, self._clock()
        try:
            yield
        finally:
            with self._changed:
                if self._holder is own:
                    self._took = self._clock() - self._began
                    self._fast = nbytes > SLOW * self._took
                    self._holder = None
                    self._changed.notify()

    def _left(self) -> float:
        return self._began + min(MOST, max(LEAST, TIMES * self._took)) - self._clock()
