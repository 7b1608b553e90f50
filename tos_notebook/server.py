"""The parameter server: runs a `Training` behind a listener."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from .data.blocks import Columns
from .errors import RemoteProtocolError, SessionClosed
from .roster import Member
from .training import Training
from .transport.auth import Secret
from .transport.base import Address, Buffer
from .transport.shared import attach
from .transport.tcp import TcpListener
from .wire.messages import (
    Answer,
    Failed,
    Fetch,
    Finish,
    Join,
    Poll,
    Push,
    Request,
    Rows,
)


class ParameterServer:
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

    Raises
    ------
    TransportError
        The address cannot be bound.
    """

    def __init__(self, secret: Secret, host: str, port: int) -> None:
        self._training: Training | None = None
        self._lock = threading.Lock()
        self._listener = TcpListener(self.handler, secret, host, port)
        self._listener.start()

    @property
    def address(self) -> Address:
        """Where the server listens."""
        return self._listener.address

    def handler(self, peer: str) -> WorkerHandler:
        """Return the handler of a new connection."""
        return WorkerHandler(self)

    def serve(self, training: Training | None) -> None:
        """Serve this run from now on, or none."""
        with self._lock:
            self._training = training

    def training(self) -> Training:
        """Return the run being served.

        Raises
        ------
        SessionClosed
            There is none.
        """
        with self._lock:
            if self._training is None:
                raise SessionClosed("No run is being served; it has ended.")
            return self._training

    def close(self) -> None:
        """Stop listening and end all connections; idempotent."""
        self.serve(None)
        self._listener.close()


class WorkerHandler:
    """The server's side of one worker's connection."""

    def __init__(self, server: ParameterServer) -> None:
        self._server = server
        self._training: Training | None = None
        self._member: Member | None = None
        # Holds the update and then the reply: one copy of the model for a worker.
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._shared = False
        self._columns: Columns | None = None

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""
        if self._member is None and not isinstance(message, Join):
            raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        follows = isinstance(message, Push) and not self._shared
        expected = len(self._buffer) if follows else 0
        if nbytes != expected:
            raise RemoteProtocolError(
                f"{type(message).__name__}: expected a payload of {expected} bytes, got {nbytes}."
            )
        return self._buffer.data if nbytes else None

    def handle(self, message: Request, payload: memoryview | None) -> tuple[Answer, Buffer | None]:
        """See `Handler.handle`."""
        if isinstance(message, Join):
            return self._join(message)
        if self._training is None or self._member is None:
            raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        match message:
            case Push():
                return self._push(self._training, self._member, message)
            case Finish():
                return self._training.finish(self._member, message), None
            case Poll():
                return self._training.poll(self._member, message), None
            case Failed():
                return self._training.failed(self._member, message), None
            case Fetch():
                return self._fetch(self._training, self._member, message.column)

    def _join(self, message: Join) -> tuple[Answer, Buffer | None]:
        if self._member is not None:
            raise RemoteProtocolError("A connection joins once; this one has joined before.")
        training = self._server.training()
        layout = training.store.layout
        segment = attach(message.segment, layout.nbytes)
        self._shared = segment is not None
        self._buffer = layout.allocate() if segment is None else segment
        self._member, joined = training.join(message, self._buffer, self._shared)
        self._training = training
        return joined, self._payload()

    def _fetch(
        self, training: Training, member: Member, number: int
    ) -> tuple[Answer, Buffer | None]:
        # A layout may have to collect a partition's rows: once for all columns.
        columns = training.rows(member) if self._columns is None else self._columns
        if not 0 <= number < len(columns):
            raise RemoteProtocolError(f"There is no column {number} to fetch.")
        self._columns = None if number == len(columns) - 1 else columns
        column = np.ascontiguousarray(columns[number])
        return Rows(column.dtype.str, list(column.shape)), column.reshape(-1).view(np.uint8)

    def _push(
        self, training: Training, member: Member, message: Push
    ) -> tuple[Answer, Buffer | None]:
        reply = training.push(member, message, self._buffer)
        return reply, None if reply.status == "superseded" else self._payload()

    def _payload(self) -> Buffer | None:
        """Return what follows an answer: nothing where the worker sees it in its segment."""
        return None if self._shared else self._buffer

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`."""
        if self._training is not None and self._member is not None:
            self._training.lost(self._member, "it left early" if error is None else str(error))
