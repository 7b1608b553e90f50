"""What workers do with their time: medians over the milestones of late, by worker."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ..events import (
    CommandAccepted,
    Event,
    MilestoneCommitted,
    Repartitioned,
    RunResumed,
    StrategySwapped,
)
from ..steering.machine import Command

WINDOW = 500
"""Milestones that count, of all workers together."""

_SAME_WORK = {
    *(Command.PAUSE, Command.UNPAUSE, Command.STOP),
    *(Command.REPARTITION, Command.SWAP_STRATEGY),
}
"""A pause is one long wait, which no median shows. The last two change nothing until the epoch
ends, and are told by events of their own then."""


@dataclass(frozen=True, slots=True)
class WorkerPace:
    """Medians over one worker's milestones; times in seconds of a milestone."""

    milestones: int
    """Over how many."""
    steps: float
    """Batches."""
    samples: float
    compute: float
    """In TensorFlow."""
    exchange: float
    wait: float
    interval: float
    """From a milestone to the next; the sum of the three before where there is no next."""
    bytes_up: float
    bytes_down: float

    @property
    def busy(self) -> float:
        """Seconds in which it trains, or collects rows: all but exchanging and waiting."""
        return max(self.compute, self.interval - self.exchange - self.wait)


@dataclass(frozen=True, slots=True)
class Paces:
    """The workers of a run of late."""

    workers: tuple[WorkerPace, ...] = ()
    """One for each partition."""
    at_once: float = 1.0
    """How many train at once."""
    hosts: tuple[int, ...] = ()
    """How many workers each host has."""
    host: str = ""
    """The host, where all are on one."""
    local: bool = True
    """Whether they run in the driver's own process tree, as with ``local[2]``."""

    @property
    def remote(self) -> bool:
        """Whether workers run on several hosts."""
        return len(self.hosts) > 1

    @property
    def milestones(self) -> int:
        """How many count."""
        return sum(worker.milestones for worker in self.workers)


class PaceMeter:
    """A sink for events. Not thread-safe.

    What changes the work of a step begins a new count: settings, chaos, another layout or strategy.
    """

    def __init__(self) -> None:
        self._recent: deque[MilestoneCommitted] = deque(maxlen=WINDOW)

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if isinstance(event, MilestoneCommitted):
            self._recent.append(event)
        elif isinstance(event, Repartitioned | RunResumed | StrategySwapped) or (
            isinstance(event, CommandAccepted) and _is_other_work(event)
        ):
            self._recent.clear()

    def paces(self) -> Paces:
        """Return the medians."""
        if not self._recent:
            return Paces()
        by_partition: defaultdict[int, list[MilestoneCommitted]] = defaultdict(list)
        for event in self._recent:
            by_partition[event.partition].append(event)
        hosts = Counter({e.partition: e.host for e in self._recent}.values())
        return Paces(
            tuple(_pace(by_partition[number]) for number in sorted(by_partition)),
            median(event.workers for event in self._recent),
            tuple(hosts.values()),
            next(iter(hosts)) if len(hosts) == 1 else "",
            all(event.executor == "driver" for event in self._recent),
        )


def _is_other_work(event: CommandAccepted) -> bool:
    # A schedule may set the learning rate at every step.
    if event.command == Command.SET:
        return set(event.changes) != {"learning_rate"}
    return event.command not in _SAME_WORK


def _pace(events: Sequence[MilestoneCommitted]) -> WorkerPace:
    def middle(name: str) -> float:
        return float(median(getattr(event, name) for event in events))

    compute, exchange, wait = middle("compute"), middle("exchange"), middle("wait")
    times = [after.time - before.time for before, after in pairwise(events)]
    return WorkerPace(
        len(events),
        middle("steps"),
        middle("samples"),
        compute,
        exchange,
        wait,
        median(times) if times else compute + exchange + wait,
        middle("bytes_up"),
        middle("bytes_down"),
    )
