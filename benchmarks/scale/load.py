"""Many simulated workers against one server: errors, fairness, memory, and how soon it obeys.

They push as fast as they are answered, over sockets, from a few processes with a thread for
each; in between the run is paused and resumed.

    python -m benchmarks.scale.load [--quick]
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.events import CommandApplied, Event, MilestoneCommitted, WorkerJoined, WorkerLost
from tos_notebook.steering.machine import Command
from tos_notebook.transport.auth import new_secret

from ..lib.harness import Row, program
from ..lib.serving import serving
from ..lib.simulated import END, Load, clients
from ..lib.usage import resident

EVERY = 15.0
"""Seconds between two pauses."""
OBEY = 0.2
NBYTES = 4_000_000
"""Of the parameters."""


class Watch:
    """A sink that counts each worker's milestones, and waits for what it is told to."""

    def __init__(self) -> None:
        self.milestones: Counter[int] = Counter()
        self.joined = 0
        self.lost: list[str] = []
        self.pauses = 0
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        with self._changed:
            if isinstance(event, MilestoneCommitted):
                self.milestones[event.partition] += 1
                return
            self.joined += isinstance(event, WorkerJoined)
            self.pauses += isinstance(event, CommandApplied) and event.command == "pause"
            if isinstance(event, WorkerLost):
                self.lost.append(event.reason)
            self._changed.notify_all()

    def wait_for(self, name: str, count: int) -> None:
        """Wait until something was seen so often."""
        with self._changed:
            if not self._changed.wait_for(lambda: getattr(self, name) >= count, END):
                raise TimeoutError(f"Expected {name} to reach {count}, got {getattr(self, name)}.")


@dataclass
class Measured:
    """What one run has shown; seconds, and bytes of resident memory by time."""

    seconds: float = 0.0
    milestones: Counter[int] = field(default_factory=Counter)
    acknowledged: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def steer(training: Coordinator, watch: Watch, seconds: float, measured: Measured) -> None:
    """Let the workers push, pausing them now and then."""
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        pause_at = time.perf_counter() + min(EVERY, left)
        while time.perf_counter() < pause_at:
            measured.memory.append(resident())
            time.sleep(0.5)
        before, began = watch.pauses, time.perf_counter()
        training.command(Command.PAUSE, "load")
        measured.acknowledged.append(time.perf_counter() - began)
        watch.wait_for("pauses", before + 1)
        measured.waiting.append(time.perf_counter() - began)
        training.command(Command.UNPAUSE, "load")


def measure(workers: int, seconds: float, nbytes: int, tls: bool) -> Measured:
    """Run all workers against one server.

    Parameters
    ----------
    workers : int
    seconds : float
    nbytes : int
        Of the parameters.
    tls : bool
    """
    secret, watch = new_secret(), Watch()
    measured = Measured(memory=[resident()])
    with serving(nbytes, workers, secret, watch, tls=tls) as (server, training, _):
        address = (*server.address, secret, server.fingerprint)
        with clients(Load(workers, nbytes), address) as started:
            watch.wait_for("joined", workers)
            before, began = Counter(watch.milestones), time.perf_counter()
            steer(training, watch, seconds, measured)
            measured.seconds = time.perf_counter() - began
            measured.milestones = Counter(watch.milestones)
            measured.milestones.subtract(before)
            measured.memory.append(resident())
            training.command(Command.STOP, "load")
            for pipe in started.pipes:
                measured.errors += pipe.recv().errors
        measured.errors += [f"lost: {reason}" for reason in watch.lost]
        total = training.parameters.read()[0].view(np.float32)
        if not (total == training.parameters.version).all():
            measured.errors.append(f"expected parameters of {training.parameters.version}")
    return measured


def rows(measured: Measured, workers: int) -> list[Row]:
    """Return the figures."""
    rates = [measured.milestones[n] / measured.seconds for n in range(workers)]
    mean = sum(rates) / workers
    start, *memory = measured.memory
    speeds = {
        "exchanges": f"{sum(measured.milestones.values()):,}, {sum(rates):.1f}/s",
        "slowest, mean, fastest worker": f"{min(rates):.3f}, {mean:.3f}, {max(rates):.3f} 1/s",
    }
    sizes = {
        "start": f"{start / 1e6:.0f} MB",
        "all joined": f"{memory[0] / 1e6:.0f} MB",
        "peak": f"{max(memory) / 1e6:.0f} MB",
        "end": f"{memory[-1] / 1e6:.0f} MB",
    }
    half = max(memory[: max(1, len(memory) // 2)])
    acknowledged, waiting = measured.acknowledged, measured.waiting
    taken = {
        "all wait, median": f"{median(waiting):.2f} s of {len(waiting)}",
        "the call returns, median": f"{median(acknowledged) * 1e3:.1f} ms",
    }
    what = dict(enumerate(measured.errors[:5]))
    texts = {f"error {number}": text for number, text in what.items()}
    return [
        Row(f"errors of {workers} workers", len(measured.errors), "", "== 0", texts),
        Row("slowest worker / mean", min(rates) / mean, "x", ">= 0.5", speeds),
        Row("peak memory / first half's", max(memory) / half, "x", "<= 1.05", sizes),
        Row("all workers wait after a pause, worst", max(waiting), "s", f"<= {OBEY}", taken),
    ]


def run(quick: bool) -> list[Row]:
    """Let 256 workers push for ten minutes, or 64 for half of one."""
    workers, seconds = (64, 30.0) if quick else (256, 600.0)
    return rows(measure(workers, seconds, NBYTES, tls=False), workers)


if __name__ == "__main__":
    program(run, __doc__)
