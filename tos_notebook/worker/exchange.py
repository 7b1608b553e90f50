"""The protocol of a strategy in a worker: it brings parameters, and takes what was trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..archive.spec import Runner, Trained
from ..common.arrays import Array
from ..errors import RemoteProtocolError
from ..layout import Layout
from ..transport.base import Connection
from ..wire.messages import Join, Joined, Poll, Proceed, Push, Reply, Request
from ..wire.settings import WorkerSettings

Answer = TypeVar("Answer")


class Exchange(Protocol):
    """The worker's side of a strategy, for one task. One thread calls it, first `join`."""

    vectors: list[Array]
    """The parameters to train, as they were adopted last: a vector for each segment of the layout,
    shape (segment.size,), in the segment's dtype."""

    def join(self, message: Join) -> Joined:
        """Open the partition, which brings no parameters yet.

        Parameters
        ----------
        message : Join
            Who the worker is; the strategy may add its `segment`.

        Returns
        -------
        Joined
            Where to begin, and by which settings.

        Raises
        ------
        RemoteProtocolError
            The server answered something else.
        TosError
            The server refused, or the connection failed; see `Connection.request`.
        """

    def use(self, settings: WorkerSettings) -> None:
        """Adopt other settings, for updates that are written from now on.

        Parameters
        ----------
        settings : WorkerSettings
            Its `strategy` is what `StrategySettings.for_worker` returned.

        Raises
        ------
        RemoteProtocolError
            One that the strategy needs is missing.
        """

    @property
    def rounds(self) -> int:
        """How many times `WorkerSettings.sync_interval` batches the next milestone has."""

    @property
    def again(self) -> bool:
        """Whether the last milestone counted for no worker, and is to be trained once more.

        To be asked when `train` returned nothing, and once the worker may continue.
        """

    @property
    def attends(self) -> bool:
        """Whether a worker without rows takes part in milestones, while others have some."""

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained | None:
        """Train a milestone's rows.

        Parameters
        ----------
        runner : Runner
        columns : sequence of ndarray, one per feed, shape (rows, ...)
            Empty for a worker that attends without rows.
        batch_size : int

        Returns
        -------
        Trained or None
            What `write` takes; None if there is nothing to push: no worker has rows, or the
            milestone could not be trained to its end.
        """

    def write(self, trained: Iterable[Array]) -> bool:
        """Take what was trained, for the next `push`.

        Parameters
        ----------
        trained : iterable of ndarray
            New values of the parameters, in the layout's order, with their shapes and dtypes.

        Returns
        -------
        bool
            Whether they are finite, which the push says.
        """

    def push(self, message: Push, meanwhile: Callable[[], object]) -> Reply:
        """Exchange what was written, and adopt the answer's parameters.

        Parameters
        ----------
        message : Push
            The milestone.
        meanwhile : callable
            Work to do between sending and waiting, such as to load the next batches.

        Returns
        -------
        Reply
            What became of the push, and what to do next.

        Raises
        ------
        RemoteProtocolError, TosError
            See `join`.
        """

    def poll(self, message: Poll) -> Proceed:
        """Ask whether to continue, and adopt the parameters that an answer brings.

        Parameters
        ----------
        message : Poll
            What the worker has.

        Returns
        -------
        Proceed
            Whether to wait longer.

        Raises
        ------
        RemoteProtocolError, TosError
            See `join`.
        """


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What an exchange is made of, in a task.

    Parameters
    ----------
    connection : Connection
        To the server.
    runner : Runner
        The program, which may not be loaded yet.
    run : str
        The run's id.
    join : Join
        Who the worker is.
    secret : bytes
        The session's.
    tls : bool
        Whether workers and server speak TLS.
    folder : Path, optional
        One of the executor's that outlives the process.
    """

    connection: Connection
    runner: Runner
    run: str
    join: Join
    secret: bytes = b""
    tls: bool = False
    folder: Path | None = None

    @property
    def layout(self) -> Layout:
        """The parameters'."""
        return self.runner.spec.layout


ExchangeMaker = Callable[[WorkerContext], Exchange]
"""Makes a worker's exchange. Picklable: Spark takes it to the executors."""


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
