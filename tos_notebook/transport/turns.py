"""Serve many connections by as many threads, only one of which waits for requests.

The watching thread answers what is quick itself: a switch of threads costs Python several times
what merging a small update does, and it stalls whoever holds the interpreter. Whatever may take
longer it takes along, and lets another thread watch (Leader/Followers: Schmidt, Stal, Rohnert and
Buschmann, Pattern-Oriented Software Architecture 2, 2000).
"""

from __future__ import annotations

import select
import threading
from typing import Generic, Protocol, TypeVar

from ..errors import TosError
from ..wire.frames import Header
from ..wire.messages import KINDS, Push
from .base import Channel, Handler
from .server import step


class Watchable(Channel, Protocol):
    """A channel that the operating system can watch."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...

    def ready(self) -> Header | None:
        """Take in what has come, without waiting.

        Returns
        -------
        Header or None
            Of the next frame, if all of it is there.
        """
        ...


AnyWatchable = TypeVar("AnyWatchable", bound=Watchable)


class Turns(Generic[AnyWatchable]):
    """The connections of a listener that wait for a request."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._idle: dict[int, tuple[AnyWatchable, Handler]] = {}
        # Held by the thread that watches; the others queue for it.
        self._watch = threading.Lock()

    def serve(self, channel: AnyWatchable, handler: Handler) -> AnyWatchable:
        """Take part with one more connection, until one of them has ended.

        Parameters
        ----------
        channel : Watchable
            The new connection's.
        handler : Handler
            Its handler.

        Returns
        -------
        Watchable
            The channel that has ended, for the caller to close: any of those that take part. Each
            connection brings a thread and takes one away.
        """
        while True:
            while not handler.is_quick(Push):
                # It would be taken along each time: it has this thread for itself.
                if not step(channel, handler):
                    return channel
            self._register(channel, handler)
            channel, handler, ended = self._next()
            if ended or not step(channel, handler):
                return channel

    def close(self) -> None:
        """Give back the descriptor, once nobody serves."""
        self._epoll.close()

    def _register(self, channel: AnyWatchable, handler: Handler) -> None:
        descriptor = channel.fileno()
        self._idle[descriptor] = channel, handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def _next(self) -> tuple[AnyWatchable, Handler, bool]:
        """Answer quick requests until there is another one, or until a connection has ended."""
        with self._watch:
            while True:
                for descriptor, _ in self._epoll.poll():
                    channel, handler = self._idle[descriptor]
                    quick = _is_quick(channel, handler)
                    if quick and step(channel, handler):
                        continue
                    self._epoll.unregister(descriptor)
                    del self._idle[descriptor]
                    return channel, handler, quick


def _is_quick(channel: Watchable, handler: Handler) -> bool:
    try:
        header = channel.ready()
    except TosError:
        # Whoever takes the connection along meets it again, and can wait and refuse.
        return False
    return header is not None and handler.is_quick(KINDS[header.kind])
