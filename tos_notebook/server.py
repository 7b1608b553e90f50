"""The parameter server: runs a `Training` behind a listener."""

from __future__ import annotations

import threading

import numpy as np

from .data.blocks import Columns
from .errors import RemoteProtocolError, SessionClosed, TransportError
from .mirror import Mirror
from .roster import Member
from .training import Training
from .transport.auth import Secret
from .transport.base import Address, Buffer
from .transport.listener import TcpListener
from .transport.shared import attach
from .wire.messages import (
    Answer,
    Directive,
    Failed,
    Fetch,
    Finish,
    Join,
    Labelled,
    Loaded,
    Poll,
    Push,
    Request,
    Rows,
    Suspect,
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
    tls : bool
        Whether to speak TLS on the loopback interface, too.

    Raises
    ------
    TransportError
        The address cannot be bound.
    """

    def __init__(self, secret: Secret, host: str, port: int, tls: bool = False) -> None:
        self._training: Training | None = None
        self._deaf: TransportError | None = None
        self._lock = threading.Lock()
        self._listener = TcpListener(self.handler, secret, host, port, tls=tls, failed=self._fail)
        self._listener.start()

    @property
    def address(self) -> Address:
        """Where the server listens."""
        return self._listener.address

    @property
    def fingerprint(self) -> bytes | None:
        """Of the certificate, by which workers know the server; None without TLS."""
        return self._listener.fingerprint

    def handler(self, peer: str) -> WorkerHandler:
        """Return the handler of a new connection."""
        return WorkerHandler(self)

    def serve(self, training: Training | None) -> None:
        """Serve this run from now on, or none.

        Raises
        ------
        TransportError
            The server cannot let workers in any more.
        """
        with self._lock:
            if training is not None and self._deaf is not None:
                raise self._deaf
            self._training = training

    def _fail(self, error: TransportError) -> None:
        """End the run that waits for workers in vain."""
        with self._lock:
            self._deaf, training = error, self._training
        if training is not None:
            training.fail(error)

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
        self._mirror: Mirror | None = None
        # Whether the worker waits for parameters: the first, or those that belong to its last push.
        self._owing = True
        self._columns: Columns | None = None
        self._released = False

    @property
    def brief(self) -> bool:
        """See `Handler.brief`."""
        return self._mirror is not None and self._mirror.brief

    @property
    def needed(self) -> bool:
        """See `Handler.needed`."""
        training, member = self._training, self._member
        return training is not None and member is not None and training.trains(member)

    def _let_go(self) -> None:
        """Give back what is held for a worker whose place others have taken twice."""
        self._released = True
        self._mirror = self._columns = None

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""
        if self._released:
            raise SessionClosed("The partition belongs to a later attempt by now.")
        if self._training is None or self._mirror is None:
            if not isinstance(message, Join):
                raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        elif isinstance(message, Push | Poll):
            # A version that there is not is refused when the request is handled.
            settings = self._training.find_settings(message.settings_version)
            if settings is not None:
                self._mirror.use(settings.codec)
            if isinstance(message, Push):
                return self._mirror.receive_into(nbytes)
        if nbytes:
            raise RemoteProtocolError(
                f"{type(message).__name__}: expected a payload of 0 bytes, got {nbytes}."
            )
        return None

    def handle(self, message: Request, payload: memoryview | None) -> tuple[Answer, Buffer | None]:
        """See `Handler.handle`."""
        if isinstance(message, Join):
            return self._join(message)
        if self._training is None or self._member is None or self._mirror is None:
            raise RemoteProtocolError(f"Expected Join first, got {type(message).__name__}.")
        match message:
            case Push():
                return self._push(self._training, self._member, self._mirror, message)
            case Finish():
                return self._training.finish(self._member, message), None
            case Loaded():
                return self._training.loaded(self._member, message), None
            case Poll():
                return self._poll(self._training, self._member, self._mirror, message)
            case Failed():
                return self._training.failed(self._member, message), None
            case Labelled():
                return self._training.labelled(self._member, message), None
            case Suspect():
                return self._training.suspect(self._member, message), None
            case Fetch():
                return self._fetch(self._training, self._member, message.column)

    def _join(self, message: Join) -> tuple[Answer, Buffer | None]:
        if self._member is not None:
            raise RemoteProtocolError("A connection joins once; this one has joined before.")
        training = self._server.training()
        layout = training.store.layout
        segment = attach(message.segment, layout.nbytes)
        # Whoever may not join costs no memory.
        self._member, joined = training.join(message, segment is not None, self._let_go)
        self._training, self._mirror = training, Mirror(layout, segment)
        if self._released:
            self._let_go()
        return joined, None

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
        self, training: Training, member: Member, mirror: Mirror, message: Push
    ) -> tuple[Answer, Buffer | None]:
        settings = training.find_settings(message.settings_version)
        if settings is not None and not mirror.read(settings.combiner.pushes):
            message = message._replace(finite=False)
        reply = training.push(member, message, mirror.buffer, mirror.count())
        self._owing = reply.directive is Directive.WAIT and not training.keeps_own
        nothing = self._owing or reply.status == "superseded"
        return reply, None if nothing else mirror.reply(reply.version)

    def _poll(
        self, training: Training, member: Member, mirror: Mirror, message: Poll
    ) -> tuple[Answer, Buffer | None]:
        proceed = training.poll(member, message, mirror.buffer, self._owing)
        if proceed.version is None:
            return proceed, None
        self._owing = False
        return proceed, mirror.reply(proceed.version)

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`."""
        self._let_go()
        if self._training is not None and self._member is not None:
            self._training.lost(self._member, "it left early" if error is None else str(error))
