"""What the JVM's second compiler costs and gives on few cores: Spark's start, and a long query.

Three settings in turns, each in a process of its own: those of `tos.connect`, the JVM's own, and
the first compiler alone.

python -m benchmarks.start_up.compilers [--quick]
"""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from tos_notebook.cluster.jvm import LATE_COMPILER

from ..lib.harness import Row, program
from ..lib.ours import MASTER

OURS, OWN, FIRST = "tos.connect", "the JVM's own", "the first compiler alone"
SETTINGS = {
    OURS: " ".join(LATE_COMPILER),
    OWN: "-XX:+TieredCompilation",
    FIRST: "-XX:TieredStopAtLevel=1",
}
NUMBERS = 60_000_000
QUERIES = 4
"""The last one counts: by then the JVM has compiled what it compiles."""


class Measured(NamedTuple):
    """Seconds of one Spark."""

    processor: float
    """Of the JVM, until Spark is up."""
    query: float


def measured(options: str) -> Measured:
    """Start Spark, and add numbers up."""
    import tos_notebook as tos

    spark = tos.connect(MASTER, config={"spark.driver.extraJavaOptions": options}, warm_up=False)
    processor = _processor(spark.sparkContext._gateway.proc.pid)
    for _ in range(QUERIES):
        began = perf_counter()
        spark.range(NUMBERS).selectExpr("sum(id * 2 + 1)", "sum(hash(id))").collect()
        query = perf_counter() - began
    spark.stop()
    return Measured(processor, query)


def _processor(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in threads) / 1e9


def run(quick: bool) -> list[Row]:
    """Measure all three in turns."""
    found: dict[str, list[Measured]] = {name: [] for name in SETTINGS}
    for _ in range(1 if quick else 3):
        for name, options in SETTINGS.items():
            with get_context("spawn").Pool(1) as pool:
                found[name].append(pool.apply(measured, (options,)))
    return [
        _row(what, {name: [m[field] for m in each] for name, each in found.items()})
        for field, what in enumerate(
            ("JVM's processor time until Spark is up", "a query over 60 million numbers")
        )
    ]


def _row(what: str, found: dict[str, list[float]]) -> Row:
    seconds = {name: median(each) for name, each in found.items()}
    parts = {name: f"{value:.2f} s" for name, value in seconds.items()}
    return Row(
        f"{what} / the JVM's own settings",
        seconds[OURS] / seconds[OWN],
        "x",
        "",
        parts,
        len(found[OURS]),
    )


if __name__ == "__main__":
    program(run, __doc__)
