"""How many workers a server can take: 4 to 1,024 simulated ones against the driver, and 2 shards.

Workers replay an update over TLS, and wait a while between two pushes as if they computed.
All processes of the server share one core, and the workers have the others. So the curves are of
one core; `tos_notebook.theory.scaling` predicts those of a cluster from the times measured here.

    python -m benchmarks.scale.workers [--quick]
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from tos_notebook.steering.machine import Command
from tos_notebook.theory.queueing import Visit, simulate_network
from tos_notebook.theory.scaling import saturation
from tos_notebook.transport.auth import new_secret

from ..lib.harness import Row, milliseconds, program
from ..lib.serving import layout_of, serving
from ..lib.simulated import END, Clients, Load, Replayed, clients
from ..lib.usage import processor_seconds, resident

WORKERS = (4, 16, 64, 256, 1024)
SIZES = {"31 kB": (31_400, 0.1), "4 MB": (4_000_000, 2.0)}
"""Bytes of parameters, and seconds between an answer and the next push."""
SHARDS = 2
JITTER = 0.1
CALIBRATED_BY = 64
"""Workers of the run that tells what a push takes; all other runs are predicted from it."""
ROUNDS = 3
"""Pushes of each worker that a measurement lasts for, at least."""
LONGEST = 25.0
"""Seconds of one."""


class Measured(NamedTuple):
    """What one run has shown."""

    rate: float
    """Pushes a second."""
    exchange: float
    """Mean seconds of a push."""
    slowest: float
    """Rate of the slowest worker, over the mean."""
    memory: int
    """Resident bytes of the server's processes."""
    server: float
    """Processor seconds of the server's processes for a push, without what its counting takes."""
    driver: float
    """Those of the driver's process alone."""
    workers: float
    """Processor seconds of the workers' processes for a push."""
    errors: list[str]


def cores() -> tuple[set[int], set[int]]:
    """Return the cores of the server, and of the workers."""
    first, *others = sorted(os.sched_getaffinity(0))
    return {first}, set(others) or {first}


def serve(load: Load, pipe: Pipe) -> None:
    """Be the driver; say where it listens, then its version whenever asked, until told to stop."""
    os.sched_setaffinity(0, cores()[0])
    secret = new_secret()
    given = {"tls": True, "shards": load.shards}
    with serving(load.nbytes, load.workers, secret, **given) as (server, training, beside):
        address = (*server.address, secret, server.fingerprint)
        pipe.send((address, [os.getpid(), *(process.pid for process in beside.started)]))
        while pipe.recv() == "look":
            pipe.send(training.parameters.version)
        training.command(Command.STOP, "workers")
        pipe.send("stopped")
        # Until then, workers may not have read what told them to.
        pipe.recv()
        training.settle()
        problems = [] if training.error is None else [str(training.error)]
        total, version = training.parameters.read()
        if not (total.view(np.float32) == version).all():
            problems.append(f"expected parameters of {version}")
        pipe.send(problems)


class Driver(NamedTuple):
    """The process that `serve` runs in."""

    address: tuple[Any, ...]
    pids: list[int]
    """Its own, then those of shards."""
    ask: Callable[[str], Any]


@contextmanager
def driver(load: Load) -> Iterator[Driver]:
    """Run the driver in a process of its own while the context is open."""
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=serve, args=(load, theirs))
    process.start()
    theirs.close()

    def ask(what: str) -> Any:
        pipe.send(what)
        return heard(pipe)

    try:
        address, pids = heard(pipe)
        yield Driver(address, pids, ask)
    finally:
        pipe.close()
        process.join(END)
        process.kill()


def heard(pipe: Pipe) -> Any:
    """Return what another process sends."""
    if not pipe.poll(END):
        raise TimeoutError(f"Expected a process to report within {END:g} s.")
    return pipe.recv()


def measure(load: Load, seconds: float) -> Measured:
    """Let workers push for so many seconds, or longer where each has pushed too seldom."""
    with driver(load) as served, clients(load, served.address, cores()[1]) as started:
        warm(load, served, started)
        pids = (served.pids[:1], served.pids[1:], started.pids)
        spent = [sum(map(processor_seconds, group)) for group in pids]
        version, began = served.ask("look"), time.perf_counter()
        time.sleep(seconds)
        while served.ask("look") < version + ROUNDS * load.workers:
            if time.perf_counter() > began + LONGEST:
                break
            time.sleep(0.1)
        pushes, ended = served.ask("look") - version, time.perf_counter()
        used = [
            (sum(map(processor_seconds, group)) - before) / pushes
            for group, before in zip(pids, spent, strict=True)
        ]
        memory = sum(resident("VmRSS", pid) for pid in served.pids)
        served.ask("stop")
        seen: list[Replayed] = [heard(pipe) for pipe in started.pipes]
        errors = served.ask("left")
    errors += [error for each in seen for error in each.errors]
    rate, slowest, exchange = between(seen, began, ended)
    driving, sharding, working = used
    both = driving + sharding
    return Measured(rate, exchange, slowest, memory, both, driving, working, errors)


def warm(load: Load, served: Driver, started: Clients) -> None:
    """Wait until the workers have pushed once, on average."""
    end = time.perf_counter() + END
    while served.ask("look") < load.workers:
        for pipe in started.pipes:
            if pipe.poll():
                raise RuntimeError(f"Workers have left: {'; '.join(pipe.recv().errors[:3])}")
        if time.perf_counter() > end:
            raise TimeoutError(f"Expected {load.workers} workers to push within {END:g} s.")
        time.sleep(0.05)


def between(seen: Sequence[Replayed], began: float, ended: float) -> tuple[float, float, float]:
    """Return of a window: pushes a second, the slowest worker over the mean, a push's mean seconds.

    The rate is that between the first push in it and the last: a window that begins or ends
    between two pushes would count a part of the time between as a whole, or as none.
    """
    workers = [
        [(at, took) for at, took in worker if began <= at <= ended]
        for each in seen
        for worker in each.pushes
    ]
    pushes = sorted(push for worker in workers for push in worker)
    rate = (len(pushes) - 1) / (pushes[-1][0] - pushes[0][0])
    each = [_rate(worker) for worker in workers]
    return rate, min(each) / fmean(each), fmean(took for _, took in pushes)


def _rate(pushes: Sequence[tuple[float, float]]) -> float:
    """Return a worker's pushes a second; 0 where it has made none or one."""
    return (len(pushes) - 1) / (pushes[-1][0] - pushes[0][0]) if len(pushes) > 1 else 0.0


def predicted(by: Measured, load: Load) -> float:
    """Return the pushes a second that a simulation of both groups of cores shows."""
    each = by.workers / len(cores()[1]) / 2
    route = [Visit(("workers",), each), Visit(("server",), by.server), Visit(("workers",), each)]
    found = simulate_network([route], load.workers, load.think, jitter=load.jitter, rounds=10)
    return found.rate


def rows_of(name: str, load: Load, found: dict[int, Measured]) -> list[Row]:
    """Return the figures of one way and one size, by the number of workers."""
    by, alone = found[CALIBRATED_BY], load.think + found[min(found)].exchange
    shares = [(n, each.rate * alone / n) for n, each in found.items()]
    rows = [
        Row(f"{name}: {n} workers", each.rate, "1/s", "", parts_of(each, by, load, n, share))
        for (n, each), (_, share) in zip(found.items(), shares, strict=True)
    ]
    errors = [error for each in found.values() for error in each.errors]
    texts = {f"error {number}": text for number, text in enumerate(errors[:5])}
    parts = {
        "processor, a push": f"server {milliseconds(by.server)}, of that driver "
        f"{milliseconds(by.driver)}; worker {milliseconds(by.workers)}",
        "between two pushes": f"{load.think:g} s",
    }
    return [
        *rows,
        Row(f"{name}: saturates at", saturation(shares), "", "", parts),
        Row(f"{name}: errors", len(errors), "", "== 0", texts),
    ]


def parts_of(found: Measured, by: Measured, load: Load, n: int, share: float) -> dict[str, str]:
    """Return what a person wants to know of one run."""
    simulated = predicted(by, load._replace(workers=n))
    used = found.rate * found.server, found.rate * found.workers
    return {
        "simulated / measured": f"{simulated:.1f} 1/s, {simulated / found.rate:.2f}",
        "of as many workers alone": f"{100 * share:.0f} %",
        "both ways": f"{2 * layout_of(load.nbytes).nbytes * found.rate / 1e6:.1f} MB/s",
        "a push, mean": milliseconds(found.exchange),
        "slowest worker / mean": f"{found.slowest:.2f}",
        "server's memory": f"{found.memory / 1e6:.0f} MB",
        "server's, workers' cores in use": f"{used[0]:.2f}, {used[1]:.2f}",
    }


def run(quick: bool) -> list[Row]:
    """Measure the driver and shards, with small and large models."""
    counts, seconds = ((4, 64), 1.5) if quick else (WORKERS, 5.0)
    rows: list[Row] = []
    for size, (nbytes, think) in SIZES.items():
        for way, shards in (("driver", 0), (f"{SHARDS} shards", SHARDS)):
            load = Load(0, nbytes, shards, think / 4 if quick else think, JITTER)
            found = {n: measure(load._replace(workers=n), seconds) for n in counts}
            rows += rows_of(f"{way}, {size}", load, found)
    return rows


if __name__ == "__main__":
    program(run, __doc__)
