"""A run of a strategy in this process, in which every wait ends and says what it waited for."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from ..common.arrays import Array, Buffer
from ..common.threads import in_thread
from ..coordination.coordinator import Coordinator
from ..coordination.server import WorkerHandler
from ..coordination.services import Services
from ..coordination.settings import Settings
from ..data.arrays import ArraySource
from ..errors import (
    ConnectionClosed,
    ConnectTimeout,
    TosError,
    TransportError,
    WaitTimeout,
    WorkerError,
)
from ..events import Event, MilestoneCommitted
from ..layout import Layout
from ..strategies.base import Strategy, TrainerSetup
from ..transport.auth import new_secret
from ..transport.inproc import InprocListener, connect_inproc
from ..wire.messages import Join, Push
from ..worker.exchange import WorkerContext
from ..worker.loop import Worker
from ..worker.plan import Plan
from .failures import fault, place_of
from .programs import Counting, NumpyProgram
from .side_threads import SideThreads

RUN = "check"
START = 3
"""What all parameters begin with: a strategy that begins with zeros is found."""

GRACE = 1.0
"""Seconds for what follows a failure: other workers' errors, and the report of a wait."""


class Deadline:
    """When all waits of one check end.

    Parameters
    ----------
    timeout : float
        Seconds from now on.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._end = monotonic() + timeout
        self._others = frozenset(threading.enumerate())

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, self._end - monotonic())

    def missed(self, what: str) -> WaitTimeout:
        """Return the error of a wait that ran out, which names where each thread stands."""
        stands = ", ".join(self._standing()) or "it did not come"
        return WaitTimeout(f"expected {what} within {self.timeout:g} s, but {stands}")

    def _standing(self) -> Iterator[str]:
        """Yield where in the strategy the threads stand that have begun since."""
        stacks = sys._current_frames()
        for thread in threading.enumerate():
            if thread not in self._others and thread.ident in stacks:
                place = place_of(traceback.extract_stack(stacks[thread.ident]))
                if place:
                    yield f"{thread.name} stands at {place}"


class Trial:
    """What one check is given: a strategy, its exact settings, and when waits end."""

    def __init__(self, strategy: Strategy, deadline: Deadline) -> None:
        self.strategy, self.deadline = strategy, deadline
        self.settings = strategy.exact_settings()

    @contextmanager
    def bench(self, program: NumpyProgram | None = None) -> Iterator[Bench]:
        """Return a run that ends with the context."""
        bench = Bench(self, program or Counting())
        try:
            yield bench
        except BaseException:
            # Threads that stand still must not hide why.
            with suppress(WaitTimeout):
                bench.listener.close(0)
            raise
        bench.run.settle()
        try:
            bench.listener.close(self.deadline.left)
        except WaitTimeout:
            found = self.deadline.missed("the server's threads to end")
            raise found from None


class Bench:
    """A run of a strategy in this process, with a worker for each partition in a thread."""

    def __init__(self, trial: Trial, program: NumpyProgram) -> None:
        self.strategy, self.program, self.deadline = trial.strategy, program, trial.deadline
        self.events: list[Event] = []
        self.told = threading.Condition()
        layout = program.spec.layout
        settings = Settings(trial.settings, 1, self.strategy.default_sync)
        self._lockstep = trial.settings.lockstep
        parameters = initial(layout)
        program.gradients = "gradients" in self.strategy.needs
        self._secret = new_secret()
        beside = SideThreads(lambda: connect_inproc(self.listener), self._secret)
        setup = TrainerSetup(
            layout, parameters, settings, updater=lambda: program, beside=lambda: beside
        )
        trainer = self.strategy.trainer(setup)
        # The caller's own, which a strategy must have copied.
        parameters[:] = 0
        self.run = Coordinator(
            RUN,
            trainer,
            settings,
            publish=self._publish,
            locate=lambda task: ("check", "here"),
            on_failure=lambda: None,
        )
        self._served: list[BaseException] = []
        self.listener = InprocListener(
            lambda peer: _Handler(lambda: self.run, beside.services, self._served)
        )
        self.listener.start()
        self._tasks = 0
        self._training: Future[None] = Future()

    def _publish(self, event: Event) -> None:
        with self.told:
            self.events.append(event)
            self.told.notify_all()

    def begin(
        self, columns: Sequence[Array], partitions: int, epochs: range, layout: Any = None
    ) -> None:
        """Lay the rows out for some epochs."""
        source = ArraySource(columns, partitions)
        self.partitions, self.columns = partitions, len(columns)
        self.run.begin_span(source, epochs[0], epochs[-1], layout)

    def work(self, lose: int | None = None) -> None:
        """Train all partitions to the end; the first connection breaks at a push, if told so.

        Raises
        ------
        AssertionError
            A worker, the server or the run failed; what they raised is the cause.
        WaitTimeout
            Workers stand still.
        """
        loses = {0: lose}
        workers = [
            in_thread(f"check-worker-{p}", partial(self._work, p, loses.get(p)))
            for p in range(self.partitions)
        ]
        wait(workers, self.deadline.left, FIRST_EXCEPTION)
        if any(worker.done() and worker.exception() for worker in workers):
            # The first error need not be the one that explains the others.
            wait(workers, min(self.deadline.left, GRACE))
        found = self._cause(workers)
        if found is None and not all(worker.done() for worker in workers):
            found = self.deadline.missed("workers to end")
        if found is not None:
            raise found

    def _cause(self, workers: Iterable[Future[None]]) -> Exception | None:
        """Return what explains best why training failed; None if it did not."""
        # Workers are only told the class of what the server raised.
        found = [("the server raised", error) for error in self._served]
        if self.run.error is not None:
            found.append(("the run failed with", self.run.error))
        for partition, worker in enumerate(workers):
            error = worker.exception() if worker.done() else None
            if error is not None:
                found.append((f"the worker of partition {partition} raised", error))
        if not found:
            return None
        # What this package raises follows from something else, and `WorkerError` quotes it.
        return fault(
            *min(found, key=lambda f: isinstance(f[1], TosError) + isinstance(f[1], WorkerError))
        )

    def start(self) -> Callable[[], None]:
        """Train all partitions meanwhile; return what waits for that, and raises its error."""
        self._training = in_thread("check-workers", self.work)

        def ended(training: Future[None]) -> None:
            with self.told:
                self.told.notify_all()

        self._training.add_done_callback(ended)
        return self._end

    def _end(self) -> None:
        wait([self._training], self.deadline.left + GRACE)
        if not self._training.done():
            found = self.deadline.missed("workers to end")
            raise found
        self._training.result()

    def _work(self, partition: int, lose: int | None) -> None:
        try:
            self._attempt(partition, lose)
        except TransportError as error:
            if lose is None or isinstance(error, ConnectTimeout):
                raise
            self._attempt(partition, None)

    def _attempt(self, partition: int, lose: int | None) -> None:
        self._tasks += 1
        connection: Any = connect_inproc(self.listener, request_timeout=self.deadline.timeout)
        if lose is not None:
            connection = _Breaking(connection, lose)
        join = Join(RUN, partition, self._tasks, self._tasks, "here", 1, segment="", metrics=[])
        plan = Plan(RUN, 0, False, 1, self.columns, sampler=self.strategy.sampling)
        layout = self.program.spec.layout
        try:
            with closing(
                self.strategy.exchange(connection, layout, WorkerContext(join, self._secret))
            ) as exchange:
                Worker(connection, exchange, self.program, plan, join).run([])
        finally:
            connection.close()

    def wait(self, kind: type[Event], **fields: Any) -> None:
        """Wait for an event, while workers train.

        Raises
        ------
        AssertionError
            They have ended, or failed: see `work`.
        WaitTimeout
            It did not come.
        """

        def came() -> bool:
            return any(
                isinstance(event, kind)
                and all(getattr(event, name) == value for name, value in fields.items())
                for event in self.events
            )

        with self.told:
            self.told.wait_for(lambda: came() or self._training.done(), self.deadline.left)
            if came():
                return
        if not self._training.done():
            found = self.deadline.missed(kind.__name__)
            raise found
        self._training.result()
        require(False, f"{kind.__name__} while workers train", "none before they ended")

    def values(self) -> dict[str, float]:
        """Return by how much the scalars that are trained have changed."""
        layout = self.program.spec.layout
        tensors = layout.tensors(self.run.parameters.read()[0])
        return {name: float(value) - START for name, value in tensors.items()}

    def rows_told(self) -> int:
        """Return how many rows milestones tell of so far."""
        return sum(milestone.samples for milestone in self._milestones())

    def counted(self) -> int:
        """Return what `Counting` has counted by these milestones: rows, or steps of all workers."""
        if not self._lockstep:
            return self.rows_told()
        return sum(milestone.optimizer_steps for milestone in self._milestones())

    def _milestones(self) -> list[MilestoneCommitted]:
        return [event for event in self.events if isinstance(event, MilestoneCommitted)]

    def in_an_epoch(self, rows: Array) -> dict[str, float]:
        """Return what `Counting` makes of an epoch of rows: their sum, or the mean of each step."""
        if not self._lockstep:
            return {"total": float(rows.sum()), "rows": float(len(rows))}
        source = ArraySource((rows,), self.partitions)
        parts = [source.rows(partition)[0] for partition in range(self.partitions)]
        steps = range(max(map(len, parts)))
        means = [np.mean([part[step] for part in parts if step < len(part)]) for step in steps]
        return {"total": float(sum(means)), "rows": float(len(means))}


class _Handler(WorkerHandler):
    """Remembers what the strategy raises at the server, of which a worker is told the class."""

    def __init__(
        self,
        serving: Callable[[], Coordinator],
        services: Services,
        raised: list[BaseException],
    ) -> None:
        super().__init__(serving, services)
        self._raised = raised

    def receive_into(self, *request: Any) -> Any:
        with self._remembering():
            return super().receive_into(*request)

    def handle(self, *request: Any) -> Any:
        with self._remembering():
            return super().handle(*request)

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not isinstance(error, TosError):
                self._raised.append(error)
            raise


class _Breaking:
    """A connection that breaks at a push, after it got through."""

    def __init__(self, connection: Any, number: int) -> None:
        self._connection, self._left = connection, number

    def request(self, message: Any, *rest: Any, **named: Any) -> Any:
        answer = self._connection.request(message, *rest, **named)
        if isinstance(message, Push):
            self._left -= 1
            if self._left < 0:
                self._connection.abort()
                raise ConnectionClosed("The check has cut the connection.")
        return answer

    def close(self) -> None:
        self._connection.close()

    abort = close


def initial(layout: Layout) -> Buffer:
    """Return parameters that are all `START`."""
    buffer = layout.allocate()
    for tensor in layout.tensors(buffer).values():
        tensor[...] = START
    return buffer


def require(holds: bool, expected: str, found: object) -> None:
    """Fail a check that does not hold.

    Raises
    ------
    AssertionError
        It does not.
    """
    if not holds:
        raise AssertionError(f"expected {expected}, got {found}")
