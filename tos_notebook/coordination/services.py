"""What serves tasks beside a run's workers, such as shards, when they call the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from ..errors import SessionClosed
from ..transport.base import BytesLike
from ..wire.messages import Answer, Request, Serving


class ServiceHandler(Protocol):
    """The driver's side of the connection of one such task; see `Handler`."""

    def receive_into(self, message: Request, nbytes: int) -> memoryview | None:
        """See `Handler.receive_into`."""

    def handle(
        self, message: Request, payload: memoryview | None
    ) -> tuple[Answer, BytesLike | None]:
        """See `Handler.handle`; the first request is `Serving`."""

    def closed(self, error: Exception | None) -> None:
        """See `Handler.closed`."""


Service = Callable[[Serving], ServiceHandler]
"""Makes it; raises SessionClosed where no such task is expected."""


class Services:
    """Finds what serves a task by its token, which no worker knows."""

    def __init__(self) -> None:
        self._services: dict[str, Service] = {}
        self._lock = threading.Lock()

    def add(self, token: str, service: Service) -> None:
        """Expect tasks with a token."""
        with self._lock:
            self._services[token] = service

    def remove(self, token: str) -> None:
        """Expect no further ones."""
        with self._lock:
            self._services.pop(token, None)

    def open(self, message: Serving) -> ServiceHandler:
        """Return what serves a task that calls.

        Raises
        ------
        SessionClosed
            None is expected.
        """
        with self._lock:
            service = self._services.get(message.token)
        if service is None:
            raise SessionClosed("No such task is expected; its run is over.")
        return service(message)
