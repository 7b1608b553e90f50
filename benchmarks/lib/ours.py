"""Runs of ours, measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.combiners import as_combiner
from tos_notebook.strategies.ps.center import Center
from tos_notebook.strategies.ps.push import Push

BATCH_SIZE = 100
MASTER = "local[2]"


@contextmanager
def spark(master: str = MASTER, config: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Start Spark with warm workers, and stop it afterwards."""
    session = tos.connect(master, config=config)
    try:
        yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class Measured:
    """One run. Rates in samples per second, times in seconds."""

    samples: int
    steady: float
    """From the first to the last milestone, without the first one's samples."""
    wall: float
    """Of the whole call."""
    until_first: float
    after_last: float
    compute: float
    exchange: float
    wait: float
    interval: float
    """Means over a worker's milestones but its first; the last from one to the next."""

    @property
    def whole(self) -> float:
        """Rate over the whole call."""
        return self.samples / self.wall

    @property
    def rest(self) -> float:
        """Seconds per milestone beside computing, exchanging and waiting: gathering rows."""
        return self.interval - self.compute - self.exchange - self.wait


def measure(session: tos.TrainingSession, data: Any, epochs: int, **options: Any) -> Measured:
    """Run and measure."""
    began, clock = time.time(), time.perf_counter()
    history = session.run(data, epochs, **options).history
    wall = time.perf_counter() - clock
    first, last = history["time"].iloc[0], history["time"].max()
    samples = int(history["samples"].sum())
    later = history[history.groupby("partition").cumcount() > 0]
    means = {name: float(later[name].mean()) for name in ("compute", "exchange", "wait")}
    return Measured(
        samples=samples,
        steady=(samples - int(history["samples"].iloc[0])) / (last - first),
        wall=wall,
        until_first=first - began,
        after_last=began + wall - last,
        interval=float(history.groupby("partition")["time"].diff().mean()),
        **means,
    )


def combine_seconds(program: Any, combiner: str, merges: int = 20) -> float:
    """Return the seconds of one merge into parameters of a program's size, by itself."""
    store = Center(program.layout, program.read(), as_combiner(combiner))
    update = program.layout.allocate()
    times = []
    for version in range(merges):
        update[:] = 0
        began = time.perf_counter()
        store.merge(update, Push(0, version, 10, 10 * BATCH_SIZE, 2))
        times.append(time.perf_counter() - began)
    return float(np.median(times))
