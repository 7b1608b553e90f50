"""What asynchrony costs in accuracy: two workers against one process, same settings.

python -m benchmarks.accuracy.accuracy [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

import tos_notebook as tos

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, program
from ..lib.models import accuracy_of, seeded_network
from ..lib.ours import BATCH_SIZE, spark
from ..lib.peers import Peer

EPOCHS = 10
JUDGED = "Adam"
"""The optimizer with a goal: of one process, SGD(0.1) reaches 0.977 in these epochs, Adam 0.98."""
OPTIMIZERS = (JUDGED, "SGD")
COMBINERS = ("dynsgd", "downpour")


def single() -> Callable[[str, int], float]:
    """Return the function that one process runs."""
    data, test = mnist()

    def accuracy(optimizer: str, seed: int) -> float:
        model = seeded_network(optimizer, seed, steps_per_execution=100)
        model.fit(*data, BATCH_SIZE, EPOCHS, verbose=0)
        return accuracy_of(model, test)

    return accuracy


def ours(
    spark: Any, optimizer: str, combiner: str, seed: int, data: Labelled, test: Labelled
) -> float:
    """Return the accuracy that two workers reach."""
    model = seeded_network(optimizer, seed)
    with tos.TrainingSession(spark, model, combiner=combiner, batch_size=BATCH_SIZE) as session:
        session.run(data, EPOCHS, seed=seed)
    return accuracy_of(model, test)


def run(quick: bool) -> list[Row]:
    """Train with each optimizer, combiner and seed on both sides, one after the other."""
    data, test = mnist()
    seeds = range(1 if quick else 3)
    rows = []
    with spark() as session, Peer(single) as peer:
        for optimizer in OPTIMIZERS:
            theirs = [peer.call(optimizer, seed) for seed in seeds]
            for combiner in COMBINERS:
                mine = [ours(session, optimizer, combiner, seed, data, test) for seed in seeds]
                rows += compare(optimizer, combiner, mine, theirs)
    return rows


def compare(optimizer: str, combiner: str, mine: list[float], theirs: list[float]) -> list[Row]:
    """Return mean accuracy, and its distance from one process's."""
    goals = (">= 0.980", ">= -0.3") if optimizer == JUDGED else ("", "")
    parts = {
        side: f"{mean(values):.4f} ({' '.join(f'{value:.4f}' for value in values)})"
        for side, values in (("two workers", mine), ("one process", theirs))
    }
    name = f"2NN, {EPOCHS} epochs of {optimizer}, {combiner}"
    points = 100 * (mean(mine) - mean(theirs))
    return [
        Row(f"{name}: mean test accuracy", mean(mine), "", goals[0], parts, len(mine)),
        Row(f"{name}: minus one process", points, "points", goals[1], runs=len(mine)),
    ]


if __name__ == "__main__":
    program(run, __doc__)
