"""Signals that end a script: the first one stops what trains, and the script continues."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
"""A terminal that is gone, Ctrl-C, and what schedulers send."""

END = 30.0
"""Seconds to wait for what stops, when the script ends."""


class Interrupts:
    """While the context is open, handles the signals of `ENDING` for the main thread.

    The first signal goes to `stop`, on a thread of its own, if something trains. All others raise
    `KeyboardInterrupt` in the main thread. A signal that was ignored before, as ``nohup`` does it,
    stays so.

    Parameters
    ----------
    trains : callable
        Whether there is something to stop; called by the handler, so it must not take a lock.
    stop : callable
        Takes the signal, and stops what trains.

    Attributes
    ----------
    received : signal.Signals or None
        The first one.
    """

    def __init__(
        self, trains: Callable[[], bool], stop: Callable[[signal.Signals], object]
    ) -> None:
        self.received: signal.Signals | None = None
        self._trains, self._stop = trains, stop
        # A handler may put into such a queue, whatever it has interrupted.
        self._orders: queue.SimpleQueue[signal.Signals | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._obey, name="tos-signals", daemon=True)
        self._before: dict[signal.Signals, Any] = {}

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, as `signal.signal` calls it."""
        first, self.received = self.received is None, self.received or signal.Signals(number)
        if first and self._trains():
            self._orders.put(self.received)
        else:
            raise KeyboardInterrupt

    def _obey(self) -> None:
        while (order := self._orders.get()) is not None:
            self._stop(order)

    def __enter__(self) -> Interrupts:
        global _active
        self._thread.start()
        # Only Python's main thread can have handlers.
        if threading.current_thread() is threading.main_thread():
            for each in ENDING:
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self.handle)
        _active = self
        return self

    def __exit__(self, *raised: object) -> None:
        global _active
        _active = None
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._orders.put(None)
        self._thread.join(END)


_active: Interrupts | None = None


def interrupt_handler() -> Callable[[int, FrameType | None], object]:
    """Return what handles Ctrl-C: that of a script, or else Python's own."""
    return signal.default_int_handler if _active is None else _active.handle


def refuse_more() -> None:
    """Let nothing begin in a script that a signal has told to end.

    Raises
    ------
    KeyboardInterrupt
        It was told so.
    """
    if _active is not None and _active.received is not None:
        raise KeyboardInterrupt


class HeldBack:
    """A context in which Ctrl-C waits: the main thread gets it at the end, and no other ever does.

    For steps of which all must happen, or none.
    """

    __slots__ = ("_before", "_came", "_holds")

    def __enter__(self) -> None:
        self._came, self._holds = False, False
        if threading.get_ident() == threading.main_thread().ident:
            before: Any = signal.getsignal(signal.SIGINT)
            # What Python has not set, it could not set again.
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)
                self._holds = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True

    def __exit__(self, *error: object) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, self._before)
            if self._came:
                self._before(signal.SIGINT, None)


_spares = False
"""Whether a child that is made now ignores the signals of `ENDING`."""


@contextmanager
def sparing_children() -> Iterator[None]:
    """Let processes that start inside ignore the signals that end a script, which ends them itself.

    A scheduler signals all processes of a job at once. Those that are started with a
    ``preexec_fn``, as Spark's JVM is, ignore that signal, while this process stops what trains and
    has them write what is to be kept. Without a script nothing changes.
    """
    global _spares
    _spares = _active is not None
    try:
        yield
    finally:
        _spares = False


def _in_child() -> None:
    if _spares:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_child)
