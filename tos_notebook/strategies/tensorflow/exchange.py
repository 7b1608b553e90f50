"""The worker's side: its session works on variables of TensorFlow's servers."""

from __future__ import annotations

import json
import math
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from ...archive.runner import Runner, SessionRunner, Trained
from ...common.arrays import Array
from ...errors import RemoteProtocolError
from ...layout import Layout
from ...nodes.ports import shield
from ...transport.base import BytesLike, Connection
from ...transport.sockets import is_loopback
from ...wire.messages import Join, Joined, Poll, Proceed, Push, Reply
from ...wire.settings import WorkerSettings
from ...worker.exchange import WorkerContext, ask, expect

_ADDRESS = re.compile(r"[\w.:\[\]-]{1,255}:\d{1,5}")

_shields: dict[int, list[socket.socket]] = {}
"""What keeps others from this process's TensorFlow server, which has no end, by its port."""


class SessionExchange:
    """Tells the driver what was trained; parameters do not pass through it. See `Exchange`.

    Parameters
    ----------
    connection : Connection
        To the driver.
    context : WorkerContext
    """

    rounds = 1
    attends = again = False

    def __init__(self, connection: Connection, context: WorkerContext) -> None:
        self._connection = connection
        self._host = context.endpoint.host
        self._partition = context.join.partition
        self._servers: Sequence[str] = ()
        self._finite = True
        self.vectors: list[Array] = []

    def join(self, message: Join) -> Joined:
        """See `Exchange.join`."""
        return ask(self._connection, message, Joined)

    def use(self, settings: WorkerSettings) -> None:
        """See `Exchange.use`: none of them is the worker's."""

    def prepare(self, runner: Runner, epoch: int) -> None:
        """See `Exchange.prepare`."""
        connect = cast(SessionRunner, runner).connect
        port = connect(self._servers, self._host, self._partition)
        if is_loopback(self._host) and port not in _shields:
            _shields[port] = shield(port)

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Exchange.train`."""
        trained = runner.train(self.vectors, columns, batch_size)
        self._finite = math.isfinite(trained.values.get("loss", 0.0))
        return trained

    def write(self, trained: Iterable[Array]) -> bool:
        """See `Exchange.write`: it has been written where it belongs."""
        return self._finite

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """See `Exchange.push`."""
        answer, _ = self._connection.request(message, None, None, meanwhile)
        return expect(Reply, answer, message)

    def poll(self, message: Poll) -> Proceed:
        """See `Exchange.poll`; an answer brings the servers' addresses."""
        answer, received = self._connection.request(message)
        proceed = expect(Proceed, answer, message)
        if proceed.version is not None:
            self._servers = addresses(b"" if received is None else received)
        return proceed

    def close(self) -> None:
        """See `Exchange.close`."""


def addresses(received: BytesLike) -> list[str]:
    """Return the servers' addresses that the driver has sent.

    Raises
    ------
    RemoteProtocolError
        They are none.
    """
    try:
        found = json.loads(bytes(received))
        if not (isinstance(found, list) and found and all(map(_ADDRESS.fullmatch, found))):
            raise ValueError("not addresses")
    except (ValueError, TypeError) as error:
        raise RemoteProtocolError(
            f"Expected the addresses of TensorFlow's servers, got {len(bytes(received))} bytes: "
            f"{error}."
        ) from error
    return found


def exchange(connection: Connection, layout: Layout, context: WorkerContext) -> SessionExchange:
    """Return the worker's side of a run; see `worker.exchange.ExchangeMaker`."""
    return SessionExchange(connection, context)
