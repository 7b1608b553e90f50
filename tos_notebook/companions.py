"""What works on the driver beside a run's training: threads of its own that follow the events."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .errors import TosError, WaitTimeout
from .events import Event

if TYPE_CHECKING:
    from .program.base import Program
    from .ps.store import Store
    from .run import Run

logger = logging.getLogger(__name__)

Call = Callable[[], object]


class HeldModel:
    """The user's model or session, which holds one set of parameters at a time.

    Parameters
    ----------
    program : Program
    store : Store
        Has the center.
    """

    def __init__(self, program: Program, store: Store) -> None:
        self.program = program
        self._store = store
        # Reentrant: a callback may evaluate.
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[Program]:
        """Let nobody else write to the model inside."""
        with self._lock:
            yield self.program

    @contextmanager
    def present(self) -> Iterator[Program]:
        """Hold the model, with a copy of the center in it."""
        with self._lock:
            self.program.write(self._store.read()[0])
            yield self.program

    def keep(self, timeout: float) -> None:
        """Write the final center.

        Parameters
        ----------
        timeout : float
            Seconds to wait for whoever holds the model.

        Raises
        ------
        WaitTimeout
            It is still held.
        """
        if not self._lock.acquire(timeout=timeout):
            raise WaitTimeout(
                f"The model was still being evaluated, or used by a callback, {timeout:g} s after "
                "the run's end, so it does not hold the trained weights. run.parameters() returns "
                "them."
            )
        try:
            # Nobody pushes any more, so the center needs no copy.
            self.program.write(self._store.center)
        finally:
            self._lock.release()

    @contextmanager
    def adopting(self) -> Iterator[None]:
        """Hold the model; what is changed in it inside becomes the center.

        For when nobody pushes any more: a callback may put the best parameters back.
        """
        with self._lock:
            before = self.program.read()
            yield
            after = self.program.read()
            if not np.array_equal(before, after):
                self._store.load(after)


@dataclass(frozen=True, slots=True)
class Handle:
    """What a companion has of its run.

    Parameters
    ----------
    run : Run
    model : HeldModel
    store : Store
    publish : callable
        Takes an event.
    fail : callable
        Ends the run with an error.
    epochs : range
        Those that are to be trained.
    samples : int
        How many were trained before a resume.
    """

    run: Run
    model: HeldModel
    store: Store
    publish: Callable[[Event], None]
    fail: Callable[[TosError], None]
    epochs: range
    samples: int


class Companion(ABC):
    """A sink with a thread, for which the run waits at its end."""

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """Take one event, and return at once."""

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what has to be done before the first Spark job; the run waits for it."""

    @abstractmethod
    def finish(self, last: bool) -> None:
        """End the thread; the run has ended, and the model holds its parameters.

        Parameters
        ----------
        last : bool
            Whether the run was trained to its end.

        Raises
        ------
        WaitTimeout
            It is still busy.
        """

    @property
    def delivers(self) -> bool:
        """Whether it is the caller: the run cannot wait for its own end there."""
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """What has gone wrong, for `Run.status`."""
        return ()


Maker = Callable[[Handle], Companion]
"""Makes a run's companion, when the run is about to begin."""


class Courier:
    """A thread that makes calls, one after the other; what one raises is logged.

    Parameters
    ----------
    name : str
        Of the thread.
    bound : int
        How many calls may wait before it is full.
    """

    def __init__(self, name: str, bound: int) -> None:
        self._name = name
        self._bound = bound
        self._calls: deque[Call] = deque()
        self._busy = self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_caller(self) -> bool:
        """Whether it is this thread that asks."""
        return threading.current_thread() is self._thread

    @property
    def full(self) -> bool:
        """Whether so many wait that whoever can do without should."""
        return len(self._calls) >= self._bound

    def put(self, call: Call) -> None:
        """Have a call made after those that wait."""
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget the calls that wait."""
        with self._changed:
            self._calls.clear()

    def settle(self, timeout: float) -> bool:
        """Wait until no call is left; return whether that came within `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._calls or self._busy), timeout)

    def end(self, timeout: float) -> None:
        """End the thread after the calls that wait.

        Raises
        ------
        WaitTimeout
            It still makes them after `timeout` seconds.
        """
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise WaitTimeout(f"{self._name} is still busy {timeout:g} s after the run's end.")

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                logger.exception("%s: a call failed, the next ones are made.", self._name)

    def _next(self) -> Call | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._calls or self._ending)
            if not self._calls:
                return None
            self._busy = True
            return self._calls.popleft()
