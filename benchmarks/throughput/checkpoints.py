"""What checkpoints cost: throughput with and without them, in turns, and how long pushes wait.

The 2NN of 199,210 parameters, exchanged every 10 batches. One checkpoint each second is 30 times as
many as by default.

python -m benchmarks.throughput.checkpoints [--quick]
"""

from __future__ import annotations

import tempfile
from statistics import median
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.events import CheckpointWritten, Event

from ..lib.data import mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, measure, spark

EVERY = 1.0
"""Seconds between two checkpoints."""

DEFAULT = 30.0
"""Seconds by default, in magics."""


class Written:
    """A sink that collects what is told of checkpoints."""

    def __init__(self) -> None:
        self.events: list[CheckpointWritten] = []

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if isinstance(event, CheckpointWritten):
            self.events.append(event)


def compare(combiner: str, rounds: int, epochs: int) -> list[Row]:
    """Train in turns with and without checkpoints."""
    written, ((x, y), _) = Written(), mnist()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with (
        spark() as session,
        tempfile.TemporaryDirectory(prefix="tos-benchmark-") as directory,
        tos.TrainingSession(
            session,
            network(TWO_NN),
            combiner=combiner,
            sync_interval=10,
            batch_size=BATCH_SIZE,
            checkpoint_dir=directory,
        ) as training,
    ):
        measure(training, (x, y), 1)
        for number in range(2 * rounds):
            # Whoever comes second is not always the same.
            saved = number % 4 in (1, 2)
            options: dict[str, Any] = {"checkpoint_every": f"{EVERY:g}s"} if saved else {}
            found = measure(training, (x, y), epochs, sinks=[written], **options)
            rates[saved].append(found.steady)
    pairs = zip(rates[False], rates[True], strict=True)
    cost = 100 * (1 - median(b / a for a, b in pairs))
    return [_cost(combiner, cost, rates), *_stalls(combiner, written.events, rounds)]


def _cost(combiner: str, cost: float, rates: dict[bool, list[float]]) -> Row:
    parts = {
        "without": ", ".join(map(rate, rates[False])),
        "with": ", ".join(map(rate, rates[True])),
        f"so every {DEFAULT:g} s": f"{cost * EVERY / DEFAULT:.3f} %",
    }
    return Row(
        f"{combiner}: cost of a checkpoint every {EVERY:g} s",
        cost,
        "%",
        "",
        parts,
        len(rates[True]),
    )


def _stalls(combiner: str, events: list[CheckpointWritten], rounds: int) -> list[Row]:
    stalls = [event.stall for event in events]
    parts = {
        "checkpoints": str(len(events)),
        "p50, p99 and longest": ", ".join(
            milliseconds(float(np.percentile(stalls, at))) for at in (50, 99, 100)
        ),
        "writing one, on its own thread": milliseconds(median(e.seconds for e in events)),
        "its size": f"{median(e.nbytes for e in events) / 1e3:,.0f} kB",
    }
    share = 100 * sum(stalls) / len(stalls) / DEFAULT
    what = f"{combiner}: pushes held back, of the time, every {DEFAULT:g} s"
    return [Row(what, share, "%", "< 2", parts, rounds)]


def run(quick: bool) -> list[Row]:
    """Measure a combiner without state, and one that keeps three times the parameters."""
    rounds, epochs = (2, 3) if quick else (6, 10)
    return [row for name in ("dynsgd", "fedadam") for row in compare(name, rounds, epochs)]


if __name__ == "__main__":
    program(run, __doc__)
