"""What all events have."""

from __future__ import annotations

from dataclasses import dataclass

SLOTS = "slots: "
"""Begins the cause of a wait for slots that other runs have."""

DRIVER = -1
"""Stands for the driver where the ends of a link are partitions."""


@dataclass(slots=True)
class Event:
    """Base of all events."""

    time: float
    """Seconds since 1970, by the server's clock."""


@dataclass(slots=True)
class WorkerEvent(Event):
    """Base of what happens to one worker."""

    partition: int
    attempt: int
    executor: str
    host: str
