"""What a shard is busy with, as rates, from the sums that it tells the driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

from ....steering.shards import ShardLoad
from ....wire.messages import Done, Serving

WINDOW = 3.0
"""Seconds over which rates are."""


class LoadMeter:
    """Makes rates of what one shard tells. Not thread-safe.

    Parameters
    ----------
    member : Serving
        The shard.
    clock : callable
        Seconds.
    """

    def __init__(self, member: Serving, clock: Callable[[], float] = monotonic) -> None:
        self._member, self._clock = member, clock
        self._told: deque[tuple[float, Done]] = deque()

    def add(self, message: Done) -> None:
        """Take note of what the shard tells."""
        now = self._clock()
        self._told.append((now, message))
        # One that is older stays, so that there is a whole window.
        while len(self._told) > 2 and now - self._told[1][0] >= WINDOW:
            self._told.popleft()

    def load(self) -> ShardLoad:
        """Return the rates of late; 0 before there are any."""
        number, host = self._member.shard + 1, self._member.host
        if len(self._told) < 2:
            return ShardLoad(number, host, 0.0, 0, 0.0, 0.0, 0.0)
        (began, before), (ended, now) = self._told[0], self._told[-1]
        seconds = max(ended - began, 1e-6)
        received, sent, merges = (
            max(0, after - earlier) / seconds
            for earlier, after in (
                (before.received, now.received),
                (before.sent, now.sent),
                (before.version, now.version),
            )
        )
        cpu, memory = now.millicores / 1000, now.memory * 1024
        so_far = now.received, now.sent, now.version
        return ShardLoad(number, host, cpu, memory, received, sent, merges, *so_far)
