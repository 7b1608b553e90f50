"""Where nodes tell each other their addresses. Both sides prove a secret, and speak JSON."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from time import monotonic
from typing import Any

from ..errors import ClusterUnreachable, ConfigError, TransportError, WaitTimeout
from ..nodes.plan import ServerAddress
from ..nodes.roster import Roster
from ..nodes.server import LONGEST_TURN, NodeServer
from ..nodes.talk import open_talk
from ..transport.base import Endpoint
from ..transport.sockets import Timeouts
from . import util

TFOS_SERVER_HOST, TFOS_SERVER_PORT = "TFOS_SERVER_HOST", "TFOS_SERVER_PORT"
"""Environment variables: the host by which executors reach the server, and its port or ports."""

TURN = 1.0
"""Seconds after which a server looks whether there is an error."""


class Reservations:
    """The reservations of a cluster, from any thread.

    Parameters
    ----------
    required : int
        How many make it whole.
    """

    def __init__(self, required: int) -> None:
        self.required = required
        self.roster = Roster(required)

    def add(self, meta: Mapping[str, Any]) -> None:
        """Take a reservation."""
        self.roster.add(meta)

    def done(self) -> bool:
        """Return whether all are there."""
        return self.roster.whole

    def get(self) -> list[dict[str, Any]]:
        """Return those that are there."""
        return self.roster.cluster

    def remaining(self) -> int:
        """Return how many are still to come."""
        return self.roster.remaining


class Server:
    """Takes the reservations of a cluster.

    Parameters
    ----------
    count : int
        How many make it whole.

    Raises
    ------
    ConfigError
        The count is below 1.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ConfigError(f"count: expected a number of nodes of at least 1, got {count}.")
        self.reservations = Reservations(count)
        self._server: NodeServer | None = None

    @property
    def done(self) -> bool:
        """Whether someone has asked for the end."""
        return self.reservations.roster.done

    def start(self) -> ServerAddress:
        """Listen; return (host, port), which carries the secret for `Client`.

        Raises
        ------
        TransportError
            None of the ports in ``TFOS_SERVER_PORT`` is free.
        """
        ports = self.get_server_ports()
        endpoint = Endpoint("", ports[0], ports[-1], advice=f"Set {TFOS_SERVER_PORT} to others.")
        self._server = NodeServer(self.reservations.roster, endpoint, self.get_server_ip())
        return self._server.address

    def await_reservations(
        self, sc: Any, status: Mapping[str, Any] | None = None, timeout: float = 600
    ) -> list[dict[str, Any]]:
        """Wait until all reservations are there; return them.

        Parameters
        ----------
        sc : SparkContext
            Not needed.
        status : mapping, optional
            An ``"error"`` in it ends the wait.
        timeout : float
            Seconds.

        Raises
        ------
        WaitTimeout
            Some are missing.
        """
        roster, given = self.reservations.roster, status if status is not None else {}
        deadline = monotonic() + timeout
        # In turns: a new error in `status` wakes no thread.
        while not roster.wait_for(lambda: roster.whole, min(TURN, deadline - monotonic())):
            if "error" in given or monotonic() >= deadline:
                break
        if not roster.whole:
            raise WaitTimeout(
                f"Expected {roster.required} nodes within {timeout:g} s, but {roster.remaining} "
                f"are missing. {given.get('error', '')}"
            )
        return roster.cluster

    def get_server_ip(self) -> str:
        """Return the host by which executors reach this server."""
        return os.environ.get(TFOS_SERVER_HOST) or util.get_ip_address()

    def get_server_ports(self) -> list[int]:
        """Return the ports that it may take; 0 for any.

        Raises
        ------
        ConfigError
            ``TFOS_SERVER_PORT`` is neither a port nor a range.
        """
        value = os.environ.get(TFOS_SERVER_PORT, "0")
        first, dash, last = value.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise ConfigError(
                f"{TFOS_SERVER_PORT}: expected a port or a range such as 9997-9999, got {value!r}."
            )
        return list(range(int(first), int(last or first) + 1))

    def start_listening_socket(self) -> socket.socket:
        """Return a socket that listens on the first free port of those it may take.

        Raises
        ------
        TransportError
            None is free.
        """
        ports = self.get_server_ports()
        for port in ports:
            try:
                return socket.create_server(("", port))
            except OSError as error:
                problem = str(error)
        raise TransportError(f"Expected a free port among {ports}: {problem}.")

    def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.close()


class Client:
    """Makes a reservation, and learns of the others.

    Parameters
    ----------
    server_addr : ServerAddress
        What `Server.start` has returned.

    Raises
    ------
    ConfigError
        It is only a pair, without the secret.
    TransportError
        The server cannot be reached.
    """

    def __init__(self, server_addr: ServerAddress) -> None:
        if not isinstance(server_addr, ServerAddress):
            raise ConfigError(
                "server_addr: expected what Server.start() has returned, which carries the "
                f"cluster's secret; got {type(server_addr).__name__}."
            )
        self.server_addr = server_addr
        self._talk = open_talk(server_addr, server_addr.secret, server_addr.fingerprint, Timeouts())

    def _ask(self, **message: Any) -> dict[str, Any]:
        answer, _ = self._talk.ask(message)
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        return answer

    def register(self, reservation: Mapping[str, Any]) -> str:
        """Make a reservation; return ``"OK"``.

        Parameters
        ----------
        reservation : mapping
            What JSON can hold.
        """
        return str(self._ask(register=dict(reservation))["registered"])

    def get_reservations(self) -> list[dict[str, Any]]:
        """Return the reservations so far."""
        return list(self._ask(info=True)["cluster"])

    def await_reservations(self) -> list[dict[str, Any]]:
        """Wait until all reservations are there; return them.

        Raises
        ------
        ClusterUnreachable
            The server was stopped before.
        """
        while not (answer := self._ask(**{"await": LONGEST_TURN}))["done"]:
            pass
        if not answer["whole"]:
            raise ClusterUnreachable("The server was stopped before all nodes had registered.")
        return list(answer["cluster"])

    def request_stop(self) -> str:
        """Ask for the end of the feed; return ``"OK"``."""
        return str(self._ask(finish=True)["finish"])

    def close(self) -> None:
        """End the connection."""
        self._talk.close()
