"""Asynchronous training with exponential service times: what `staleness` and `hermans` measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from tos_notebook.combiners import Combiner
from tos_notebook.events import MilestoneCommitted

from .networks import Mnist, Network
from .simulation import Simulation
from .turns import by_service_time, generator

BATCH_SIZE = 128
WARM_UP = 5
"""Pushes of each worker, in the mean, until staleness no longer shows that all began at once."""


@dataclass(frozen=True)
class Outcome:
    """One training: test accuracy in percent, and staleness in versions."""

    accuracy: float
    staleness: float


def train(
    network: Network,
    data: Mnist,
    combiner: Combiner,
    workers: int,
    sync_interval: int,
    epochs: int,
    seed: int,
) -> Outcome:
    """Train for as many batches as epochs over all rows have, all workers together.

    Each worker draws from all rows, in an order of its own, so that every push is of
    `sync_interval` full batches; only the last of a worker's epoch may be shorter.
    """
    columns = data.train
    total = epochs * len(columns[0]) // BATCH_SIZE
    with Simulation(
        network.layout, network.initial(seed), combiner, sync_interval, BATCH_SIZE, seed
    ) as run:
        run.work(
            network.runners(workers),
            [columns] * workers,
            (0, epochs - 1),
            by_service_time(workers, generator(seed, workers)),
            lambda: run.steps >= total,
        )
        accuracy = data.accuracy(network.layout, run.store.read()[0])
        return Outcome(100 * accuracy, mean_staleness(run.pushes, workers))


def mean_staleness(pushes: Sequence[MilestoneCommitted], workers: int) -> float:
    """Return the mean staleness of the pushes after the warm-up."""
    return mean(push.staleness or 0 for push in pushes if push.version > WARM_UP * workers)
