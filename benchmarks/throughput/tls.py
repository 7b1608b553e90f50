"""Training over TLS against training over plain TCP, side by side.

Neither shares memory with the server, although both are on its host: so workers on other
hosts train, but for the network, which is the loopback interface here.

The second row leaves out for how long processes had to wait for a processor: with all of them
busy, throughput is as much work as a processor's second does.

    python -m benchmarks.throughput.tls [--quick]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import tos_notebook as tos
from tos_notebook.transport import shared

from ..lib.data import mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.models import TWO_NN, name_of, network
from ..lib.ours import BATCH_SIZE, Measured, measure, spark

GOAL = 0.90
HOSTS = {"TLS": "0.0.0.0", "plain TCP": "127.0.0.1"}
"""The first is this host by none of its loopback addresses, so that TLS is spoken."""
INTERVAL = 10
EPOCHS = 10


@contextmanager
def _no_segments() -> Iterator[None]:
    """Let the server find no worker's memory."""
    folder, shared.PROCESSES = shared.PROCESSES, "/nowhere"
    try:
        yield
    finally:
        shared.PROCESSES = folder


def _session(spark: Any, host: str) -> tos.TrainingSession:
    return tos.TrainingSession(
        spark,
        tos.capture(network(TWO_NN)),
        sync_interval=INTERVAL,
        batch_size=BATCH_SIZE,
        server_host=host,
    )


def _processor_seconds() -> float:
    """Return what this process and its descendants, Spark's workers among them, have used."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        # A process may end meanwhile.
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            number = int(folder.name)
            parents[number] = int(fields[1])
            # Of its own and of its children that have ended.
            used[number] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def ours(number: int) -> bool:
        return number == os.getpid() or (number in parents and ours(parents[number]))

    return sum(seconds for number, seconds in used.items() if ours(number))


def run(quick: bool) -> list[Row]:
    """Measure both in turns, after a warm-up."""
    data, _ = mnist()
    epochs, rounds = (4, 3) if quick else (EPOCHS, 9)
    found: dict[str, list[Measured]] = {name: [] for name in HOSTS}
    used: dict[str, list[float]] = {name: [] for name in HOSTS}
    with spark() as context, _no_segments():
        sessions = {name: _session(context, host) for name, host in HOSTS.items()}
        for session in sessions.values():
            session.run(data, 1)
        for number in range(rounds):
            # The first one has the processors cooler.
            for name in list(HOSTS)[:: 1 if number % 2 else -1]:
                before = _processor_seconds()
                found[name].append(measure(sessions[name], data, epochs))
                used[name].append(_processor_seconds() - before)
        for session in sessions.values():
            session.close()
    pairs = list(zip(*found.values(), strict=True))
    ratios = [tls.steady / plain.steady for tls, plain in pairs]
    parts = {name: rate(median(m.steady for m in ours)) for name, ours in found.items()}
    parts["ratio of each pair"] = " ".join(f"{ratio:.3f}" for ratio in ratios)
    for name, ours in found.items():
        parts[f"exchange per milestone, {name}"] = milliseconds(median(m.exchange for m in ours))
        parts[f"compute per milestone, {name}"] = milliseconds(median(m.compute for m in ours))
    what = f"{name_of(TWO_NN)}, exchange every {INTERVAL}: TLS / plain TCP"
    work = {name: median(seconds) for name, seconds in used.items()}
    samples = pairs[0][0].samples
    costs = {
        name: milliseconds(seconds / samples * INTERVAL * BATCH_SIZE)
        for name, seconds in work.items()
    }
    costs["ratio of each pair"] = " ".join(
        f"{plain / tls:.3f}" for tls, plain in zip(*used.values(), strict=True)
    )
    same = "the same work by processor time: plain TCP / TLS"
    each = median(plain / tls for tls, plain in zip(*used.values(), strict=True))
    return [
        Row(what, median(ratios), "x", f">= {GOAL}", parts, rounds),
        Row(same, each, "x", f">= {GOAL}", costs, rounds),
    ]


if __name__ == "__main__":
    program(run, __doc__)
