"""Workers of one process that take turns, in an order that is decided beforehand.

Each worker is the real one, in a thread of its own, which runs from one push to the next while
it has its turn, and waits otherwise. So results depend on the order and the seeds alone, and a
hundred workers need no more cores than one.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tos_notebook.transport.base import Connection
from tos_notebook.wire.messages import Answer, Push, Request


class Turns:
    """A thread that runs only while it has its turn: until it next waits, or ends.

    Parameters
    ----------
    work : callable
        What the thread does. It is given `wait`, to be called from that thread wherever
        others may have their turn.
    """

    def __init__(self, work: Callable[[Callable[[], None]], object]) -> None:
        self._work = work
        self._go = threading.Semaphore(0)
        self._rest = threading.Semaphore(0)
        self._error: BaseException | None = None
        self.done = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> None:
        """Let the thread have a turn, and wait for its end; raise what it raised."""
        if self.done:
            return
        self._go.release()
        self._rest.acquire()
        if self.done:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._work(self._wait)
        except BaseException as error:
            self._error = error
        self.done = True
        self._rest.release()

    def _wait(self) -> None:
        self._rest.release()
        self._go.acquire()


class Gated:
    """A connection that waits before each push; see `tos_notebook.transport.base.Connection`.

    Parameters
    ----------
    connection : Connection
    wait : callable
        Returns when it is this worker's turn.
    """

    def __init__(self, connection: Connection, wait: Callable[[], None]) -> None:
        self._connection = connection
        self._wait = wait

    def request(
        self, message: Request, *payloads: Any, **options: Any
    ) -> tuple[Answer, memoryview | None]:
        if isinstance(message, Push):
            self._wait()
        return self._connection.request(message, *payloads, **options)

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()


def in_turn(count: int) -> Iterator[int]:
    """Yield workers one after the other, over and over."""
    return itertools.cycle(range(count))


def by_service_time(count: int, random: Any) -> Iterator[int]:
    """Yield workers in the order in which they get ready to push.

    Each takes an exponential time of mean 1 from one push to the next, whatever the others do.

    Parameters
    ----------
    count : int
        Workers.
    random : numpy.random.Generator
    """
    ready = [(time, worker) for worker, time in enumerate(random.exponential(size=count))]
    heapq.heapify(ready)
    while True:
        time, worker = ready[0]
        yield worker
        heapq.heapreplace(ready, (time + random.exponential(), worker))


def generator(*seeds: int) -> np.random.Generator:
    """Return a random generator that depends on all seeds given."""
    return np.random.default_rng(np.random.SeedSequence(seeds))
