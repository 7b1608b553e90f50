"""Spark's start on this machine, with its classes archived and without.

python -m benchmarks.start_up.start [--quick]
"""

from __future__ import annotations

import os
import tempfile
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter

from ..lib.harness import Row, program
from ..lib.ours import MASTER

OPTIONS = "SPARK_SUBMIT_OPTS"


def archived(path: str) -> None:
    """Archive the classes of a Spark that starts as those that are measured."""
    from tools.class_data import archive

    os.environ.pop(OPTIONS, None)
    archive(Path(path))


def started(options: str) -> float:
    """Return the seconds until Spark is up in a process of its own."""
    import tos_notebook as tos

    os.environ[OPTIONS] = options
    began = perf_counter()
    spark = tos.connect(MASTER, warm_up=False)
    took = perf_counter() - began
    spark.stop()
    return took


def run(quick: bool) -> list[Row]:
    """Start Spark in turns."""
    rounds = 2 if quick else 5
    found: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory(prefix="tos-benchmark-") as folder:
        path = str(Path(folder, "spark.jsa"))
        with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            pool.apply(archived, (path,))
            options = f"-XX:SharedArchiveFile={path} -Xlog:disable"
            for _ in range(rounds):
                found["with"].append(pool.apply(started, (options,)))
                found["without"].append(pool.apply(started, ("-Xshare:auto",)))
    parts = {
        f"{name} archived classes": ", ".join(f"{seconds:.2f} s" for seconds in each)
        for name, each in found.items()
    }
    mine, theirs = map(median, found.values())
    return [
        Row(f"Spark's start, {MASTER}, classes archived", mine, "s", "", parts, rounds),
        Row("the same / without", mine / theirs, "x", "", {}, rounds),
    ]


if __name__ == "__main__":
    program(run, __doc__)
