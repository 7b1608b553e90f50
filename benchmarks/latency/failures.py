"""How soon an error of the user's code on an executor ends the run in the driver, by cluster.

python -m benchmarks.latency.failures [--quick]

The quick one leaves YARN out, which needs Maven. The clusters are those of the fault matrix.
"""

from __future__ import annotations

import re
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import tos_notebook as tos
from tests.faults import counting
from tests.faults.clusters import Cluster
from tos_notebook.errors import WorkerError

from ..lib.harness import Row, program

KINDS = ("local", "local-cluster", "standalone", "yarn")
SIZES = (60, 60)
END = 120.0
"""Seconds after which a run that does not fail is given up."""


def seconds(kind: str, count: int) -> list[float]:
    """Return how long errors took on a cluster of one kind, in a run each."""

    def spoiled(partition: int, attempt: int) -> None:
        if partition == 1:
            raise ValueError(f"spoiled at {time.time():.6f}")

    found = []
    with Cluster(kind) as cluster, tempfile.TemporaryDirectory() as folder:
        sc = cluster.connect({})
        for _ in range(count):
            rows = counting.data(sc, SIZES, Path(folder), spoiled)
            with tos.TrainingSession(sc, counting.program(), combiner="delta") as session:
                try:
                    session.start(rows, epochs=2).wait(END)
                except WorkerError as error:
                    ended = time.time()
                    (raised,) = re.findall(r"spoiled at ([\d.]+)", error.message)
                    found.append(ended - float(raised))
    return found


def run(quick: bool) -> list[Row]:
    """Spoil runs on each kind of cluster."""
    rows = []
    for kind in KINDS[:3] if quick else KINDS:
        # A JVM reads the configuration of YARN once.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            found = process.submit(seconds, kind, 2 if quick else 5).result()
        parts = {"each": ", ".join(f"{one:.2f} s" for one in found)}
        what = f"{kind}: error on an executor to error here, worst"
        rows.append(Row(what, max(found), "s", "<= 5", parts, len(found)))
    return rows


if __name__ == "__main__":
    program(run, __doc__)
