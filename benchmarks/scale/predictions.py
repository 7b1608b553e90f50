"""What `tos.theory.cost` and `run.theory` predict, against what is measured.

Asynchronous workers over slow links, as in `shards`, which needs root and iproute2; and runs of
Spark on one machine. Workers over slow links compute for a time that varies, so that they do not
all send at once for long.

    python -m benchmarks.scale.predictions [--quick]
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import tos_notebook as tos

from ..lib.data import mnist
from ..lib.harness import Row, program
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, spark
from .shards import WORKERS, on_hosts

NBYTES = 5_000_000
MEGABITS = 200.0
LINKS = ((0, 0.2), (2, 0.2), (4, 0.2), (0, 0.8))
"""Shards, and seconds that a worker computes for a push, where a link takes 0.2 s for one."""

RUNS = ("ps", "allreduce")
GOAL = "<= 0.25"


def over_links(shards: int, compute: float, seconds: float) -> Row:
    """Compare pushes a second over slow links."""
    measured = on_hosts(shards, NBYTES, seconds, MEGABITS, compute)
    found = tos.theory.cost(
        NBYTES,
        batch_seconds=compute,
        workers=WORKERS,
        batch_size=1,
        sync_interval=1,
        bandwidth=1e6 * MEGABITS / 8,
        shards=max(1, shards),
    )
    predicted = found[f"ps:shards={shards}" if shards else "ps asp"].rows_per_second
    where = f"{shards} shards" if shards else "driver alone"
    what = f"{where}, {WORKERS} workers, 5 MB at 200 Mb/s, {compute:g} s of computing"
    return _row(what, predicted, measured, "pushes/s")


def on_one_machine(cluster: Any, strategy: str, epochs: int) -> Row:
    """Compare rows a second of a small model."""
    data, _ = mnist()
    options = {"strategy": strategy, "batch_size": BATCH_SIZE}
    with tos.TrainingSession(cluster, network(TWO_NN), **options) as session:
        training = session.run(data, epochs)
        found = training.theory.loc["rows a second"]
    what = f"{strategy}, 2 workers on one machine, a 2NN on MNIST"
    return _row(what, found["predicted"], found["measured"], "rows/s")


def _row(what: str, predicted: float, measured: float, unit: str) -> Row:
    said = {"predicted": predicted, "measured": measured}
    parts = {name: f"{value:,.2f} {unit}" for name, value in said.items()}
    return Row(what, abs(predicted / measured - 1), "off", GOAL, parts)


def run(quick: bool) -> list[Row]:
    """Compare all cases that this machine can run."""
    with spark() as cluster:
        rows = [on_one_machine(cluster, strategy, 3 if quick else 10) for strategy in RUNS]
    if os.geteuid() == 0 and shutil.which("tc"):
        rows += [over_links(*case, seconds=15.0 if quick else 40.0) for case in LINKS]
    return rows


if __name__ == "__main__":
    program(run, __doc__)
