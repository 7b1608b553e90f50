"""Small pushes of eight clients: how many a second, and what the server itself takes of them.

The clients are as cheap as Python allows: each has its frame packed, changes three numbers in it,
sends it in one call and receives the answer in one. The same clients measure a bare echo, which is
one thread that waits for all of them, receives into a buffer and sends that back. Clients and
server share the machine's cores. So beside the rates are the CPU times of both.

    python -m benchmarks.latency.pushes [--quick] [--against CHECKOUT]
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ..lib import push_clients, push_server
from ..lib.harness import Row, program
from ..lib.push_clients import END, HEAD, NBYTES, drive

CLIENTS = 8
HERE = Path(__file__).parents[2]


class Measured(NamedTuple):
    """One measurement of one server."""

    rate: float
    """Pushes a second of all clients together."""
    server: float
    """Seconds of CPU that the server's process took for each."""
    client: float
    """The same of a client."""


@contextmanager
def _served(kind: str, checkout: Path) -> Iterator[tuple[int, Callable[[], float]]]:
    """Run a server's process; give its port, and a function for its CPU time so far."""
    size = HEAD + NBYTES if kind == "bare" else NBYTES
    command = [sys.executable, push_server.__file__, kind, str(size), str(CLIENTS)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())

        def cpu() -> float:
            print(file=process.stdin, flush=True)
            return float(process.stdout.readline())

        yield port, cpu
        process.stdin.close()


def measure(kind: str, checkout: Path, seconds: float) -> Measured:
    """Measure one server for so many seconds.

    Parameters
    ----------
    kind : {"ours", "bare"}
    checkout : Path
        Whose server it is.
    seconds : float
    """
    context = multiprocessing.get_context("forkserver")
    # Eight clients would import all of this at the same time, longer than they measure.
    context.set_forkserver_preload([push_clients.__name__])
    start = context.Barrier(CLIENTS + 1)
    with _served(kind, checkout) as (port, cpu):
        pipes, clients = [], []
        for number in range(CLIENTS):
            pipe, end = context.Pipe()
            arguments = (kind, number, port, seconds, start, end)
            client = context.Process(target=drive, args=arguments, daemon=True)
            client.start()
            pipes.append(pipe)
            clients.append(client)
        start.wait(END)
        before = cpu()
        found = [pipe.recv() for pipe in pipes if pipe.poll(END)]
        used = cpu() - before
        start.wait(END)
        for client in clients:
            client.join(END)
    pushes = sum(count for count, _, _ in found)
    rate = sum(count / spent for count, spent, _ in found)
    return Measured(rate, used / pushes, sum(taken for *_, taken in found) / pushes)


def run(quick: bool, against: Path | None = None) -> list[Row]:
    """Measure ours, the bare echo and perhaps another checkout's, in turns."""
    seconds, rounds = (0.7, 3) if quick else (2.0, 5)
    sides = {"ours": ("ours", HERE), "bare echo": ("bare", HERE)}
    if against is not None:
        sides["theirs"] = ("ours", against.absolute())
    found: dict[str, list[Measured]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, (kind, checkout) in sides.items():
            found[side].append(measure(kind, checkout, seconds))
    parts = {side: _sentence(measured) for side, measured in found.items()}
    rates = {side: [one.rate for one in measured] for side, measured in found.items()}
    ours, what = rates["ours"], f"31 kB from {CLIENTS} clients"
    rows = [Row(f"pushes of {what}", median(ours), "1/s", "", parts, rounds)]
    for side, goal in (("bare echo", 0.6), ("theirs", 3)):
        if side in rates:
            ratio = median(mine / other for mine, other in zip(ours, rates[side], strict=True))
            rows.append(
                Row(f"pushes of {what}: ours / {side}", ratio, "x", f">= {goal}", {}, rounds)
            )
    return rows


def _sentence(measured: list[Measured]) -> str:
    rates = [one.rate for one in measured]
    server, client = (median(getattr(m, n) for m in measured) * 1e6 for n in ("server", "client"))
    return (
        f"{median(rates):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f}); CPU of each: "
        f"{server:.0f} µs in the server, {client:.0f} µs in the client"
    )


if __name__ == "__main__":
    program(run, __doc__, folder=("against", "a checkout of another commit to measure as well"))
