"""How many bytes a second each link carries of late, where workers make each step together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest

from ..events import DRIVER, MilestoneCommitted
from ..steering.links import LinkRate, LinkRates

KEEP = 0.8
"""How much of a worker's sums each further milestone leaves."""

MOST_WORKERS = 256
"""Workers whose links are counted; others are not shown."""

MOST = 64
"""Links that are told, the busiest ones."""


def _links(event: MilestoneCommitted) -> Iterable[tuple[int, int, int]]:
    """Return what a worker has sent and got: by the driver, unless it says otherwise."""
    own = event.partition
    return event.links or ((own, DRIVER, event.bytes_up), (DRIVER, own, event.bytes_down))


@dataclass(slots=True)
class _Worker:
    """Sums over one worker's milestones, of which older ones fade."""

    seconds: float = 0.0
    nbytes: dict[tuple[int, int], float] = field(default_factory=dict)
    """By the ends of a link."""
    more: int = 0
    """Links of which it has not told."""

    def add(self, event: MilestoneCommitted) -> None:
        self.seconds = KEEP * self.seconds + event.compute + event.exchange + event.wait
        # What fades to nothing is forgotten.
        faded = {ends: KEEP * sent for ends, sent in self.nbytes.items() if KEEP * sent >= 1}
        for source, target, sent in _links(event):
            if sent:
                faded[source, target] = faded.get((source, target), 0.0) + sent
        self.nbytes, self.more = faded, event.more_links

    def rates(self) -> Iterator[LinkRate]:
        if self.seconds > 0:
            for (source, target), sent in self.nbytes.items():
                yield LinkRate(source, target, sent / self.seconds)


class LinkMeter:
    """Counts what milestones say of links. Bounded; not thread-safe."""

    def __init__(self) -> None:
        self._workers: dict[int, _Worker] = {}

    def add(self, event: MilestoneCommitted) -> None:
        """Count one milestone."""
        worker = self._workers.get(event.partition)
        if worker is None:
            if len(self._workers) >= MOST_WORKERS:
                return
            worker = self._workers[event.partition] = _Worker()
        worker.add(event)

    def clear(self) -> None:
        """Forget all counts: other workers train from now on."""
        self._workers.clear()

    def rates(self, most: int = MOST) -> LinkRates:
        """Return the busiest links.

        Parameters
        ----------
        most : int
            How many.
        """
        found = [rate for worker in self._workers.values() for rate in worker.rates()]
        busiest = nlargest(most, found, key=lambda link: link.rate)
        untold = sum(worker.more for worker in self._workers.values())
        return LinkRates(tuple(busiest), len(found) - len(busiest) + untold)
