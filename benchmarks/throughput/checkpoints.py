"""What checkpoints cost: throughput with and without them, in turns, and how long pushes wait.

The 2NN of 199,210 parameters, exchanged every 10 batches. One checkpoint each second is 30 times as
many as by default. Then a larger network with its parameters in a shard, which writes its part of a
checkpoint itself, or sends it to the driver.

python -m benchmarks.throughput.checkpoints [--quick]
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, cast

import numpy as np

import tos_notebook as tos
from tos_notebook.events import CheckpointWritten, Event
from tos_notebook.strategies.ps.shards.group import Group
from tos_notebook.strategies.ps.shards.trainer import ShardedTrainer

from ..lib.data import mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import BATCH_SIZE, measure, spark

EVERY = 1.0
"""Seconds between two checkpoints."""

LARGE = (784, 3000, 3000, 10)
"""11.4 million parameters."""

LARGE_ROWS, LARGE_BATCH = 2000, 20
"""Of MNIST, for them."""

DEFAULT = 30.0
"""Seconds by default, in magics."""


class Written:
    """A sink that collects what is told of checkpoints."""

    def __init__(self) -> None:
        self.events: list[CheckpointWritten] = []

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if isinstance(event, CheckpointWritten):
            self.events.append(event)


def compare(combiner: str, rounds: int, epochs: int) -> list[Row]:
    """Train in turns with and without checkpoints."""
    written, ((x, y), _) = Written(), mnist()
    rates: dict[bool, list[float]] = {False: [], True: []}
    with (
        spark() as session,
        tempfile.TemporaryDirectory(prefix="tos-benchmark-") as directory,
        tos.TrainingSession(
            session,
            network(TWO_NN),
            combiner=combiner,
            sync_interval=10,
            batch_size=BATCH_SIZE,
            checkpoint_dir=directory,
        ) as training,
    ):
        measure(training, (x, y), 1)
        for number in range(2 * rounds):
            # The second one is not always the same.
            saved = number % 4 in (1, 2)
            options: dict[str, Any] = {"checkpoint_every": f"{EVERY:g}s"} if saved else {}
            found = measure(training, (x, y), epochs, sinks=[written], **options)
            rates[saved].append(found.steady)
    pairs = zip(rates[False], rates[True], strict=True)
    cost = 100 * (1 - median(b / a for a, b in pairs))
    return [_cost(combiner, cost, rates), *_stalls(combiner, written.events, rounds)]


def _cost(combiner: str, cost: float, rates: dict[bool, list[float]]) -> Row:
    parts = {
        "without": ", ".join(map(rate, rates[False])),
        "with": ", ".join(map(rate, rates[True])),
        f"so every {DEFAULT:g} s": f"{cost * EVERY / DEFAULT:.3f} %",
    }
    return Row(
        f"{combiner}: cost of a checkpoint every {EVERY:g} s",
        cost,
        "%",
        "",
        parts,
        len(rates[True]),
    )


def _stalls(combiner: str, events: list[CheckpointWritten], rounds: int) -> list[Row]:
    stalls = [event.stall for event in events]
    parts = {
        "checkpoints": str(len(events)),
        "p50, p99 and longest": ", ".join(
            milliseconds(float(np.percentile(stalls, at))) for at in (50, 99, 100)
        ),
        "writing one, on its own thread": milliseconds(median(e.seconds for e in events)),
        "its size": f"{median(e.nbytes for e in events) / 1e3:,.0f} kB",
    }
    share = 100 * sum(stalls) / len(stalls) / DEFAULT
    what = f"{combiner}: pushes held back, of the time, every {DEFAULT:g} s"
    return [Row(what, share, "%", "< 2", parts, rounds)]


@dataclass
class Way:
    """Checkpoints of a shard that have gone one way."""

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    copies: int = 0
    sent: int = 0
    """Bytes of all copies that came into the driver."""


def compare_shards(rounds: int, epochs: int) -> list[Row]:
    """Train in turns beside a shard that writes its part of checkpoints, and one that sends it."""
    ways, ((x, y), _) = {True: Way(), False: Way()}, mnist()
    with (
        spark() as session,
        tempfile.TemporaryDirectory(prefix="tos-benchmark-") as directory,
        tos.TrainingSession(
            session,
            network(LARGE),
            strategy="ps:shards=1",
            combiner="downpour",
            sync_interval=10,
            batch_size=LARGE_BATCH,
            checkpoint_dir=directory,
        ) as training,
    ):
        data = x[:LARGE_ROWS], y[:LARGE_ROWS]
        measure(training, data, 1, partitions=1)
        for number in range(2 * rounds):
            own = number % 4 in (1, 2)
            written = Written()
            options: dict[str, Any] = {"checkpoint_every": f"{EVERY:g}s", "partitions": 1}
            with _way(own, ways[own]):
                found = measure(training, data, epochs, sinks=[written], **options)
            ways[own].rates.append(found.steady)
            # The last one is written when the shard has ended.
            ways[own].seconds += [event.seconds for event in written.events[:-1]]
    return _ways(ways[True], ways[False], training.program.layout.nbytes)


@contextmanager
def _way(own: bool, way: Way) -> Iterator[None]:
    """Let a shard write its part of checkpoints, or send it; count what comes into the driver."""
    command: Any = Group.command
    apart: Any = ShardedTrainer.snapshot_apart

    def counted(group: Group, what: str, payloads: Any, timeout: float) -> Any:
        answers = command(group, what, payloads, timeout)
        # Copies in memory are made by another thread.
        if threading.current_thread().name.startswith("tos-checkpoint"):
            way.copies += what == "copy"
            way.sent += sum(0 if payload is None else len(payload) for _, payload in answers)
        return answers

    shards, trainer = cast(Any, Group), cast(Any, ShardedTrainer)
    shards.command = counted
    trainer.snapshot_apart = apart if own else ShardedTrainer.snapshot
    try:
        yield
    finally:
        shards.command, trainer.snapshot_apart = command, apart


def _ways(own: Way, through: Way, nbytes: int) -> list[Row]:
    each = [way.sent / way.copies for way in (own, through)]
    parts = {
        "by the shard": _range(own.seconds),
        "through the driver": _range(through.seconds),
        "parameters": f"{nbytes / 1e6:.1f} MB",
        "into the driver for each": " and ".join(f"{n / 1e3:,.1f} kB" for n in each),
    }
    ratio = median(own.seconds) / median(through.seconds)
    rates = {
        "by the shard": ", ".join(map(rate, own.rates)),
        "through the driver": ", ".join(map(rate, through.rates)),
    }
    faster = median(a / b for a, b in zip(own.rates, through.rates, strict=True))
    what = "a shard's checkpoint: time to write one / through the driver"
    samples = "a shard's checkpoints: samples a second / through the driver"
    return [
        Row(what, ratio, "x", "", parts, len(own.seconds)),
        Row(samples, faster, "x", "", rates, len(own.rates)),
    ]


def _range(seconds: Sequence[float]) -> str:
    least, most = min(seconds), max(seconds)
    return f"{milliseconds(median(seconds))} ({milliseconds(least)} to {milliseconds(most)})"


def run(quick: bool) -> list[Row]:
    """Measure a combiner without state, one that keeps three times the parameters, and a shard."""
    rounds, epochs = (2, 3) if quick else (6, 10)
    rows = [row for name in ("dynsgd", "fedadam") for row in compare(name, rounds, epochs)]
    return rows + compare_shards(rounds, epochs)


if __name__ == "__main__":
    program(run, __doc__)
