"""What workers that make each step together do with their time, and which one is the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ..events import MilestoneCommitted
from .news import Costs, Slowest
from .numbers import short

KEEP = 0.8
"""How much of a worker's sums each further milestone leaves."""

LEAD = 0.05
"""By which share of its time the slowest worker waits less than the others on average, at least."""


@dataclass(slots=True)
class Spent:
    """What one worker has done of late: sums over its milestones, of which older ones fade."""

    samples: float = 0.0
    compute: float = 0.0
    """Seconds, as are the next two."""
    exchange: float = 0.0
    wait: float = 0.0
    sent: float = 0.0
    """Bytes, to other workers or to the driver."""
    received: float = 0.0

    def add(self, event: MilestoneCommitted) -> None:
        """Count one milestone."""
        self.samples = KEEP * self.samples + event.samples
        self.compute = KEEP * self.compute + event.compute
        self.exchange = KEEP * self.exchange + event.exchange
        self.wait = KEEP * self.wait + event.wait
        self.sent = KEEP * self.sent + event.bytes_up
        self.received = KEEP * self.received + event.bytes_down

    @property
    def busy(self) -> float:
        """Seconds in which it did not wait."""
        return self.compute + self.exchange

    @property
    def seconds(self) -> float:
        """All of its time."""
        return self.busy + self.wait

    @property
    def pace(self) -> float:
        """Samples per second while it did not wait."""
        return self.samples / self.busy if self.busy > 0 else 0.0

    def share(self, seconds: float) -> float | None:
        """Return a part of its time as a share, 0 to 1; None before a milestone."""
        return seconds / self.seconds if self.seconds > 0 else None


def costs(workers: Sequence[tuple[str, int, Spent]]) -> Costs | None:
    """Return what workers do with their time on average, and the slowest of them.

    Parameters
    ----------
    workers : sequence of (str, int, Spent)
        Executor, partition, and what the worker has done, of those that train together.

    Returns
    -------
    Costs or None
        None before a milestone.
    """
    known = [worker for worker in workers if worker[2].seconds > 0]
    if not known:
        return None
    all_spent = [spent for _, _, spent in known]
    time = sum(spent.seconds for spent in all_spent)
    return {
        "compute": short(sum(spent.compute for spent in all_spent) / time, 3),
        "exchange": short(sum(spent.exchange for spent in all_spent) / time, 3),
        "wait": short(sum(spent.wait for spent in all_spent) / time, 3),
        "sent": short(sum(spent.sent for spent in all_spent) / time, 3),
        "received": short(sum(spent.received for spent in all_spent) / time, 3),
        "slowest": _slowest([(e, p, spent.wait / spent.seconds) for e, p, spent in known]),
    }


def _slowest(workers: list[tuple[str, int, float]]) -> Slowest | None:
    """Return the one for which the others wait; None if it waits nearly as long as they do."""
    least = min(workers, key=lambda worker: worker[2])
    others = [waiting for *_, waiting in workers]
    others.remove(least[2])
    if not others or fmean(others) - least[2] < LEAD:
        return None
    executor, partition, waiting = least
    return {
        "executor": executor,
        "partition": partition,
        "waiting": short(waiting, 3),
        "others": short(fmean(others), 3),
    }
