"""Tasks beside a run's workers, each in a thread of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import closing
from functools import partial

from ..common.threads import in_thread
from ..coordination.services import Services
from ..transport.auth import Secret
from ..transport.base import LOOPBACK
from ..transport.client import ChannelConnection
from ..worker.beside import SidePlace, SideTask


class SideThreads:
    """See `Beside`.

    Parameters
    ----------
    connect : callable
        Returns a connection to the driver.
    secret : Secret
    """

    def __init__(self, connect: Callable[[], ChannelConnection], secret: Secret) -> None:
        self.services = Services()
        self._connect, self._secret = connect, secret
        self._connections: list[ChannelConnection] = []

    def start(self, task: SideTask, count: int) -> Future[None]:
        """See `Beside.start`."""
        tasks = [
            in_thread(f"side-task-{number}", partial(self._run, task, number))
            for number in range(count)
        ]
        return in_thread("side-tasks", partial(_all, tasks))

    def _run(self, task: SideTask, number: int) -> None:
        with closing(self._connect()) as connection:
            self._connections.append(connection)
            task(number, SidePlace(connection, self._secret, LOOPBACK))

    def cancel(self) -> None:
        """See `Beside.cancel`."""
        for connection in self._connections:
            connection.abort()


def _all(tasks: list[Future[None]]) -> None:
    wait(tasks)
    for task in tasks:
        task.result()
