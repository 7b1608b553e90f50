"""How much processor time strangers may take of the server: so much a second for each address."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

RATE = 0.1
"""Seconds of processor time that an address may take in each second."""

BURST = 1.0
"""Seconds that it may take at once: a whole cluster behind one address joins in less."""

_MANY = 1024
"""Addresses; with more of them, those that owe nothing are forgotten."""


class Budget:
    """Processor time by address, which comes back with time."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        # When an address will have paid back all that it took.
        self._paid: dict[str, float] = {}

    def wait(self, host: str) -> float:
        """Return the seconds until an address may take processor time again; 0 for now."""
        owed = self._paid.get(host, 0.0) - self._clock()
        return max(0.0, owed - BURST / RATE)

    def spend(self, host: str, seconds: float) -> None:
        """Note what an address has taken; less than nothing gives it back."""
        now = self._clock()
        paid = max(now, self._paid.get(host, now)) + seconds / RATE
        if paid > now:
            self._paid[host] = paid
        else:
            self._paid.pop(host, None)
        if len(self._paid) > _MANY:
            self._paid = {host: paid for host, paid in self._paid.items() if paid > now}
