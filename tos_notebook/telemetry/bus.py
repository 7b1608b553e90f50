"""The event bus: it hands each event to the sinks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from time import monotonic

from ..common.threads import SerialExecutor
from ..errors import SessionClosed, WaitTimeout
from ..events import Event

logger = logging.getLogger(__name__)

Sink = Callable[[Event], object]
"""A consumer of events. If it has a method ``close()``, the bus calls it at the end."""

THREAD_NAME = "tos-telemetry"

SINK_NAME = "tos-sink"
"""Of the thread of a sink that has one."""

BOUND = 50_000
"""Events that may wait for a sink that has a thread of its own."""

LINGER = 0.05
"""Seconds the thread lets events gather once its queue is empty: waking it up costs more than
delivering an event."""


@dataclass(frozen=True, slots=True)
class DisabledSink:
    """A sink that gets no more events, and what it raised, or that it was too far behind."""

    sink: Sink
    error: Exception

    def __str__(self) -> str:
        return f"Sink {self.sink!r} gets no more events: {type(self.error).__name__}: {self.error}"


class _Apart:
    """A sink with a thread and a bounded queue of its own: what it does delays no other.

    What it gets is every event up to some moment: all of them, or none after it raised or was
    too far behind. So what it counts is never a part with gaps.
    """

    def __init__(self, sink: Sink, bound: int, disable: Callable[[Sink, Exception], None]) -> None:
        self.sink = sink
        self._disable = disable
        self._behind = self._failed = False
        self.executor = SerialExecutor(SINK_NAME, bound)

    def __call__(self, event: Event) -> None:
        if self._behind or self._failed:
            return
        if not self.executor.full:
            self.executor.put(partial(self._deliver, event))
            return
        self._behind = True
        why = f"{self.executor.bound} events wait for it, so it is too slow or stuck."
        self._disable(self.sink, WaitTimeout(why))

    def close(self) -> None:
        """Have the sink closed after the events that wait."""
        self.executor.put(partial(_close, self.sink, self._disable))
        self.executor.leave()

    def _deliver(self, event: Event) -> None:
        if self._failed:
            return
        try:
            self.sink(event)
        except Exception as error:
            self._failed = True
            self._disable(self.sink, error)


class EventBus:
    """Deliver events to sinks, in order, on threads of its own.

    Sinks that return at once share one thread. Others are `apart`: each has its own thread, and a
    queue of `BOUND` events. A sink is called and closed by its thread only, so it needs no lock
    for its own state. A sink that raises, or whose queue is full, gets no more events; that is
    logged once and listed in `disabled`. The others continue.

    Parameters
    ----------
    sinks : iterable of callable
        Each takes one event, and returns at once.
    apart : iterable of callable
        Each takes one event, and may take its time.
    bound : int
        Events that may wait for each of the latter.
    """

    def __init__(
        self, sinks: Iterable[Sink], apart: Iterable[Sink] = (), bound: int = BOUND
    ) -> None:
        self.disabled: list[DisabledSink] = []
        self._bound = bound
        self._sinks: tuple[Sink, ...] = tuple(sinks)
        self._active = list(self._sinks)
        self._queue: SimpleQueue[Event | threading.Event | None] = SimpleQueue()
        self._hurry = threading.Event()
        self._closed = False
        # Orders publishing against closing: nothing can be queued behind the end.
        self._lock = threading.Lock()
        for sink in apart:
            self.add(sink, apart=True)
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks, in the order in which they hear."""
        return tuple(sink.sink if isinstance(sink, _Apart) else sink for sink in self._sinks)

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is one of the sinks."""
        own = threading.current_thread() is self._thread
        return own or any(apart.executor.is_current_thread for apart in self._apart())

    def add(self, sink: Sink, apart: bool = False) -> None:
        """Deliver to one more sink, from the next event on; `apart` if it may take its time."""
        with self._lock:
            if self._closed:
                return
            added = _Apart(sink, self._bound, self._tell) if apart else sink
            self._sinks += (added,)
            self._active.append(added)

    def publish(self, event: Event) -> None:
        """Queue an event and return at once.

        Raises
        ------
        SessionClosed
            The bus is closed: the event would be lost.
        """
        with self._lock:
            if self._closed:
                raise SessionClosed(
                    f"Expected an open event bus, got {type(event).__name__} after close(). "
                    "Publish before closing the bus."
                )
            self._queue.put(event)

    def flush(self, timeout: float) -> None:
        """Wait until every event so far has been delivered to the sinks that are not apart.

        Not to be called by a sink.

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        WaitTimeout
            A sink is still busy after `timeout`.
        """
        delivered = threading.Event()
        with self._lock:
            if not self._closed:
                self._queue.put(delivered)
                self._hurry.set()
        if self._closed:
            self._join(timeout)
        elif not delivered.wait(timeout):
            raise self._late(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Deliver what is queued, close the sinks and end the thread. Idempotent.

        After a `WaitTimeout`, as `flush` raises it, closing continues, and may be called again.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
                self._hurry.set()
        end = monotonic() + timeout
        self._join(timeout)
        late = [a.sink for a in self._apart() if not a.executor.ended(max(0, end - monotonic()))]
        if late:
            raise WaitTimeout(
                f"Expected the sinks to take all events within {timeout} s; still busy: "
                f"{', '.join(map(repr, late))}. Wait longer, or leave them out."
            )

    def __enter__(self) -> EventBus:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _join(self, timeout: float) -> None:
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise self._late(timeout)

    def _late(self, timeout: float) -> WaitTimeout:
        return WaitTimeout(
            f"Expected the sinks to take all events within {timeout} s; about "
            f"{self._queue.qsize()} are still queued. A sink is slow or stuck; wait longer "
            "or leave it out."
        )

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                self._hurry.clear()
                item.set()
            else:
                self._deliver(item)
            if self._queue.empty():
                self._hurry.wait(LINGER)
        for sink in self._sinks:
            _close(sink, self._disable)

    def _deliver(self, event: Event) -> None:
        for sink in tuple(self._active):
            try:
                sink(event)
            except Exception as error:
                self._disable(sink, error)

    def _disable(self, sink: Sink, error: Exception) -> None:
        if sink in self._active:
            self._active.remove(sink)
            self._tell(sink, error)

    def _tell(self, sink: Sink, error: Exception) -> None:
        with self._lock:
            if any(told.sink is sink for told in self.disabled):
                return
            self.disabled.append(DisabledSink(sink, error))
        logger.warning("Sink %r gets no more events.", sink, exc_info=error)

    def _apart(self) -> list[_Apart]:
        return [sink for sink in self._sinks if isinstance(sink, _Apart)]


def _close(sink: Sink, failed: Callable[[Sink, Exception], None]) -> None:
    close = getattr(sink, "close", None)
    if close is None:
        return
    try:
        close()
    except Exception as error:
        failed(sink, error)
