"""Asynchronous workers against a parameter server in the driver, and in shards, over slow links.

Driver, shards and workers are processes on hosts of their own: network namespaces, whose links
have a speed. Workers do not compute. All hosts share this machine's processors, which on a small
one are the limit where nine processes encrypt. So all is measured without TLS, too. Needs root and
iproute2.

    python -m benchmarks.scale.shards [--quick]
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import closing
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from tos_notebook.codecs.pair import PLAIN
from tos_notebook.combiners import as_combiner
from tos_notebook.common.threads import in_thread
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import RunServer
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.steering.machine import Command
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.transport import acceptor, dial, shared
from tos_notebook.transport.auth import Secret, new_secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.wire.messages import Directive, Join, Poll, Push
from tos_notebook.worker.beside import SidePlace, SideTask
from tos_notebook.worker.exchange import ExchangeMaker, WorkerContext

from ..lib.harness import Row, program
from ..lib.hosts import address, hosts, inside

WORKERS = 4
SHARDS = (2, 4)
GOALS = {2: ">= 1.7", 4: ">= 3"}
NBYTES = 100_000_000
MEGABITS = 1000.0
RUN = "benchmark"
USED = 0.25, 0.01, 0.0, 1e-4, 0.9, 400_000
"""Loss, times, cores and memory in each push."""


class Server(NamedTuple):
    """How the driver is reached."""

    host: str
    port: int
    secret: Secret
    fingerprint: bytes | None
    """None where nothing is encrypted."""


class Role(NamedTuple):
    """What another process does, and on which host."""

    server: Server
    host: int
    number: int
    does: SideTask | ExchangeMaker
    layout: Layout | None
    """Of a worker's parameters; None for a shard."""
    compute: float = 0.0
    """Seconds that a worker takes between two exchanges, on average."""


def layout_of(nbytes: int) -> Layout:
    """Return the layout of a model of two tensors."""
    size = nbytes // 8
    return Layout(ParameterSpec(name, (size,), "float32") for name in ("first", "second"))


def leave_plain() -> None:
    """Encrypt nothing in this process, as between processes of one host."""
    for module in (acceptor, dial):
        vars(module)["is_loopback"] = lambda address: True


def play(role: Role) -> None:
    """Be a shard or a worker until the run ends."""
    encrypted = role.server.fingerprint is not None
    if not encrypted:
        leave_plain()
    with closing(connect_tcp(*role.server, answer_timeout=120.0)) as connection:
        if role.layout is None:
            task: Any = role.does
            endpoint = Endpoint(address(role.host), tls=encrypted)
            task(role.number, SidePlace(connection, role.server.secret, endpoint))
        else:
            work(role, connection, role.layout)


def work(role: Role, connection: Any, layout: Layout) -> None:
    """Push as fast as the exchange goes, or as workers do that compute."""
    make: Any = role.does
    chance, wake = random.Random(role.number), threading.Event()
    join = Join(RUN, role.number, 0, role.number, address(role.host), 1, segment="", metrics=[])
    trained = [np.ones(spec.shape, spec.dtype) for spec in layout.specs]
    with closing(make(connection, layout, WorkerContext(join, role.server.secret))) as exchange:
        joined = exchange.join(join)
        exchange.use(joined.settings)
        directive, sequence, version = joined.directive, 0, 0
        while directive in (Directive.GO, Directive.WAIT):
            if directive is Directive.WAIT:
                proceed = exchange.poll(Poll(0))
                directive, version = proceed.directive, proceed.version or version
                continue
            if role.compute:
                wake.wait(role.compute * chance.uniform(0.5, 1.5))
            finite = exchange.write(trained)
            push = Push(0, sequence, 10, 1000, version, 0, finite, *USED, ())
            reply = exchange.push(push, lambda: None)
            directive, sequence, version = reply.directive, sequence + 1, reply.version


class Processes:
    """Starts roles, each as a process on a host of its own; see `Beside`."""

    def __init__(self, server: RunServer, known: Server, first: int) -> None:
        self.services = server.services
        self._server, self._next = known, first
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, task: SideTask, count: int) -> Future[None]:
        """See `Beside.start`."""
        started = [self.launch(number, task, None) for number in range(count)]
        return in_thread("shards", lambda: [each.wait() for each in started] and None)

    def launch(
        self, number: int, does: Any, layout: Layout | None, compute: float = 0.0
    ) -> subprocess.Popen[bytes]:
        """Start one role on the next host."""
        host, self._next = self._next, self._next + 1
        command = [*inside(host), sys.executable, "-m", "benchmarks.scale.shards", "--role"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        self._started.append(process)
        assert process.stdin is not None
        role = Role(self._server, host, number, does, layout, compute)
        process.stdin.write(pickle.dumps(role))
        process.stdin.close()
        return process

    def cancel(self) -> None:
        """See `Beside.cancel`."""
        for process in self._started:
            process.kill()

    def end(self) -> None:
        """Wait until all have ended."""
        for process in self._started:
            process.wait(120)


def serve(shards: int, nbytes: int, seconds: float, compute: float) -> float:
    """Be the driver, on host 0; return how many pushes a second count."""
    # Hosts share no memory, but these do.
    shared.PROCESSES = "/nowhere"
    layout, strategy, secret = layout_of(nbytes), ParameterServer(shards=shards), new_secret()
    settings = Settings(strategy.settings(as_combiner("downpour"), PLAIN), 10)
    with closing(RunServer(secret, address(0), 0)) as server:
        known = Server(*server.address, secret, server.fingerprint)
        processes = Processes(server, known, first=1)
        setup = TrainerSetup(layout, layout.allocate(), settings, beside=lambda: processes)
        training = Coordinator(
            RUN,
            strategy.trainer(setup),
            settings,
            publish=lambda event: None,
            locate=lambda task: ("driver", "here"),
            on_failure=lambda: None,
        )
        training.begin_span(ArraySource([np.zeros((WORKERS, 1))], WORKERS), 0, 0)
        server.serve(training)
        for number in range(WORKERS):
            processes.launch(number, strategy.exchange, layout, compute)
        found = _measured(training, seconds)
        training.command(Command.STOP, "benchmark")
        training.wait_left(60.0)
        training.settle()
        processes.end()
    return found


def _measured(training: Coordinator, seconds: float) -> float:
    """Return pushes a second, once each worker has made two."""
    wake = threading.Event()
    while training.parameters.version < 2 * WORKERS:
        if training.error is not None:
            raise training.error
        wake.wait(0.05)
    began, before = time.perf_counter(), training.parameters.version
    wake.wait(seconds)
    if training.error is not None:
        raise training.error
    return (training.parameters.version - before) / (time.perf_counter() - began)


def on_hosts(
    shards: int,
    nbytes: int,
    seconds: float,
    megabits: float,
    compute: float = 0.0,
    encrypted: bool = True,
) -> float:
    """Return how many pushes a second count, of a driver and shards on hosts of their own."""
    with hosts(1 + WORKERS + shards, megabits):
        command = [*inside(0), sys.executable, "-m", "benchmarks.scale.shards", "--driver"]
        given = [
            str(shards),
            str(nbytes),
            str(seconds),
            str(compute),
            *["--plain"] * (not encrypted),
        ]
        done = subprocess.run(
            [*command, *given], capture_output=True, text=True, timeout=600, check=False
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.split()[-1])


def compared(encrypted: bool, rounds: int, seconds: float) -> list[Row]:
    """Compare shards with the driver alone, in turns whose order alternates."""
    ways, rates = (0, *SHARDS), list[dict[int, float]]()
    for number in range(rounds):
        order = ways if number % 2 == 0 else ways[::-1]
        measured = {
            each: on_hosts(each, NBYTES, seconds, MEGABITS, encrypted=encrypted) for each in order
        }
        rates.append(measured)
    without = "" if encrypted else ", without TLS"
    found: list[Row] = []
    for shards in SHARDS:
        ratios = [rate[shards] / rate[0] for rate in rates]
        parts = {
            "range": f"{min(ratios):.2f} to {max(ratios):.2f}",
            "driver alone": f"{median(rate[0] for rate in rates):.2f} pushes/s",
            "shards": f"{median(rate[shards] for rate in rates):.2f} pushes/s",
            "processors": str(os.cpu_count()),
        }
        what = f"{shards} shards / driver alone, 100 MB, {WORKERS} workers, 1 Gb/s each{without}"
        found.append(Row(what, median(ratios), "x", GOALS[shards], parts, rounds))
    return found


def run(quick: bool) -> list[Row]:
    """Compare with TLS, and without."""
    rounds, seconds = (1, 10.0) if quick else (3, 20.0)
    return [row for encrypted in (True, False) for row in compared(encrypted, rounds, seconds)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        play(pickle.load(sys.stdin.buffer))
    elif sys.argv[1:2] == ["--driver"]:
        if "--plain" in sys.argv:
            leave_plain()
        print(serve(int(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:6])))
    else:
        program(run, __doc__)
