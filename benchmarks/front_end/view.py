"""What the live view costs at 64 executors x 10 milestones a second, and over an hour.

Simulated workers publish through the real event bus; the pump sends to a channel that encodes
each message as a kernel would, and counts it.

    python -m benchmarks.front_end.view [--quick]
"""

from __future__ import annotations

import gc
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from statistics import mean
from typing import Any

from ipykernel.jsonutil import json_clean

from tos_notebook.events import Event, MilestoneCommitted, RunStarted, StateChanged, WorkerJoined
from tos_notebook.telemetry.bus import EventBus
from tos_notebook.widgets.feed import Feed
from tos_notebook.widgets.model import RunModel
from tos_notebook.widgets.news import Facts
from tos_notebook.widgets.pump import Pump

from ..lib.harness import Row, program

EXECUTORS, RATE = 64, 10
HOUR = EXECUTORS * RATE * 3600
HEADER = 500
"""Bytes of a message besides its content: header, parent's header, signature."""

FACTS: Facts = {
    "id": "run-1",
    "number": 1,
    "name": None,
    "has_learning_rate": True,
    "validates": False,
    "measures": [],
    "master": "spark://master:7077",
    "program": "<KerasProgram of 6 parameters, 199,210 values>",
    "model_bytes": 796_840,
    "actions": [],
    "strategy": "ps",
    "lockstep": False,
    "continues": False,
    "combiner": "dynsgd",
    "sync": "asp",
    "codec": "fp32",
    "sync_interval": 10,
    "batch_size": 100,
    "learning_rate": 0.1,
    "own_rate": 0.1,
    "shards": [],
    "chaos": [],
    "chaos_log": [],
}


class Channel:
    """Takes what a view is sent, and notes when and how many bytes."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, int]] = []

    def __call__(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        """Encode one message as a kernel does."""
        cleaned = json_clean({"method": "custom", "content": content})
        message = json.dumps(cleaned, separators=(",", ":"), allow_nan=False)
        size = HEADER + len(message.encode()) + sum(map(len, buffers))
        self.sent.append((time.perf_counter(), size))

    def worst(self, seconds: float, measure: Callable[[list[int]], float]) -> float:
        """Return the most of anything in a window, per second."""
        windows = (
            [size for t, size in self.sent if began <= t < began + seconds]
            for began, _ in self.sent
        )
        return max(map(measure, windows), default=0.0) / seconds


class Fed:
    """A view without a notebook, until it is closed."""

    def __init__(self, model: RunModel, send: Channel) -> None:
        self.feed = Feed(model, lambda: FACTS, send)
        self.feed.hello()
        self.closed = False

    def tick(self, now: float) -> bool:
        """Send what is new."""
        self.feed.tick(now, last=False)
        return not self.closed


def begin(began: float, name: str = "run-20260101-000000-1") -> list[Event]:
    """Return the events with which a run begins."""
    workers = [WorkerJoined(began, n, 0, str(n), f"node-{n}", 0, 0) for n in range(EXECUTORS)]
    start = RunStarted(began, name, 100, EXECUTORS, 6_400_000)
    return [start, StateChanged(began, "running"), *workers]


def milestones(began: float, rate: float = RATE) -> Iterator[MilestoneCommitted]:
    """Yield milestones without end, `rate` a second of each worker: in turn, evenly in time."""
    for n in count():
        worker, number = n % EXECUTORS, n // EXECUTORS
        yield MilestoneCommitted(
            *(began + n / (EXECUTORS * rate), n * 1000 // 6_400_000, worker, str(worker)),
            *(f"node-{worker}", 0, number, 10, 10, 1000, 2.3 / (1 + n / 5000), n % 70, n),
            *(0.08, 0.0, 0.012345, 796_840, 796_840),
            {"accuracy": n / (n + 5000)},
            EXECUTORS,
            cpu=0.5 + number % 100 / 200,
            memory=412_000_000 + 4096 * number,
        )


class Load:
    """A run in real time, on a thread of its own."""

    def __init__(
        self,
        seconds: float,
        publish: Callable[[Event], None],
        rate: float = RATE,
        name: str = "run-1",
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._publish = publish
        self._rate = rate
        self.cpu = 0.0
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        began = time.time()
        for event in begin(began, self._name):
            self._publish(event)
        for event in milestones(began, self._rate):
            late = event.time - time.time()
            if event.time - began > self._seconds:
                break
            if late > 0.005:
                time.sleep(late)
            self._publish(event)
        self.cpu = time.thread_time()


def live(seconds: float, view: bool) -> tuple[float, Channel]:
    """Feed a run in real time; return the share of a core that it took, and what was sent.

    The workers' own thread does not count, without a view the bus does: it is there anyway.
    """
    channel, model, pump = Channel(), RunModel(), Pump()
    fed = Fed(model, channel)
    with EventBus([model] if view else []) as bus:
        load = Load(seconds, bus.publish)
        before = time.process_time()
        began = time.perf_counter()
        if view:
            pump.add(fed)
        load.thread.start()
        load.thread.join()
        took = time.perf_counter() - began
        used = time.process_time() - before - load.cpu
        fed.closed = True
    return used / took, channel


def hour(events: int) -> tuple[float, float, float]:
    """Feed an hour's events at once; return MB held, MB at the peak, microseconds for each."""
    channel, began = Channel(), time.time()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model = RunModel()
    fed = Fed(model, channel)
    for event in begin(began):
        model(event)
    for n, event in zip(range(events), milestones(began), strict=False):
        model(event)
        if n % 5000 == 0:
            fed.tick(event.time)
            channel.sent.clear()
    gc.collect()
    held, peak = (size - before for size in tracemalloc.get_traced_memory())
    tracemalloc.stop()
    return held / 1e6, peak / 1e6, _cost()


def _cost(events: int = 50_000) -> float:
    """Return microseconds for each event, without the tracing of memory."""
    model, began = RunModel(), time.time()
    for event in begin(began):
        model(event)
    made = [event for _, event in zip(range(events), milestones(began), strict=False)]
    start = time.perf_counter()
    for event in made:
        model(event)
    return (time.perf_counter() - start) / events * 1e6


def run(quick: bool) -> list[Row]:
    """Measure a live run, and an hour's events at once."""
    seconds = 10.0 if quick else 60.0
    bare, _ = live(seconds, view=False)
    used, channel = live(seconds, view=True)
    sizes = [size for _, size in channel.sent]
    total = sum(sizes) / seconds / 1e3
    held, peak, cost = hour(HOUR // 20 if quick else HOUR)
    load = f"{EXECUTORS} executors x {RATE} milestones/s"
    return [
        Row(
            f"kernel's CPU, {load}",
            100 * used,
            "%",
            "< 5",
            {"of it the event bus alone": f"{100 * bare:.2f} %", "one event": f"{cost:.1f} us"},
        ),
        Row(
            "messages to the front end, worst 5 s",
            channel.worst(5.0, len),
            "1/s",
            "<= 5",
        ),
        Row(
            f"bytes to the front end, mean of {seconds:.0f} s",
            total,
            "kB/s",
            "<= 50",
            {
                "worst 5 s": f"{channel.worst(5.0, sum) / 1e3:.1f} kB/s",
                "a message, mean": f"{mean(sizes) / 1e3:.1f} kB",
                "a message, largest": f"{max(sizes) / 1e3:.1f} kB",
            },
        ),
        Row(
            f"memory after {'three minutes' if quick else 'an hour'} of it",
            held,
            "MB",
            "<= 5",
            {"peak": f"{peak:.1f} MB"},
        ),
    ]


if __name__ == "__main__":
    program(run, __doc__)
