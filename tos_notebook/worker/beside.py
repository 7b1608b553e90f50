"""Tasks that Spark runs beside a run's workers, such as shards of its parameters."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ..errors import ClusterUnreachable, TransportError
from ..transport.auth import Secret
from ..transport.base import LOOPBACK, Connection, Endpoint


@dataclass(frozen=True, slots=True)
class SidePlace:
    """Where a side task runs.

    Parameters
    ----------
    connection : Connection
        To the driver.
    secret : Secret
        The session's, which lets workers connect.
    endpoint : Endpoint
        Where workers can connect.
    """

    connection: Connection
    secret: Secret
    endpoint: Endpoint


SideTask = Callable[[int, SidePlace], object]
"""Does a side task's work, given its number. Picklable: Spark takes it to the executors."""


@dataclass(frozen=True, slots=True)
class SideCall:
    """A function of (number, nothing) for Spark, which calls the driver for a side task.

    Parameters
    ----------
    host, port, secret, fingerprint, peers
        See `Task`.
    task : callable
    """

    host: str
    port: int
    secret: Secret
    fingerprint: bytes | None
    task: SideTask
    peers: Endpoint = LOOPBACK

    def __call__(self, number: int, nothing: Iterable[object]) -> Iterator[int]:
        """Do the work; yield the number when it is done."""
        from ..transport.dial import connect_tcp

        try:
            connection = connect_tcp(self.host, self.port, self.secret, self.fingerprint)
        except TransportError as error:
            raise ClusterUnreachable(
                f"Executor host {socket.gethostname()} cannot reach the driver: {error}"
            ) from error
        try:
            endpoint = replace(self.peers, host=connection.host, tls=self.fingerprint is not None)
            self.task(number, SidePlace(connection, self.secret, endpoint))
        finally:
            connection.close()
        yield number
