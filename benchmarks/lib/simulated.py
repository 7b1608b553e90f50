"""Workers that replay an update instead of computing one: threads of a few processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, NamedTuple

import numpy as np

from tos_notebook.common.arrays import Buffer, aligned_empty
from tos_notebook.strategies.ps.shards.exchange import TRAFFIC, shards_in
from tos_notebook.strategies.ps.shards.slices import slices, stripe_lengths
from tos_notebook.strategies.ps.stripes import STRIPE_BYTES
from tos_notebook.transport.auth import Secret
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.wire.messages import (
    Attach,
    Collect,
    Directive,
    Encoding,
    Join,
    Joined,
    Poll,
    Proceed,
    Push,
    Reply,
)

from .serving import RUN, layout_of

PROCESSES = 2
END = 120.0
"""Seconds after which a wait is given up."""
USED = 0.01, 0.0, 1e-4, 0.9, 400_000
"""Times, cores and memory in each push."""

Served = tuple[str, int, Secret, bytes | None]
"""Host, port, secret and fingerprint of a server."""


class Load(NamedTuple):
    """What the workers of one run do."""

    workers: int
    nbytes: int
    """Of the parameters."""
    shards: int = 0
    think: float = 0.0
    """Seconds between an answer and the next push, on average; gamma distributed."""
    jitter: float = 0.1
    """Standard deviation of the time between, over its mean."""


class Replayed(NamedTuple):
    """What one process of workers has seen."""

    errors: list[str]
    pushes: list[list[tuple[float, float]]]
    """Of each worker: when each of its pushes was answered, and how long that took."""


class ToDriver:
    """A simulated worker's way to a parameter server in the driver."""

    def __init__(self, address: Served, number: int, update: Buffer, target: Buffer) -> None:
        self._address, self._number = address, number
        self._update, self._target = update, target
        self._connection = connect_tcp(*address, timeout=END, answer_timeout=END)

    def join(self) -> Directive:
        """Open the partition; return what to do."""
        number, pid = self._number, os.getpid()
        join = Join(RUN, number, 0, number, "127.0.0.1", pid, segment="", metrics=[])
        joined, _ = self._connection.request(join)
        assert isinstance(joined, Joined)
        return joined.directive

    def poll(self) -> tuple[Directive, int | None]:
        """Ask what to do; return it, and the version of parameters that came."""
        proceed, _ = self._connection.request(Poll(0), None, self._target)
        assert isinstance(proceed, Proceed)
        return proceed.directive, proceed.version

    def push(self, push: Push) -> tuple[Directive, int]:
        """Push; return what to do next, and the version of parameters that came."""
        reply, _ = self._connection.request(push, self._update, self._target)
        assert isinstance(reply, Reply)
        assert reply.version > push.base_version
        return reply.directive, reply.version

    def close(self) -> None:
        """Leave."""
        self._connection.close()


class ToShards(ToDriver):
    """A simulated worker's way to shards; see `strategies.ps.shards.exchange`."""

    def __init__(
        self, address: Served, number: int, update: Buffer, target: Buffer, shards: int
    ) -> None:
        super().__init__(address, number, update, target)
        layout = layout_of(update.nbytes)
        self._parts = slices(layout, shards, stripe_lengths(layout, STRIPE_BYTES))
        self._links: list[Any] = []
        self._versions = [0] * len(self._parts)

    def poll(self) -> tuple[Directive, int | None]:
        """See `ToDriver.poll`; the driver names the shards."""
        proceed, received = self._connection.request(Poll(0))
        assert isinstance(proceed, Proceed)
        if proceed.version is None:
            return proceed.directive, None
        generation, least, places, workers = shards_in(received)
        _, _, secret, _ = self._address
        if not self._links:
            attach = Attach(generation, self._number, self._number, 0, 0, workers)
            for host, port, fingerprint in places:
                link = connect_tcp(host, port, secret, fingerprint, END, answer_timeout=END)
                self._links.append(link)
                link.request(attach)
                link.request(Encoding("delta", "fp32", by_row=False))
        self._collect(Collect(0, 0, False, True, least, 0))
        return proceed.directive, proceed.version

    def push(self, push: Push) -> tuple[Directive, int]:
        """See `ToDriver.push`: to all shards, to the driver, and from all shards."""
        moved = 0
        for link, part, version in zip(self._links, self._parts, self._versions, strict=True):
            update = self._update[part.start : part.stop]
            link.request(push._replace(base_version=version), update)
            moved += update.nbytes
        reply, _ = self._connection.request(push, TRAFFIC.pack(moved, moved))
        assert isinstance(reply, Reply)
        go = reply.directive is Directive.GO
        self._collect(Collect(push.epoch, push.sequence, True, go, 0, 1))
        return reply.directive, reply.version

    def _collect(self, message: Collect) -> None:
        for number, (link, part) in enumerate(zip(self._links, self._parts, strict=True)):
            into = self._target[part.start : part.stop] if message.give else None
            proceed, _ = link.request(message, None, into)
            assert isinstance(proceed, Proceed)
            self._versions[number] = proceed.version or self._versions[number]

    def close(self) -> None:
        """Leave driver and shards."""
        for link in self._links:
            link.close()
        super().close()


class Simulated:
    """A worker that does not compute."""

    def __init__(self, way: ToDriver, number: int, load: Load) -> None:
        self._way, self._number, self._load = way, number, load
        self._random = random.Random(number)
        self.pushes: list[tuple[float, float]] = []
        self.error = ""

    def run(self) -> None:
        """Push until told to stop."""
        try:
            self._work()
        except Exception as error:
            self.error = f"worker {self._number}: {type(error).__name__}: {error}"
        finally:
            self._way.close()

    def _work(self) -> None:
        way, sequence, version, directive = self._way, 0, 0, self._way.join()
        # Those that start together do not push together.
        self._think(self._random.random())
        while True:
            while directive is Directive.WAIT:
                directive, come = way.poll()
                version = version if come is None else come
            if directive is not Directive.GO:
                return
            push = Push(0, sequence, 10, 1000, version, 0, True, 0.25, *USED, ())
            began = time.perf_counter()
            directive, version = way.push(push)
            answered = time.perf_counter()
            self.pushes.append((answered, answered - began))
            sequence += 1
            self._think(1.0)

    def _think(self, share: float) -> None:
        if self._load.think:
            shape = self._load.jitter**-2
            time.sleep(share * self._load.think * self._random.gammavariate(shape, 1 / shape))


def replay(numbers: range, load: Load, address: Served, cores: set[int], pipe: Pipe) -> None:
    """Run some of the workers on some cores; send what they have seen."""
    os.sched_setaffinity(0, cores)
    size = layout_of(load.nbytes).nbytes
    update = np.ones(size // 4, np.float32).view(np.uint8)
    # One for all: what has come is not read here.
    target = aligned_empty(size)
    make = partial(ToShards, shards=load.shards) if load.shards else ToDriver
    workers, errors = [], []
    # One after the other: none comes in a crowd that the server would turn away.
    for number in numbers:
        try:
            workers.append(Simulated(make(address, number, update, target), number, load))
        except Exception as error:
            errors.append(f"worker {number}: {type(error).__name__}: {error}")
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors += [worker.error for worker in workers if worker.error]
    pipe.send(Replayed(errors, [worker.pushes for worker in workers]))


class Clients(NamedTuple):
    """The processes of simulated workers; each pipe brings one `Replayed` after the end."""

    pipes: list[Pipe]
    pids: list[int]


@contextmanager
def clients(load: Load, address: Served, cores: set[int] | None = None) -> Iterator[Clients]:
    """Run the simulated workers while the context is open."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(PROCESSES):
        ours, theirs = context.Pipe()
        numbers = range(number, load.workers, PROCESSES)
        where = cores or os.sched_getaffinity(0)
        given = (numbers, load, address, where, theirs)
        processes.append(context.Process(target=replay, args=given, daemon=True))
        processes[-1].start()
        pipes.append(ours)
    try:
        yield Clients(pipes, [process.pid or 0 for process in processes])
        for process in processes:
            process.join(END)
    finally:
        for process in processes:
            process.kill()
