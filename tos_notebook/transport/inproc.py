"""The transport within one process: for tests, and for runs without executors.

Messages pass through the codec as they do over TCP; payloads are copied once.
"""

from __future__ import annotations

from itertools import count
from queue import Empty, SimpleQueue
from threading import Event

from ..errors import ConnectionClosed, ConnectTimeout, TransportError
from ..wire.frames import HEADER_SIZE, Header, decode_header
from .base import Address, HandlerFactory
from .client import MAX_PAYLOAD, ChannelConnection
from .server import RequestServer

_Frame = tuple[bytes, memoryview | None]


class InprocChannel:
    """One end of a pair of queues, in which None ends the frames; see `base.Channel`.

    Both ends share `ended`, which is set once either has shut the stream down. A frame may take
    `timeout` seconds to come, or as long as it takes.
    """

    def __init__(
        self,
        peer: str,
        inbox: SimpleQueue[_Frame | None],
        outbox: SimpleQueue[_Frame | None],
        ended: Event,
        timeout: float | None,
    ) -> None:
        self.peer, self.host = peer, "127.0.0.1"
        self._inbox = inbox
        self._outbox = outbox
        self._ended = ended
        self._timeout = timeout
        self._payload: memoryview | None = None

    def send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame; its payload is read when the other end asks for it."""
        self._check()
        self._outbox.put((head, payload))

    def receive_head(self) -> tuple[Header, bytes]:
        """Wait for a frame; return its header and body."""
        try:
            frame = self._inbox.get(timeout=self._timeout)
        except Empty:
            raise ConnectTimeout(
                f"Expected an answer from {self.peer} within {self._timeout} s, got none. "
                "See the server's log for what it waits for."
            ) from None
        if frame is None:
            self._inbox.put(None)
            raise self._gone()
        head, self._payload = frame
        return decode_header(head), head[HEADER_SIZE:]

    def receive_payload(self, target: memoryview) -> None:
        """Copy the payload of the last head into `target`."""
        payload, self._payload = self._payload, None
        if payload is not None:
            target[:] = payload
        # A sender that has given up may have changed its buffer while it was copied.
        self._check()

    def discard(self, nbytes: int) -> None:
        """Forget the last head's payload."""
        self._payload = None

    def shutdown(self) -> None:
        """End the stream for both ends."""
        self._ended.set()
        self._inbox.put(None)
        self._outbox.put(None)

    def close(self) -> None:
        """Forget a payload that was not asked for."""
        self._payload = None

    def _check(self) -> None:
        if self._ended.is_set():
            raise self._gone()

    def _gone(self) -> ConnectionClosed:
        return ConnectionClosed(f"The connection to {self.peer} is closed.")


class InprocListener:
    """Serves connections from this process; see `base.Listener`."""

    def __init__(self, factory: HandlerFactory) -> None:
        self.address = Address("inproc", 0)
        self._server = RequestServer(factory)
        self._numbers = count(1)
        self._listening = False

    def start(self) -> None:
        """Begin to accept connections."""
        self._listening = True

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more and abort the connections; see `base.Listener.close`."""
        self._listening = False
        self._server.close(timeout)

    def accept(self, timeout: float) -> InprocChannel:
        """Serve a new connection and return the client's end of it."""
        if not self._listening:
            raise TransportError("No server listens: start the listener first, or make a new one.")
        up: SimpleQueue[_Frame | None] = SimpleQueue()
        down: SimpleQueue[_Frame | None] = SimpleQueue()
        ended = Event()
        name = f"inproc-{next(self._numbers)}"
        self._server.spawn(InprocChannel(name, up, down, ended, None))
        return InprocChannel("the server", down, up, ended, timeout)


def connect_inproc(
    listener: InprocListener, request_timeout: float = 60.0, max_payload: int = MAX_PAYLOAD
) -> ChannelConnection:
    """Connect to a listener of this process; the rest is as for `connect_tcp`.

    Raises
    ------
    TransportError
        The listener is not listening.
    """
    return ChannelConnection(listener.accept(request_timeout), max_payload)
