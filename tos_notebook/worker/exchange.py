"""The protocol of a strategy in a worker: it brings parameters, and takes what was trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..archive.runner import Runner, Trained
from ..common.arrays import Array
from ..errors import RemoteProtocolError
from ..layout import Layout
from ..transport.auth import Secret
from ..transport.base import LOOPBACK, Connection, Endpoint
from ..wire.messages import Join, Joined, Poll, Proceed, Push, Reply, Request
from ..wire.settings import WorkerSettings

Answer = TypeVar("Answer")


class Exchange(Protocol):
    """The worker's side of a strategy, for one task. One thread calls it, first `join`."""

    vectors: list[Array]
    """The parameters to train, as they were adopted last: a vector for each segment of the layout,
    shape (segment.size,), in the segment's dtype."""

    @property
    def rounds(self) -> int:
        """How many times `sync_interval` batches `train` takes at once."""

    @property
    def attends(self) -> bool:
        """Whether the other workers need this one in `train`, even without rows."""

    @property
    def again(self) -> bool:
        """Whether the milestone that was trained last does not count, and is trained again."""

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
            Its `strategy` is what `StrategySettings.for_worker` returned, and the sync mode as
            ``"sync"`` unless that is asp.

        Raises
        ------
        RemoteProtocolError
            One that the strategy needs is missing.
        """

    def prepare(self, runner: Runner, epoch: int) -> Proceed | None:
        """Get ready for `train`.

        Parameters
        ----------
        runner : Runner
            The program.
        epoch : int
            From 0.

        Returns
        -------
        Proceed or None
            What the server says meanwhile: the worker adopts its settings, ends if it must, and
            calls again. None once the exchange is ready.

        Raises
        ------
        RemoteProtocolError, TosError
            See `join`.
        """

    def train(self, runner: Runner, columns: Sequence[Array], batch_size: int) -> Trained | None:
        """Train on rows.

        Parameters
        ----------
        runner : Runner
            The program.
        columns : sequence of ndarray, one per feed, shape (rows, ...)
            The rows of `rounds` times `sync_interval` batches, or those that are left of an epoch.
        batch_size : int

        Returns
        -------
        Trained or None
            What to `write`. None if there is nothing to push: see `again` and `attends`.

        Raises
        ------
        Exception
            What the program raises.
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

    def close(self) -> None:
        """Let other workers go; the connection stays its owner's."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What an exchange may need to know of its worker.

    Parameters
    ----------
    join : Join
        Who the worker is.
    secret : Secret
        The session's, which lets workers connect to each other.
    folder : Path or None
        A folder of the executor's that outlives the process; None if there is none.
    endpoint : Endpoint
        Where other workers could connect.
    leg : str
        Names what the worker leaves in the folder; by default the run's id. See `Plan.leg`.
    resets : bool
        Whether the optimizer's state is reset when parameters are adopted. `Worker` does so after a
        milestone; an exchange that adopts some within one does so there.
    """

    join: Join
    secret: Secret
    folder: Path | None = None
    endpoint: Endpoint = LOOPBACK
    leg: str = ""
    resets: bool = False


ROOM = 1 << 26
"""Bytes of the rows of a milestone, which are collected at once."""


def next_rounds(rounds: int, made: int, share: float, nbytes: float) -> int:
    """Return how many rounds the next milestone has; see `Exchange.rounds`.

    Parameters
    ----------
    rounds : int
        As many as this one may have; the next one has twice as many at most.
    made : int
        As many as it has: fewer at the end of an epoch.
    share : float
        The seconds that a milestone may take, divided by those that `made` have taken.
    nbytes : float
        Of the rows of `made`.
    """
    return max(1, min(2 * rounds, int(made * min(share, ROOM / max(nbytes, 1.0)))))


ExchangeMaker = Callable[[Connection, Layout, WorkerContext], Exchange]
"""Makes it from a connection to the server and the layout. Picklable: Spark takes it there."""


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
