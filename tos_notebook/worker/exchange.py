"""The protocol of a strategy in a worker: it brings parameters, and takes what was trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from ..common.arrays import Array
from ..errors import RemoteProtocolError
from ..layout import Layout
from ..transport.base import Connection
from ..wire.messages import Join, Joined, Poll, Proceed, Push, Reply, Request
from ..wire.settings import WorkerSettings

Answer = TypeVar("Answer")


class Exchange(Protocol):
    """The worker's side of a strategy."""

    vectors: list[Array]
    """The parameters to train, a vector for each segment of the layout."""

    def join(self, message: Join) -> Joined:
        """Open the partition, which brings no parameters yet."""

    def use(self, settings: WorkerSettings) -> None:
        """Adopt other settings."""

    def write(self, trained: Iterable[Array]) -> bool:
        """Take what was trained, in the program's order; return whether it is finite."""

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Exchange what was written, and adopt the answer; do something meanwhile."""

    def poll(self, message: Poll) -> Proceed:
        """Ask whether to continue, and with which parameters."""


ExchangeMaker = Callable[[Connection, Layout, str, Join, Path | None], Exchange]
"""Makes it from a connection, the layout, the run's id, who the worker is, and a folder of the
executor's that outlives the process; None if there is none. Picklable: Spark takes it there."""


def expect(kind: type[Answer], answer: object, message: Request) -> Answer:
    """Return an answer if it is of a kind.

    Raises
    ------
    RemoteProtocolError
        It is not.
    """
    if not isinstance(answer, kind):
        raise RemoteProtocolError(
            f"Expected {kind.__name__} in answer to {type(message).__name__}, "
            f"got {type(answer).__name__}."
        )
    return answer


def ask(connection: Connection, message: Request, kind: type[Answer]) -> Answer:
    """Send a message without a payload, and return the answer if it is of a kind.

    Raises
    ------
    RemoteProtocolError
        It is not.
    """
    answer, _ = connection.request(message)
    return expect(kind, answer, message)
