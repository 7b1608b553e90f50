"""Which peer sends a server a long payload."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

LONG = 1 << 20
"""Bytes of a payload from which on peers take turns."""

PATIENCE = 1.0
"""Seconds after which a peer that has stalled loses its turn."""

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
        self._fast = False

    @contextmanager
    def taken(self, nbytes: int, patience: float = PATIENCE) -> Iterator[None]:
        """Wait for the turn, but not for long; inside, so many bytes come."""
        if nbytes < LONG:
            yield
            return
        own = object()
        with self._changed:
            if not self._fast:
                self._changed.wait_for(lambda: self._holder is None, patience)
            self._holder, began = own, self._clock()
        try:
            yield
        finally:
            with self._changed:
                if self._holder is own:
                    self._fast = nbytes > SLOW * (self._clock() - began)
                    self._holder = None
                    self._changed.notify()
