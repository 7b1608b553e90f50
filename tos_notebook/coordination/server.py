"""Serves a run to its workers: one port, one handler for each connection."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from ..blocks.block import Columns
from ..errors import RemoteProtocolError, SessionClosed, TransportError
from ..transport.auth import Secret
from ..transport.base import Address, BytesLike, Endpoint
from ..transport.fast_path import Peer
from ..transport.listener import TcpListener
from ..wire.messages import (
    Answer,
    Awaiting,
    Failed,
    Fetch,
    Finish,
    Join,
    Labelled,
    Loaded,
    Poll,
    Push,
    Ready,
    Request,
    Rows,
    Serving,
    Suspect,
)
from .coordinator import Coordinator
from .exchange import FastExchange, WorkerExchange
from .membership import Member
from .services import ServiceHandler, Services

_ABOUT_PARAMETERS = (Push, Poll)
"""Requests that the strategy answers. A union written at its use would be made at every push."""


class RunServer:
    """Serves one run after another on one port.

    The port is bound here, before any job starts.

    Parameters
    ----------
    secret : Secret
        What workers must hold.
    host : str
        The address to listen on.
    port : int
        0 for any free one.
    tls : bool
        Whether to speak TLS on the loopback interface, too.
    last : int
        The last port that it may take instead, if others have those before.

    Raises
    ------
    TransportError
        The address cannot be bound.
    """

    def __init__(
        self, secret: Secret, host: str, port: int, tls: bool = False, last: int = 0
    ) -> None:
        self._run: Coordinator | None = None
        self.services = Services()
        self._deaf: TransportError | None = None
        self._lock = threading.Lock()
        self._listener = TcpListener(
            self.handler, secret, Endpoint(host, port, last, tls), failed=self._fail
        )
        self._listener.start()

    @property
    def address(self) -> Address:
        """Where the server listens."""
        return self._listener.address

    @property
    def fingerprint(self) -> bytes | None:
        """The certificate's, by which workers know the server; None without TLS."""
        return self._listener.fingerprint

    def handler(self, peer: str) -> WorkerHandler:
        """Return the handler of a new connection."""
        return WorkerHandler(self.run, self.services)

    def serve(self, run: Coordinator | None) -> None:
        """Serve this run from now on, or none.

        Raises
        ------
        TransportError
            The server cannot let workers in any more.
        """
        with self._lock:
            if run is not None and self._deaf is not None:
                raise self._deaf
            self._run = run

    def _fail(self, error: TransportError) -> None:
        """End the run: no worker can reach it any more."""
        with self._lock:
            self._deaf, run = error, self._run
        if run is not None:
            run.fail(error)

    def run(self) -> Coordinator:
        """Return the run being served.

        Raises
        ------
        SessionClosed
            The server has none.
        """
        with self._lock:
            if self._run is None:
                raise SessionClosed("No run is being served; it has ended.")
            return self._run

    def close(self) -> None:
        """Stop listening and end all connections; idempotent."""
        self.serve(None)
        self._listener.close()


class WorkerHandler:
    """The server's side of one connection: of a worker, or of a task beside the workers.

    Parameters
    ----------
    serving : callable
        Returns the run that is served.
    services : Services, optional
        Serve tasks beside the workers; none by default.
    """

    def __init__(
        self, serving: Callable[[], Coordinator], services: Services | None = None
    ) -> None:
        self._serving = serving
        self._services = Services() if services is None else services
        self._service: ServiceHandler | None = None
        self._run: Coordinator | None = None
        self._member: Member | None = None
        self._exchange: WorkerExchange | None = None
        self._fast: FastExchange | None = None
        self._columns: Columns | None = None
        self._released = False

    @property
    def brief(self) -> bool:
        """See `Handler.brief`."""
        return self._exchange is not None and self._exchange.brief

    @property
    def needed(self) -> bool:
        """See `Handler.needed`."""
        if self._service is not None:
            return True
        run, member = self._run, self._member
        return run is not None and member is not None and run.state.trains(member)

    def arm(self, peer: Peer) -> None:
        """See `FastHandler.arm`."""
        if self._fast is not None and self._member is not None:
            self._fast.arm(self._member, peer)

    def _release(self) -> None:
        """Free the memory of a worker that has left, or whose place others have taken twice."""
        self._released = True
        self._columns = None
        if self._exchange is not None:
            self._exchange.close()

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""
        if self._released:
            raise SessionClosed("The partition belongs to a later attempt by now.")
        if self._service is not None:
            return self._service.receive_into(message, nbytes)
        if self._member is None or self._exchange is None:
            if not isinstance(message, Join | Serving):
                raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        elif isinstance(message, _ABOUT_PARAMETERS):
            return self._exchange.receive_into(message, nbytes)
        if nbytes:
            raise RemoteProtocolError(
                f"{type(message).__name__}: expected a payload of 0 bytes, got {nbytes}."
            )
        return None

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """See `Handler.handle`."""
        member, exchange, run = self._member, self._exchange, self._run
        if isinstance(message, Push) and member is not None and exchange is not None:
            return exchange.push(member, message)
        if isinstance(message, Join):
            return self._join(message)
        if isinstance(message, Serving) and self._member is None and self._service is None:
            self._service = self._services.open(message)
        if self._service is not None:
            return self._service.handle(message, payload)
        if member is None or exchange is None or run is None:
            raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        match message:
            case Finish():
                return run.requests.finish(member, message), None
            case Loaded():
                return run.requests.loaded(member, message), None
            case Poll():
                return exchange.poll(member, message)
            case Ready() | Awaiting():
                return exchange.form(member, message)
            case Failed():
                return run.requests.failed(member, message), None
            case Labelled():
                return run.requests.labelled(member, message), None
            case Suspect():
                return run.requests.suspect(member, message), None
            case Fetch():
                return self._fetch(run, member, message.column)
        raise RemoteProtocolError(f"A worker sends no {type(message).__name__}.")

    def _join(self, message: Join) -> tuple[Answer, BytesLike | None]:
        if self._member is not None or self._service is not None:
            raise RemoteProtocolError("A connection joins once; this one has joined before.")
        run = self._serving()
        exchange = run.exchange(message.segment)
        # A worker that may not join costs no memory.
        self._member, joined = run.requests.join(message, exchange.shared, self._release)
        exchange.open()
        self._run, self._exchange = run, exchange
        self._fast = exchange if isinstance(exchange, FastExchange) else None
        if self._released:
            self._release()
        return joined, None

    def _fetch(
        self, run: Coordinator, member: Member, number: int
    ) -> tuple[Answer, BytesLike | None]:
        # A layout may have to collect a partition's rows: once for all columns.
        columns = run.requests.rows(member) if self._columns is None else self._columns
        if not 0 <= number < len(columns):
            raise RemoteProtocolError(f"The partition has no column {number} to fetch.")
        self._columns = None if number == len(columns) - 1 else columns
        column = np.ascontiguousarray(columns[number])
        return Rows(column.dtype.str, list(column.shape)), column.reshape(-1).view(np.uint8)

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`."""
        if self._service is not None:
            self._service.closed(error)
        self._release()
        if self._run is not None and self._member is not None:
            self._run.state.lost(self._member, "it left early" if error is None else str(error))
