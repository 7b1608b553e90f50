"""What shards of the parameters are busy with."""

from __future__ import annotations

from typing import NamedTuple

from ..readable import amount


class ShardLoad(NamedTuple):
    """One shard, over the last seconds."""

    number: int
    """From 1."""
    host: str
    """By which address workers reach it."""
    cpu: float
    """Cores that its process kept busy."""
    memory: int
    """Bytes that its process has; 0 if unknown."""
    received: float
    """Bytes a second of updates."""
    sent: float
    """Bytes a second of parameters."""
    merges: float
    """Updates a second."""
    total_received: int = 0
    """Bytes so far, as is the next."""
    total_sent: int = 0
    merged: int = 0
    """Updates so far, with those before the shard began."""

    def __str__(self) -> str:
        """Say it in one line."""
        memory = f", {amount(self.memory)}" if self.memory else ""
        return (
            f"shard {self.number} on {self.host}: {self.cpu:.2f} cores{memory}, "
            f"{self.merges:.1f} merges/s, {amount(self.received)}/s in, {amount(self.sent)}/s out"
        )
