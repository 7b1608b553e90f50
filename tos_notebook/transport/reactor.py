"""One thread that answers the small requests of all connections, in the order in which they come.

A thread for each connection costs a small exchange more than the exchange itself: threads wake
each other up, and wait for the interpreter's lock. So the thread of a connection may leave it
here, and waits until something comes that is not whole, or may take long.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from .base import Watched
from .poller import new_poller

log = logging.getLogger(__name__)

THREAD_NAME = "tos-server-reactor"


@dataclass(slots=True, eq=False)
class _Visit:
    """A connection whose own thread waits."""

    channel: Watched
    serve: Callable[[], bool]
    over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None


class Reactor:
    """Serves connections as long as what they ask for is small; begins with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._loop: _Loop | None = None

    def attend(self, channel: Watched, serve: Callable[[], bool]) -> None:
        """Serve a connection here; return once the calling thread has to.

        The caller leaves the channel alone meanwhile. `serve` serves what has come if that is
        small, and returns whether to continue here. What it raises, the caller gets.
        """
        visit = _Visit(channel, serve)
        with self._lock:
            if self._closed:
                return
            if self._loop is None:
                self._loop = _Loop()
                self._loop.start()
            if not self._loop.enter(visit):
                return
        # A channel that is shut down wakes the reactor, which finds nothing whole there.
        visit.over.wait()
        if visit.error is not None:
            raise visit.error

    def close(self) -> list[threading.Thread]:
        """Leave all connections to their own threads, and end; return the threads that end."""
        with self._lock:
            self._closed = True
            if self._loop is None:
                return []
            self._loop.poller.wake()
            return [self._loop]


class _Loop(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name=THREAD_NAME, daemon=True)
        self.poller = new_poller()
        self._visits: set[_Visit] = set()
        self._lock = threading.Lock()
        self._over = False

    def enter(self, visit: _Visit) -> bool:
        """Serve one more from now on; return False if it has ended."""
        with self._lock:
            if not self._over:
                # Before it is watched: it may be over as soon as it is.
                self._visits.add(visit)
                try:
                    self.poller.register(visit.channel, visit)
                except BaseException:
                    self._visits.discard(visit)
                    raise
            return not self._over

    def run(self) -> None:
        with closing(self.poller):
            try:
                while all(self._turn(visit) for visit in self.poller.wait()):
                    pass
            except Exception:
                log.exception("The server's reactor has ended; connections serve themselves")
            finally:
                # Whatever has ended it: no thread waits for it any more.
                with self._lock:
                    self._over = True
                    for visit in list(self._visits):
                        self._leave(visit)

    def _turn(self, visit: _Visit | None) -> bool:
        """Serve one that has something; return False for what ends it all."""
        if visit is None:
            return False
        try:
            if visit.serve():
                return True
        except Exception as error:
            visit.error = error
        self._leave(visit)
        return True

    def _leave(self, visit: _Visit) -> None:
        self._visits.discard(visit)
        try:
            self.poller.unregister(visit.channel)
        finally:
            visit.over.set()
