"""How fast elementwise combiners merge, beside plain numpy: `c += a * d`.

python -m benchmarks.throughput.merging [--quick]
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from tos_notebook.combiners import Combiner, get
from tos_notebook.common.arrays import Array
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Push

from ..lib.harness import Row, milliseconds, program

SIZE = 25_000_000
"""Parameters of float32: 100 MB."""
NAMES = (
    *("downpour", "dynsgd", "adag", "easgd", "fedasync", "gapaware", "fedavg", "fedbuff"),
    *("diloco", "slowmo", "bmuf", "delayednesterov", "fedadam", "fedyogi"),
)
WORKERS = 4


def plain(center: Array, change: Array) -> float:
    """Return the seconds of numpy's own way."""
    began = perf_counter()
    center += np.float32(0.5) * change
    return perf_counter() - began


class Merging:
    """A combiner at work.

    Parameters
    ----------
    combiner : Combiner
    """

    def __init__(self, combiner: Combiner) -> None:
        layout = Layout([ParameterSpec("w", (SIZE,), "float32")])
        self._store = Center(layout, layout.allocate(), combiner)
        self._update = layout.allocate()
        self._count = 0

    def __call__(self) -> float:
        """Return the seconds of one merge, reply included."""
        self._update.view(np.float32)[:SIZE] = 1e-3
        base = max(0, self._store.version - WORKERS + 1)
        worker, self._count = self._count % WORKERS, self._count + 1
        began = perf_counter()
        self._store.merge(self._update, Push(worker, base, 10, 1000, WORKERS))
        return perf_counter() - began


def compare(name: str, rounds: int) -> Row:
    """Measure in turns; a round of a combiner that collects is a whole one."""
    merge = Merging(get(name))
    center, change = np.zeros(SIZE, np.float32), np.full(SIZE, 1e-3, np.float32)
    for _ in range(WORKERS):
        merge()
        plain(center, change)
    mine, theirs = [], []
    for _ in range(rounds):
        mine.append(sum(merge() for _ in range(WORKERS)) / WORKERS)
        theirs.append(sum(plain(center, change) for _ in range(WORKERS)) / WORKERS)
    ratio = median(a / b for a, b in zip(mine, theirs, strict=True))
    parts = {
        "a merge with its reply, numpy": (
            f"{milliseconds(median(mine))}, {milliseconds(median(theirs))}"
        )
    }
    return Row(f"100 MB, {name}: time, of numpy's c += a * d", ratio, "x", "<= 1.5", parts, rounds)


def run(quick: bool) -> list[Row]:
    """Measure every elementwise rule."""
    return [compare(name, 3 if quick else 9) for name in NAMES]


if __name__ == "__main__":
    program(run, __doc__)
