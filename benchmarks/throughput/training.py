"""Speed of training against two bare processes that neither exchange nor use Spark.

python -m benchmarks.throughput.training [--quick]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import tos_notebook as tos

from ..lib.ceiling import Ceiling
from ..lib.data import Labelled, mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.models import SOFTMAX, TWO_NN, WIDE, name_of, network
from ..lib.ours import BATCH_SIZE, Measured, combine_seconds, measure, spark

COMBINER = "dynsgd"

HOGWILD = {"strategy": "ps:locking=false"}
"""Options of a session whose workers add to shared parameters by themselves."""


@dataclass(frozen=True)
class Case:
    """A network and how often it exchanges; epochs so that a measurement takes seconds.

    `hogwild_goal` is that of workers that add by themselves; None to leave them out.
    """

    sizes: Sequence[int]
    sync_interval: int
    goal: float
    epochs: int
    quick_epochs: int
    whole_goal: float | None = None
    hogwild_goal: float | None = None

    @property
    def name(self) -> str:
        """Of the network and the interval."""
        return f"{name_of(self.sizes)}, exchange every {self.sync_interval}"


CASES = (
    Case(TWO_NN, 10, 0.92, 10, 10, whole_goal=0.90, hogwild_goal=0.95),
    Case(SOFTMAX, 10, 0.85, 20, 10, hogwild_goal=0.90),
    Case(WIDE, 10, 0.85, 3, 1),
    Case(TWO_NN, 100, 0.97, 10, 4),
)
LONG = (50, 0.94)
"""Epochs of a long run, and the goal for the whole call."""


@dataclass(frozen=True)
class Pair:
    """A measurement of the ceiling, and one of ours right after it."""

    ceiling: float
    ours: Measured


def run_case(spark: Any, ceiling: Ceiling, data: Labelled, case: Case, quick: bool) -> list[Row]:
    """Measure one case in turns, after a warm-up of both sides."""
    epochs = case.quick_epochs if quick else case.epochs
    captured = tos.capture(network(case.sizes))

    def bare(epochs: int) -> float:
        return ceiling.rate(case.sizes, case.sync_interval, BATCH_SIZE, epochs)

    def pairs(session: tos.TrainingSession, rounds: int, ours: int) -> list[Pair]:
        return [Pair(bare(epochs), measure(session, data, ours)) for _ in range(rounds)]

    def session(**options: str) -> tos.TrainingSession:
        own = {"sync_interval": case.sync_interval, "batch_size": BATCH_SIZE}
        return tos.TrainingSession(spark, captured, **own, **options)

    rounds = 3 if quick else 5
    bare(1)
    with session(combiner=COMBINER) as locking:
        locking.run(data, 1)
        found = pairs(locking, rounds, epochs)
        rows = [steady_row(case.name, case.goal, found, combine_seconds(captured, COMBINER))]
        if case.whole_goal is not None:
            rows.append(whole_row(case, found, epochs, case.whole_goal))
            if not quick:
                rows.append(whole_row(case, pairs(locking, 3, LONG[0]), *LONG))
    if case.hogwild_goal is not None:
        with session(**HOGWILD) as hogwild:
            hogwild.run(data, 1)
            name = f"{case.name}, locking=False"
            rows.append(steady_row(name, case.hogwild_goal, pairs(hogwild, rounds, epochs)))
    return rows


def steady_row(name: str, goal: float, pairs: Sequence[Pair], combine: float | None = None) -> Row:
    """Return the ratio from the first to the last milestone, and where the rest goes."""
    ours = [pair.ours for pair in pairs]
    ratio = median(pair.ours.steady / pair.ceiling for pair in pairs)
    names = {
        "compute": "compute",
        "exchange": "exchange",
        "wait": "wait",
        "rest": "gather, all else",
    }
    means = {text: median(getattr(m, name) for m in ours) for name, text in names.items()}
    parts = {
        "ours": rate(median(m.steady for m in ours)),
        "ceiling": rate(median(pair.ceiling for pair in pairs)),
        "ratio of each pair": " ".join(f"{p.ours.steady / p.ceiling:.3f}" for p in pairs),
        **{f"{part} per milestone": milliseconds(value) for part, value in means.items()},
        **({} if combine is None else {"combine (of the exchange)": milliseconds(combine)}),
        "start to first milestone": milliseconds(median(m.until_first for m in ours)),
        "last milestone to return": milliseconds(median(m.after_last for m in ours)),
    }
    return Row(f"{name}: steady / ceiling", ratio, "x", f">= {goal}", parts, len(pairs))


def whole_row(case: Case, pairs: Sequence[Pair], epochs: int, goal: float) -> Row:
    """Return the ratio over the whole call."""
    ratio = median(pair.ours.whole / pair.ceiling for pair in pairs)
    parts = {
        "ours": rate(median(pair.ours.whole for pair in pairs)),
        "ceiling": rate(median(pair.ceiling for pair in pairs)),
        "seconds": f"{median(pair.ours.wall for pair in pairs):.2f}",
    }
    what = f"{name_of(case.sizes)}, {epochs} epochs: whole call / ceiling"
    return Row(what, ratio, "x", f">= {goal}", parts, len(pairs))


def run(quick: bool) -> list[Row]:
    """Measure all cases on one Spark."""
    data, _ = mnist()
    with spark() as session, Ceiling() as ceiling:
        return [row for case in CASES for row in run_case(session, ceiling, data, case, quick)]


if __name__ == "__main__":
    program(run, __doc__)
