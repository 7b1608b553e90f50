"""How soon a pause and a stop take effect.

python -m benchmarks.latency.control [--quick]
"""

from __future__ import annotations

import threading
import time
from statistics import median

import tos_notebook as tos
from tos_notebook.events import CommandApplied, Event, MilestoneCommitted

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, program
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, spark

END = 60.0
"""Seconds after which a wait is given up."""
WARM = 20
"""Milestones before a command is given."""


class Watch:
    """A sink that lets wait until training is under way, and for a command's effect."""

    def __init__(self) -> None:
        self.warm = threading.Event()
        self.applied = threading.Event()
        self.applied_at = 0.0
        self._milestones = 0

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, MilestoneCommitted):
            self._milestones += 1
            if self._milestones >= WARM:
                self.warm.set()
        elif isinstance(event, CommandApplied) and event.command == "pause":
            self.applied_at = event.time
            self.applied.set()


def _await(event: threading.Event, what: str) -> None:
    if not event.wait(END):
        raise TimeoutError(f"Expected {what} within {END} s.")


def steer(session: tos.TrainingSession, data: Labelled) -> tuple[int, float, float]:
    """Train, pause, unpause and stop.

    Returns
    -------
    milestones, paused, stopped : int, float, float
        The most milestones of one worker after `pause`, seconds until all workers waited, and
        seconds of `stop`.
    """
    watch = Watch()
    run = session.start(data, 1000, sinks=[watch])
    _await(watch.warm, "the first milestones")
    asked = time.time()
    run.pause()
    _await(watch.applied, "the pause to take effect")
    run.unpause()
    history = run.history
    after = history[(history["time"] > asked) & (history["time"] <= watch.applied_at)]
    began = time.perf_counter()
    run.stop()
    stopped = time.perf_counter() - began
    counts = after.groupby("partition").size()
    return int(counts.max()) if len(counts) else 0, watch.applied_at - asked, stopped


def run(quick: bool) -> list[Row]:
    """Steer a few runs."""
    data, _ = mnist()
    with (
        spark() as session,
        tos.TrainingSession(session, network(TWO_NN), batch_size=BATCH_SIZE) as training,
    ):
        training.run(data, 1)
        found = [steer(training, data) for _ in range(3 if quick else 10)]
    milestones, paused, stopped = zip(*found, strict=True)
    seconds = {"all wait, median and worst": f"{median(paused):.3f} s, {max(paused):.3f} s"}
    median_stop = {"median": f"{median(stopped):.3f} s"}
    runs = len(found)
    return [
        Row(
            "milestones of a worker after pause(), worst",
            max(milestones),
            "",
            "<= 1",
            seconds,
            runs,
        ),
        Row("stop(), worst", max(stopped), "s", "< 2", median_stop, runs),
    ]


if __name__ == "__main__":
    program(run, __doc__)
