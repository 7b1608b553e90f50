"""What one worker that is five times slower costs, by sync mode, in one run.

python -m benchmarks.scale.stragglers [--quick] [--figure FILE]
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.data import mnist
from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, spark

FACTOR = 5.0
SLOW = 1
"""The worker that is slowed down, of two."""
MODES = ("asp", "ssp:3", "bsp")
SYNC_INTERVAL = 10
SETTLE = 1.0
"""Seconds after a change that do not count."""


@dataclass(frozen=True)
class Phase:
    """A stretch of the run under one mode; times as the server's clock has them."""

    name: str
    changed: float
    begin: float
    end: float


def phases(run: tos.Run, seconds: float) -> Iterator[Phase]:
    """Let a run train at full speed, then with a straggler in each mode."""
    yield _phase("both at full speed", seconds)
    with tos.chaos.on(run, tos.chaos.Slow(FACTOR, worker=SLOW)):
        for mode in MODES:
            run.set(sync=mode)
            yield _phase(f"one {FACTOR:g}x slower, {mode}", seconds)


def _phase(name: str, seconds: float) -> Phase:
    changed = time.time()
    time.sleep(SETTLE)
    begin = time.time()
    time.sleep(seconds)
    return Phase(name, changed, begin, time.time())


def throughput(history: Any, phase: Phase, worker: int | None = None) -> float:
    """Return the samples per second of a phase, of one worker or of all."""
    inside = history[(history["time"] >= phase.begin) & (history["time"] < phase.end)]
    if worker is not None:
        inside = inside[inside["partition"] == worker]
    return float(inside["samples"].sum() / (phase.end - phase.begin))


def spread(history: Any, phase: Phase) -> int:
    """Return by how many milestones the two workers were apart at most since the mode changed."""
    inside = history[(history["time"] >= phase.changed) & (history["time"] < phase.end)]
    ahead = np.where(inside["partition"] == SLOW, -1, 1).cumsum()
    return int(np.abs(ahead).max(initial=0))


_figure: Any = None


def draw(history: Any, found: list[Phase]) -> Any:
    """Return the milestones of both workers over time, with the phases."""
    import plotly.graph_objects as go

    start = found[0].begin
    drawing = go.Figure()
    for worker, own in history.groupby("partition"):
        name = f"worker {worker}" + (f", {FACTOR:g}x slower" if worker == SLOW else "")
        drawing.add_scatter(x=own["time"] - start, y=np.arange(1, len(own) + 1), name=name)
    for phase in found:
        drawing.add_vline(x=phase.changed - start, line_dash="dot")
        drawing.add_annotation(
            x=(phase.begin + phase.end) / 2 - start, y=1, yref="paper", text=phase.name,
            showarrow=False, yanchor="bottom",
        )  # fmt: skip
    drawing.update_layout(xaxis_title="time (s)", yaxis_title="milestones")
    return drawing


def rows(history: Any, found: list[Phase]) -> list[Row]:
    """Return throughputs and spreads, beside what is left of the full speed."""
    full, *slowed = found
    each = [throughput(history, full, worker) for worker in range(2)]
    left = each[1 - SLOW] + each[SLOW] / FACTOR
    slowest = 2 * each[SLOW] / FACTOR
    goals = {"asp": ">= 0.9", "ssp:3": "", "bsp": ""}
    table = []
    for mode, phase in zip(MODES, slowed, strict=True):
        mine = throughput(history, phase)
        parts = {
            "samples/s": f"{rate(mine)}; full speed {rate(sum(each))}",
            "of twice the slowest's": f"{mine / slowest:.3f}",
        }
        what = f"{phase.name}: rate, of what is left of the full one"
        table.append(Row(what, mine / left, "x", goals[mode], parts))
        bound = {"ssp:3": "<= 4", "bsp": "<= 1"}.get(mode, "")
        what = f"{phase.name}: milestones that the two are apart, worst"
        table.append(Row(what, spread(history, phase), "", bound))
    return table


def run(quick: bool) -> list[Row]:
    """Train one model through all phases."""
    global _figure
    data, _ = mnist()
    seconds = 4.0 if quick else 12.0
    with (
        spark() as cluster,
        tos.TrainingSession(
            cluster, network(TWO_NN), batch_size=BATCH_SIZE, sync_interval=SYNC_INTERVAL
        ) as session,
    ):
        session.run(data, 1)
        training = session.start(data, 100_000)
        while not training.status.milestones:
            time.sleep(0.1)
        found = list(phases(training, seconds))
        training.stop()
        history = training.history
    _figure = draw(history, found)
    return rows(history, found)


if __name__ == "__main__":
    program(run, __doc__, figure=lambda: _figure)
