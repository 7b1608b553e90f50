"""Threads: those that make calls, so that the caller need not wait; how to wait for several."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from time import monotonic
from typing import TypeVar

from ..errors import WaitTimeout

logger = logging.getLogger(__name__)

Call = Callable[[], object]

Result = TypeVar("Result")


class SerialExecutor:
    """A thread that makes calls, one after the other; what one raises is logged.

    It is full when `bound` calls wait.
    """

    def __init__(self, name: str, bound: int) -> None:
        self.bound = bound
        self._name = name
        self._calls: deque[Call] = deque()
        self._busy = self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is this thread."""
        return threading.current_thread() is self._thread

    @property
    def full(self) -> bool:
        """Whether `bound` calls wait: leave out what can be left out."""
        return len(self._calls) >= self.bound

    def put(self, call: Call) -> None:
        """Queue a call behind those that wait."""
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()

    def clear(self) -> int:
        """Forget the calls that wait; return how many."""
        with self._changed:
            forgotten = len(self._calls)
            self._calls.clear()
            return forgotten

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
        self.leave()
        if not self.ended(timeout):
            raise WaitTimeout(f"{self._name} is still busy {timeout:g} s after the run's end.")

    def leave(self) -> None:
        """Tell the thread to end after the calls that wait, and return at once."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()

    def ended(self, timeout: float) -> bool:
        """Wait until the thread has ended; return whether that came within `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

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


def in_thread(name: str, call: Callable[[], Result]) -> Future[Result]:
    """Make a call on a thread of its own, which does not keep the process alive.

    From Python 3.12 on, a process that ends starts no more threads. What is called then, such as by
    `atexit`, is made at once.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as error:
        if "interpreter shutdown" not in str(error):
            raise
        run()
    return outcome


def join_all(threads: Iterable[threading.Thread], timeout: float) -> None:
    """Wait for threads, other than the calling one, for `timeout` seconds in all.

    Raises
    ------
    WaitTimeout
        Some are still alive; they are named.
    """
    others = [thread for thread in threads if thread is not threading.current_thread()]
    deadline = monotonic() + timeout
    for thread in others:
        thread.join(max(0.0, deadline - monotonic()))
    alive = sorted(thread.name for thread in others if thread.is_alive())
    if alive:
        raise WaitTimeout(
            f"Expected every thread to end within {timeout} s, but {', '.join(alive)} did not. "
            "Wake what a handler waits for before closing, then close again."
        )
