"""The mean of the vectors of two or four processes of one host: over shared memory, TCP and TLS.

Each process has all three, and they take turns in blocks, so that each pair of blocks has met the
same machine. Processor time is that of one process, with what the kernel does for it.

    python -m benchmarks.throughput.sharing [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection as Pipe
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np

from tos_notebook.common.arrays import aligned_empty
from tos_notebook.reduction.mesh import Mesh, PeerListener
from tos_notebook.reduction.reducer import Reducer
from tos_notebook.reduction.schedules import Schedule, direct, ring, two_level
from tos_notebook.reduction.sharing import Memory, Within
from tos_notebook.strategies.allreduce.peers import PLAIN_ENOUGH
from tos_notebook.transport.auth import Secret
from tos_notebook.transport.base import Endpoint

from ..lib.harness import Row, milliseconds, program
from ..lib.processes import measured_by

SECRET = Secret(b"only for this benchmark, loopback")
SIZES = {"31 kB": 31_400, "0.8 MB": 800_000, "4 MB": 4_000_000, "100 MB": 100_000_000}
SIDES = {"shared memory": (False, True), "TCP": (False, False), "TLS": (True, False)}
"""Whether they encrypt, and whether they share memory."""
SCHEDULES: dict[str, tuple[int, Callable[[int], Schedule]]] = {
    "ring of two": (2, ring),
    "direct, four": (4, direct),
    "two levels, four": (4, lambda n: two_level([0] * n)),
}
BLOCK = 0.05
"""Seconds, about, that each has before it is another one's turn."""


class Spent(NamedTuple):
    """Seconds of one reduction."""

    wall: float
    processor: float


class Side:
    """One way between the processes, with a vector for it."""

    def __init__(self, stack: ExitStack, rank: int, name: str, pipe: Pipe, way: str) -> None:
        n, make = SCHEDULES[name]
        tls, shared = SIDES[way]
        listener = stack.enter_context(closing(PeerListener(SECRET, Endpoint(tls=tls))))
        memory = stack.enter_context(closing(Memory(max(SIZES.values()) if shared else 0)))
        pipe.send(listener.here)
        near = range(n) if shared else ()
        made = Mesh(listener, rank, pipe.recv(), memory=memory, near=near)
        mesh = stack.enter_context(closing(made))
        mesh.form(30.0)
        if (mesh.within is Within.SHARED) is not shared:
            raise RuntimeError(f"Expected processes of one host to share, got {mesh.within!r}.")
        self._reducer = Reducer(mesh, make(n))
        self._memory = memory.vectors if shared else aligned_empty(max(SIZES.values()))

    def choose(self, nbytes: int) -> None:
        """Reduce vectors of a size from now on."""
        self._vector = self._memory[:nbytes].view(np.float32)
        self._vector[:] = 1.0

    def block(self, repeats: int) -> Spent:
        """Return what a reduction takes."""
        self._reducer.reduce(self._vector, 1.0)
        began, worked = perf_counter(), process_time()
        for _ in range(repeats):
            self._reducer.reduce(self._vector, 1.0)
        return Spent((perf_counter() - began) / repeats, (process_time() - worked) / repeats)

    def repeats(self) -> int:
        """Return how often a block reduces, the same for all."""
        self.block(1)
        self._vector[:] = self.block(1).wall
        self._reducer.reduce(self._vector, 1.0)
        return max(1, int(BLOCK / self._vector[0]))


def _worker(rank: int, name: str, rounds: int, pipe: Pipe) -> None:
    with ExitStack() as stack:
        sides = {way: Side(stack, rank, name, pipe, way) for way in SIDES}
        for nbytes in SIZES.values():
            for side in sides.values():
                side.choose(nbytes)
            repeats = sides["TLS"].repeats()
            found: dict[str, list[Spent]] = {way: [] for way in sides}
            for number in range(rounds):
                for way in list(sides)[:: 1 if number % 2 else -1]:
                    found[way].append(sides[way].block(repeats))
            pipe.send(found)


def _measured(name: str, rounds: int) -> list[dict[str, list[Spent]]]:
    """Return what each side's blocks have taken on the first rank, for each size."""
    ranks = SCHEDULES[name][0]
    return measured_by(_worker, ranks, (name, rounds), len(SIDES), len(SIZES))


def _row(what: str, shared: list[Spent], other: list[Spent], name: str, goal: str) -> Row:
    pairs = [*zip(shared, other, strict=True)]
    ratios = [theirs.wall / ours.wall for ours, theirs in pairs]
    spared = median(theirs.processor / ours.processor for ours, theirs in pairs)
    parts = {
        "shared memory": milliseconds(median(each.wall for each in shared)),
        name: milliseconds(median(each.wall for each in other)),
        "range of the ratio": f"{min(ratios):.2f} to {max(ratios):.2f}",
        "processor time": f"{spared:.2f} times as much over {name}",
    }
    return Row(what, median(ratios), "x", goal, parts, len(ratios))


def run(quick: bool) -> list[Row]:
    """Compare at each size, in turns."""
    rows = []
    for name in SCHEDULES:
        for size, found in zip(SIZES, _measured(name, 5 if quick else 21), strict=True):
            # Models below 1 MB are not shared instead of plain TCP.
            tcp = ">= 1" if SIZES[size] >= PLAIN_ENOUGH else ""
            for other, goal in (("TCP", tcp), ("TLS", ">= 1")):
                what = f"{name}, {size}: shared memory / {other}"
                rows.append(_row(what, found["shared memory"], found[other], other, goal))
    return rows


if __name__ == "__main__":
    program(run, __doc__)
