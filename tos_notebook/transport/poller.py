"""What one thread waits on to serve many connections."""

from __future__ import annotations

import selectors
import socket
from typing import Any, Protocol

from ..common import native
from .base import Watched
from .fast_path import Peer


class Poller(Protocol):
    """Says which connections have something for Python to look at."""

    def register(self, channel: Watched, key: object) -> None:
        """Watch one more; from any thread.

        Parameters
        ----------
        channel : Watched
        key : object
            What `wait` returns for it.
        """

    def unregister(self, channel: Watched) -> None:
        """Watch one less; by the thread that waits.

        Parameters
        ----------
        channel : Watched
        """

    def wait(self) -> list[Any]:
        """Wait until there is something.

        Returns
        -------
        list
            The keys of those that have something, and None if `wake` was called.
        """

    def wake(self) -> None:
        """End the wait; from any thread."""

    def close(self) -> None:
        """Give back what it holds, after the last wait."""


class SelectorPoller:
    """Leaves all that comes to Python."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._waker, self._wakened = socket.socketpair()
        self._selector.register(self._wakened, selectors.EVENT_READ)

    def register(self, channel: Watched, key: object) -> None:
        """See `Poller.register`."""
        self._selector.register(channel, selectors.EVENT_READ, key)

    def unregister(self, channel: Watched) -> None:
        """See `Poller.unregister`."""
        self._selector.unregister(channel)

    def wait(self) -> list[Any]:
        """See `Poller.wait`."""
        return [key.data for key, _ in self._selector.select()]

    def wake(self) -> None:
        """See `Poller.wake`."""
        self._waker.close()

    def close(self) -> None:
        """See `Poller.close`."""
        self._selector.close()
        self._waker.close()
        self._wakened.close()


class FastPoller:
    """Serves pushes on the fast path while it waits."""

    def __init__(self) -> None:
        assert native.extension is not None
        self._new_peer = native.extension.Peer
        self._poller = native.extension.Poller()
        self._peers: dict[Watched, Peer] = {}
        self.wait, self.wake, self.close = (
            self._poller.wait,
            self._poller.wake,
            self._poller.close,
        )

    def register(self, channel: Watched, key: object) -> None:
        """See `Poller.register`."""
        peer = channel.fast
        if peer is None:
            peer = self._new_peer(channel.fileno(), bytearray())
        peer.key = key
        # Before it is watched: it may be unregistered as soon as it is.
        self._peers[channel] = peer
        try:
            self._poller.register(peer)
        except BaseException:
            del self._peers[channel]
            raise

    def unregister(self, channel: Watched) -> None:
        """See `Poller.unregister`."""
        peer = self._peers.pop(channel)
        peer.key = None
        self._poller.unregister(peer)


def new_poller() -> Poller:
    """Return a poller of the best kind that there is."""
    return FastPoller() if hasattr(native.extension, "Poller") else SelectorPoller()
