"""What every transport offers, and what a server gives it to run.

A worker holds a `Connection` and makes one request at a time. A server hands a
`HandlerFactory` to a `Listener`, which runs one `Handler` per connection in a thread of its
own, or in one that answers what is small for all. `Channel` is what tells the transports apart:
how frames get from one end to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from ..common.arrays import Buffer
from ..errors import LocalProtocolError
from ..wire.frames import Header
from ..wire.messages import Answer, Reply, Request
from ..wire.whole import Whole
from .fast_path import Peer

BytesLike = memoryview | bytearray | bytes | Buffer


class Address(NamedTuple):
    """Where a listener listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen.

    Attributes
    ----------
    host : str
        The interface to listen on, all of them if empty.
    port : int
        The port, any free one if 0.
    last : int
        The last of a range of ports, which begins with `port`: the first free one is taken.
    tls : bool
        Whether to speak TLS on the loopback interface, too. Elsewhere nothing else is spoken.
    advice : str
        What to do if one cannot listen there.
    """

    host: str = "127.0.0.1"
    port: int = 0
    last: int = 0
    tls: bool = False
    advice: str = (
        "Set `server_host` to an address of this machine, and `server_port` to a free port, or to "
        "0 for any."
    )

    def __str__(self) -> str:
        ports = f"{self.port}-{self.last}" if self.last > self.port else str(self.port)
        return f"{self.host}:{ports}"


LOOPBACK = Endpoint()


class Connection(Protocol):
    """A worker's end. One thread at a time may make requests."""

    def request(
        self,
        message: Request,
        payload: BytesLike | None = None,
        into: BytesLike | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> tuple[Answer, memoryview | None]:
        """Send a request and wait for its answer.

        Parameters
        ----------
        message : Request
            What to ask.
        payload : buffer, optional
            Contiguous bytes that go with it.
        into : buffer, optional
            Where the answer's payload goes, which must be as long as the payload. By default
            it goes into a fresh, aligned buffer.
        meanwhile : callable, optional
            Work to do between sending and waiting. What it raises ends the connection.

        Returns
        -------
        answer : Answer
            What the server says.
        payload : memoryview or None
            None if the answer has no payload, or an empty one.

        Raises
        ------
        TosError
            The server refused: the error it raised, by its class where that has a name on
            the wire (see `wire.refusals`). The connection stays open if it still can.
        LocalProtocolError
            A message or buffer that cannot be sent, or a second request at the same time.
        RemoteProtocolError
            The answer breaks the protocol, or its payload has another length than `into`.
            The connection is closed.
        ConnectTimeout
            No byte came, or could be sent, for the connection's timeout. It is closed.
        ConnectionClosed
            Either side closed the connection.
        """
        ...

    def close(self) -> None:
        """Say goodbye and close; may be repeated."""
        ...

    def abort(self) -> None:
        """Close at once, from any thread: a waiting request raises `ConnectionClosed`."""
        ...


class Handler(Protocol):
    """A server's side of one connection; one thread at a time calls it.

    A `TosError` raised here reaches the worker's `Connection.request`. Any other exception
    is logged, and reaches the worker as `RemoteProtocolError`.
    """

    @property
    def brief(self) -> bool:
        """Whether its next push takes little time, and few bytes to answer."""
        ...

    @property
    def needed(self) -> bool:
        """Whether a worker trains by it; where connections are too many, others must go."""
        ...

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """Say where a request's payload goes; called for every request.

        Parameters
        ----------
        message : Request
            The request.
        nbytes : int
            Length of its payload, which has not been received yet.

        Returns
        -------
        memoryview of `nbytes` bytes, or None
            None for a request without payload.

        Raises
        ------
        RemoteProtocolError
            `nbytes` is not what the request calls for. The connection is closed after the
            refusal, whatever the error.
        """
        ...

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """Serve a request.

        Parameters
        ----------
        message : Request
            The request.
        payload : memoryview or None
            What `receive_into` returned, filled.

        Returns
        -------
        answer : Answer
            What to say.
        payload : buffer or None
            What goes with it, contiguous. Must stay unchanged until this connection's next request.
        """
        ...

    def closed(self, error: Exception | None) -> None:
        """Take note that the connection ended; called exactly once.

        Parameters
        ----------
        error : Exception or None
            None if the worker said goodbye.
        """
        ...


@runtime_checkable
class FastHandler(Handler, Protocol):
    """A handler whose pushes may take the fast path."""

    def arm(self, peer: Peer) -> None:
        """Let its next pushes take the fast path, if they may.

        Parameters
        ----------
        peer : Peer
            The connection's, which has just been answered.
        """
        ...


HandlerFactory = Callable[[str], Handler]
"""Makes the handler of a new connection, given its peer's name."""


class Listener(Protocol):
    """A server's end: accepts connections and runs their handlers."""

    @property
    def address(self) -> Address:
        """Where it listens; with the port that it got if it was made with port 0."""
        ...

    def start(self) -> None:
        """Begin to accept connections; return at once."""
        ...

    def close(self, timeout: float = 5.0) -> None:
        """Accept no more, abort the connections and wait for their threads; may be repeated.

        The maker of the handlers wakes those that block, before.

        Parameters
        ----------
        timeout : float
            Seconds to wait for the threads.

        Raises
        ------
        WaitTimeout
            A thread did not end in time; it is named.
        """
        ...


class Channel(Protocol):
    """One end of a stream of frames. Every wait ends in bytes or in a `TransportError`."""

    @property
    def peer(self) -> str:
        """The other end's name."""
        ...

    @property
    def host(self) -> str:
        """This end's address."""
        ...

    def send(self, head: bytes, payload: memoryview | None) -> None:
        """Send one frame: header and body, then the payload.

        Parameters
        ----------
        head : bytes
            Header and body, packed; see `wire.frames`.
        payload : memoryview of bytes, or None
            Contiguous; only read.

        Raises
        ------
        TransportError
            It could not be sent, or not in time.
        """
        ...

    def receive_head(self) -> tuple[Header, bytes]:
        """Wait for a frame.

        Returns
        -------
        header : Header
            Says how long the payload is, which is still to be received or discarded.
        body : bytes
            The message, packed.

        Raises
        ------
        RemoteProtocolError
            Something else than a frame came.
        TransportError
            Nothing came in time, or the stream has ended.
        """
        ...

    def receive_payload(self, target: memoryview) -> None:
        """Fill a buffer with the payload of the last head.

        Parameters
        ----------
        target : memoryview of bytes
            As long as the payload, and writable.

        Raises
        ------
        TransportError
            The payload did not come in time, or the stream has ended.
        """
        ...

    def discard(self, nbytes: int) -> None:
        """Throw away the last head's payload, so that a refusal gets through.

        Parameters
        ----------
        nbytes : int
            Its length, or what is left of it.

        Raises
        ------
        TransportError
            The payload did not come in time, or the stream has ended.
        """
        ...

    def shutdown(self) -> None:
        """End the stream, from any thread, and wake the threads that wait on it."""
        ...

    def close(self) -> None:
        """Give back what the channel holds, once no thread waits on it."""
        ...


@runtime_checkable
class ReplyChannel(Channel, Protocol):
    """A channel that receives the usual answer to a push in one step."""

    def receive_reply(self, sequence: int, target: memoryview | None) -> Reply | None:
        """Wait for the answer to a push, and receive it if it is plain, with its parameters.

        Parameters
        ----------
        sequence : int
            The push's number.
        target : memoryview of bytes, or None
            Where parameters go, if some are to come.

        Returns
        -------
        Reply or None
            None for anything else: `receive_head` is to be called next.

        Raises
        ------
        RemoteProtocolError
            It has a status or a directive that there is not.
        """
        ...


@runtime_checkable
class Watched(Channel, Protocol):
    """A channel that one thread can watch together with others."""

    @property
    def fast(self) -> Peer | None:
        """What may take the fast path for it; None if it has none."""
        ...

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when a frame comes."""
        ...

    def look(self) -> Whole | None:
        """Take what has come, without waiting.

        Returns
        -------
        Whole or None
            A frame that is answered at once, and is there as a whole. The `send` that answers it
            does not wait, either. None for anything else: `receive_head` is to be called next.
        """
        ...

    @property
    def owes(self) -> bool:
        """Whether that answer was sent in part: the next `receive_head` waits to send the rest."""
        ...


def byte_view(buffer: BytesLike | None, writable: bool = False) -> memoryview | None:
    """Return a buffer as a flat view of bytes, None for an empty one or for None.

    Raises
    ------
    LocalProtocolError
        The buffer is not contiguous, has no plain dtype, or is read-only and must not be.
    """
    if buffer is None:
        return None
    try:
        # numpy declares its arrays to be buffers from Python 3.12 on.
        view = memoryview(buffer)  # type: ignore[arg-type]
        if not view.nbytes:
            return None
        flat = view if view.ndim == 1 and view.format == "B" and view.contiguous else view.cast("B")
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(
            f"Expected a C-contiguous buffer, got {type(buffer).__name__}: {error}. "
            "View it as uint8, or make it contiguous with numpy.ascontiguousarray."
        ) from error
    if writable and flat.readonly:
        raise LocalProtocolError("Expected a buffer to receive into, got a read-only one.")
    return flat
