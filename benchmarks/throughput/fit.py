"""Speed of training against `keras.Model.fit` on all cores.

python -m benchmarks.throughput.fit [--quick]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import tos_notebook as tos

from ..lib.data import Labelled, digits, mnist
from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, measure, spark
from ..lib.peers import Peer

STEPS = (1, 10, 100)
GOAL = 2.0
DATA: dict[str, Callable[[], tuple[Labelled, Labelled]]] = {"mnist": mnist, "digits": digits}


def fitter(name: str, sizes: Sequence[int], batch_size: int) -> Callable[[int, int], float]:
    """Return a function of (steps_per_execution, epochs): the seconds that `fit` takes, warm.

    TensorFlow has its default threads, so all cores.
    """
    (x, y), _ = DATA[name]()

    @cache
    def warm(steps: int) -> Any:
        model = network(sizes, pixels=x.dtype == "uint8", steps_per_execution=steps)
        model.fit(x, y, batch_size, verbose=0)
        return model

    def seconds(steps: int, epochs: int) -> float:
        model = warm(steps)
        began = perf_counter()
        model.fit(x, y, batch_size, epochs, verbose=0)
        return perf_counter() - began

    return seconds


def run(quick: bool) -> list[Row]:
    """Measure in turns, whole calls on both sides."""
    epochs, rounds = (5, 3) if quick else (10, 5)
    data, _ = mnist()
    samples = epochs * len(data[0])
    with (
        spark() as session,
        Peer(fitter, "mnist", TWO_NN, BATCH_SIZE) as fit,
        tos.TrainingSession(session, network(TWO_NN), batch_size=BATCH_SIZE) as training,
    ):
        training.run(data, 1)
        for steps in STEPS:
            fit.call(steps, 1)
        fits, ours = [], []
        for _ in range(rounds):
            fits.append({steps: samples / fit.call(steps, epochs) for steps in STEPS})
            ours.append(measure(training, data, epochs).whole)
    ratio = median(mine / max(theirs.values()) for mine, theirs in zip(ours, fits, strict=True))
    parts = {"ours": rate(median(ours))}
    for steps in STEPS:
        parts[f"fit, steps_per_execution={steps}"] = rate(median(f[steps] for f in fits))
    what = f"2NN, {epochs} epochs: whole call / best fit"
    return [Row(what, ratio, "x", f">= {GOAL:g}", parts, rounds)]


if __name__ == "__main__":
    program(run, __doc__)
