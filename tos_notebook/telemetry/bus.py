"""The event bus: from whoever sees something happen to whoever wants to know."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType

from ..errors import SessionClosed, WaitTimeout
from ..events import Event

logger = logging.getLogger(__name__)

Sink = Callable[[Event], object]
"""A consumer of events. If it has a method ``close()``, the bus calls it at the end."""

THREAD_NAME = "tos-telemetry"

LINGER = 0.05
"""Seconds the thread lets events gather once its queue is empty: waking it up costs more than
delivering an event."""


@dataclass(frozen=True, slots=True)
class DisabledSink:
    """A sink that raised and gets no more events, and what it raised."""

    sink: Sink
    error: Exception


class EventBus:
    """Deliver events to sinks, in order, on one thread of its own.

    Sinks are called and closed by that thread only, so a sink needs no lock for its own state.
    A sink that raises is disabled, logged once and listed in `disabled`; the others go on.

    Parameters
    ----------
    sinks : iterable of callable
        Each takes one event.
    """

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self.disabled: list[DisabledSink] = []
        self._sinks = tuple(sinks)
        self._active = list(self._sinks)
        self._queue: SimpleQueue[Event | threading.Event | None] = SimpleQueue()
        self._hurry = threading.Event()
        self._closed = False
        # Orders publishing against closing: nothing can be queued behind the end.
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks, in the order in which they hear."""
        return self._sinks

    @property
    def delivers(self) -> bool:
        """Whether it is one of the sinks that asks."""
        return threading.current_thread() is self._thread

    def add(self, sink: Sink) -> None:
        """Deliver to one more sink, from the next event on."""
        self._sinks += (sink,)
        self._active.append(sink)

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
        """Wait until every event published so far has been delivered. Not to be called by a sink.

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

        Parameters
        ----------
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        WaitTimeout
            A sink is still busy after `timeout`; closing goes on, and may be called again.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
                self._hurry.set()
        self._join(timeout)

    def __enter__(self) -> EventBus:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            self._close_sink(sink)

    def _deliver(self, event: Event) -> None:
        for sink in tuple(self._active):
            try:
                sink(event)
            except Exception as error:
                self._disable(sink, error)

    def _close_sink(self, sink: Sink) -> None:
        close = getattr(sink, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception as error:
            self._disable(sink, error)

    def _disable(self, sink: Sink, error: Exception) -> None:
        if sink not in self._active:
            return
        self._active.remove(sink)
        self.disabled.append(DisabledSink(sink, error))
        logger.warning("Telemetry sink %r raised and was disabled.", sink, exc_info=error)
