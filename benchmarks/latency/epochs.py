"""What the boundary between two epochs costs, and the way to the first milestone.

python -m benchmarks.latency.epochs [--quick]
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, milliseconds, program
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, spark


def boundary(history: Any) -> Row:
    """Return the cost of a boundary on a worker, beyond a usual gap between milestones."""
    gaps, usual = [], []
    for _, worker in history.groupby("partition"):
        gap = worker["time"].diff().to_numpy()[1:]
        begins = worker["epoch"].diff().to_numpy()[1:] > 0
        gaps += list(gap[begins])
        usual += list(gap[~begins])
    parts = {
        "gap over a boundary, median and worst": f"{_ms(np.median(gaps))}, {_ms(max(gaps))}",
        "usual gap, median and worst": f"{_ms(np.median(usual))}, {_ms(max(usual))}",
    }
    cost = 1e3 * float(np.median(gaps) - np.median(usual))
    return Row("epoch boundary without repartition", cost, "ms", "< 50", parts, len(gaps))


def _ms(seconds: float) -> str:
    return milliseconds(float(seconds))


def repartition(history: Any) -> Row:
    """Return the gap between the last milestone of an epoch and the first of the next."""
    last = history.groupby("epoch")["time"].max().to_numpy()[:-1]
    first = history.groupby("epoch")["time"].min().to_numpy()[1:]
    gaps = first - last
    parts = {"each": " ".join(f"{gap:.3f}" for gap in gaps)}
    what = "epoch boundary with a random repartition of MNIST"
    return Row(what, float(np.median(gaps)), "s", "< 1.5", parts, len(gaps))


def first_milestone(session: tos.TrainingSession, data: Labelled, rounds: int) -> Row:
    """Return the time from the call of `start` to the first milestone."""
    times = []
    for _ in range(rounds):
        began = time.time()
        history = session.run(data, 1).history
        times.append(history["time"].min() - began)
    parts = {"each": " ".join(f"{seconds:.3f}" for seconds in times)}
    what = "start to first milestone, warm"
    return Row(what, float(np.median(times)), "s", "< 1", parts, rounds)


def run(quick: bool) -> list[Row]:
    """Measure one after the other, on warm executors."""
    data, _ = mnist()
    epochs = 4 if quick else 10
    with (
        spark() as session,
        tos.TrainingSession(session, network(TWO_NN), batch_size=BATCH_SIZE) as training,
    ):
        training.run(data, 1)
        return [
            boundary(training.run(data, epochs).history),
            repartition(training.run(data, epochs, repartition_every=1).history),
            first_milestone(training, data, 3 if quick else 7),
        ]


if __name__ == "__main__":
    program(run, __doc__)
