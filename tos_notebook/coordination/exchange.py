"""The protocols of a strategy in the driver: what has the parameters, and what moves them.

The control plane knows who trains what; it never looks into parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..common.arrays import Array, Buffer
from ..common.served_files import RowsFile
from ..errors import TosError
from ..layout import Layout
from ..persist.parts import PartPlace, SavedPart
from ..transport.base import BytesLike
from ..transport.fast_path import Peer
from ..wire.messages import Answer, Awaiting, Poll, Push, Ready
from .cohort import Cohort
from .membership import Member
from .reports import Reports
from .requests import WorkerRequests
from .settings import Settings


class Parameters(Protocol):
    """The parameters of one run, which any thread may read."""

    layout: Layout
    """Their names, shapes and dtypes, and their places in a buffer."""

    @property
    def version(self) -> int:
        """How often they have changed; a `Push` names the one that it was trained from."""

    @property
    def torn(self) -> str | None:
        """Why they are not what the ledger says, in a sentence; None while they are."""

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """Return a copy, and its version.

        Parameters
        ----------
        out : ndarray, shape (layout.nbytes,), uint8, optional
            Where to; a new buffer by default. Padding between segments is left as it is.
        patience : float, optional
            Seconds to wait for a merge under way; the strategy's own by default.

        Returns
        -------
        buffer : ndarray, shape (layout.nbytes,), uint8
            `out`, or the new one.
        version : int
            That of the copy.

        Raises
        ------
        WaitTimeout
            A merge has taken longer.
        """

    def load(self, buffer: Buffer) -> None:
        """Replace them by a copy of a buffer.

        Parameters
        ----------
        buffer : ndarray, shape (layout.nbytes,), uint8
            Finite values.
        """


class ServedParameters(Parameters, Protocol):
    """The parameters of a model with served tables, of which no process has all rows."""

    @property
    def rows(self) -> Any:
        """All rows that were trained, as of the last copy of the run."""

    def files(self) -> Sequence[RowsFile]:
        """Return all rows that were trained, as they are now; files last as long as a copy is kept.

        Raises
        ------
        ClusterUnreachable
            Shards are lost, and not there again in time.
        """

    def find_rows(self, table: int, ids: Array) -> Array:
        """Return rows as they are now.

        Parameters
        ----------
        table : int
        ids : ndarray, shape (k,), int64
            Each once.

        Returns
        -------
        ndarray, shape (k, columns), float32
            What the model sees of each, and then what an optimizer keeps of it.

        Raises
        ------
        ClusterUnreachable
            Shards are lost, and not there again in time.
        """


class WorkerExchange(Protocol):
    """The server's side of one worker's parameters, made for its connection.

    The connection's thread calls it: `open`, then for each request `receive_into` and `push` or
    `poll`. Another thread may call `close`.
    """

    shared: bool
    """Whether payloads are in memory that the worker shares."""

    @property
    def brief(self) -> bool:
        """Whether the next push takes little time, and few bytes to answer; see `Handler.brief`."""

    def open(self) -> None:
        """Take the memory that it needs: the worker has joined."""

    def close(self) -> None:
        """Give the memory back: the worker has left, or others have taken its place."""

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """Return where a request's payload goes; see `Handler.receive_into`."""

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """Merge a push whose payload has come, and answer it.

        `Reports.admit` says whether the push counts, `Reports.decide` what the worker does next.

        Parameters
        ----------
        member : Member
            Who pushes.
        message : Push
            The milestone.

        Returns
        -------
        answer : Reply
            What became of the push, and what the worker does next.
        payload : buffer or None
            What it trains from now on. Must stay unchanged until the connection's next request.

        Raises
        ------
        TosError
            The push was refused. The worker gets the error, by its class.
        """

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """Answer a worker that waits.

        Parameters
        ----------
        member : Member
            Who waits.
        message : Poll
            What it has.

        Returns
        -------
        answer : Proceed
            Whether it is to wait longer.
        payload : buffer or None
            The parameters to continue with; None while it waits. Must stay unchanged until the
            connection's next request.

        Raises
        ------
        TosError
            The request was refused. The worker gets the error, by its class.
        """

    def form(self, member: Member, message: Ready | Awaiting) -> tuple[Answer, BytesLike | None]:
        """Answer a worker that trains with others: once all are ready, and while it waits for one.

        Parameters
        ----------
        member : Member
            Who asks.
        message : Ready or Awaiting
            Where others reach it, or for whom it waits.

        Returns
        -------
        answer : Formed or Proceed
            Who takes part; or to wait longer, to be ready again, or to stop.
        payload : buffer or None
            What all of them begin with. Must stay unchanged until the connection's next request.

        Raises
        ------
        TosError
            The request was refused. The worker gets the error, by its class.
        """


@runtime_checkable
class FastExchange(WorkerExchange, Protocol):
    """An exchange whose pushes may take the fast path."""

    def arm(self, member: Member, peer: Peer) -> None:
        """Let the next pushes take the fast path, if they may.

        Parameters
        ----------
        member : Member
            Who pushes.
        peer : Peer
            The connection's.
        """


class TrainedCopy(Protocol):
    """What is trained, as of one version."""

    @property
    def version(self) -> int:
        """`Parameters.version` of what was copied."""


@runtime_checkable
class CopyApart(TrainedCopy, Protocol):
    """A copy that is not in this process. The holders of its parts write them, or send them."""

    def write(self, place: PartPlace) -> Sequence[SavedPart]:
        """Let each who has a part of it write that; `Strategy.to_parts` has the rest.

        Parameters
        ----------
        place : PartPlace
            Where.

        Returns
        -------
        sequence of SavedPart
            In their order.

        Raises
        ------
        CheckpointError
            One could not; `fetch` may help. Parts of others may be there.
        WaitTimeout
            One takes too long; as before.
        """

    def fetch(self) -> TrainedCopy:
        """Return the same, in this process.

        Raises
        ------
        TosError
            It is lost.
        """

    def release(self) -> None:
        """Let it be forgotten; may be repeated."""


class HandedOver(NamedTuple):
    """What one strategy's side of a run leaves to the next one's, besides the parameters."""

    version: int
    """`Parameters.version`, which continues."""
    torn: str | None = None
    """`Parameters.torn`."""
    optimizer: Sequence[Array] | None = None
    """The state of the optimizer; None where workers have it."""
    rows: Any = None
    """Rows of served tables; None where there are none."""


class Trainer(Protocol):
    """The driver's side of a strategy, for one run."""

    @property
    def parameters(self) -> Parameters:
        """What is trained; the same object for as long as the strategy trains the run."""

    def begin(self, reports: Reports, requests: WorkerRequests, cohort: Cohort) -> None:
        """Begin to serve workers.

        Parameters
        ----------
        reports : Reports
            Takes what workers have trained, and says which of it counts.
        requests : WorkerRequests
            Answers what workers ask that has nothing to do with parameters.
        cohort : Cohort
            Lets all workers make each step together, for strategies that need it.
        """

    def exchange(self, segment: str) -> WorkerExchange:
        """Return what serves a worker that is about to join.

        Parameters
        ----------
        segment : str
            Names shared memory of the worker's host, or is empty.

        Returns
        -------
        WorkerExchange
            For one connection only.
        """

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """Go by other settings from the next merge on.

        Parameters
        ----------
        settings : Settings
            All of them, as they are from now on.
        names : collection of str
            Of those that were given, though they may be as before.
        entered : callable
            To be called once, when no other merge or snapshot can come between it and the change.
        """

    def final(self) -> TosError | None:
        """Return what is wrong with the parameters at the end of a run.

        Returns
        -------
        TosError or None
            What the run fails with; None if nothing is wrong.
        """

    def hand_over(self) -> HandedOver:
        """Return what another strategy continues with, when no worker trains.

        Returns
        -------
        HandedOver
            The parameters are not in it.
        """

    def take_over(self, handed: HandedOver) -> bool:
        """Continue where another trainer of the run has ended, before any worker joins.

        Parameters
        ----------
        handed : HandedOver
            What it has left. The initial parameters were its own.

        Returns
        -------
        bool
            Whether the optimizer's state also continues.
        """

    def quiesce(self) -> AbstractContextManager[object]:
        """Return what keeps parameters from holding anything that is not counted.

        Where workers change them by themselves, all wait inside, with their milestones counted.

        Raises
        ------
        WaitTimeout
            On entering: a worker is in the midst of a milestone for too long.
        CheckpointError
            The parameters are not what the ledger says; no worker is waited for.
        """

    def snapshot(self, entered: Callable[[], object]) -> TrainedCopy:
        """Return a copy of all that is trained, as of one version; inside of `quiesce`.

        Parameters
        ----------
        entered : callable
            To be called once nothing that comes later can be in the copy.

        Returns
        -------
        TrainedCopy
            What `restore` takes, and `Strategy.to_parts` turns into values that can be saved.

        Raises
        ------
        CheckpointError
            It cannot be saved, or is not what the ledger says.
        """

    def restore(self, copied: Any) -> None:
        """Continue from what `snapshot` returned, before any worker joins.

        Parameters
        ----------
        copied : object
            What `snapshot` returned, of a trainer of the same strategy.

        Raises
        ------
        CheckpointError
            It is of another program or of other settings; nothing was changed.
        """


@runtime_checkable
class ApartTrainer(Trainer, Protocol):
    """A trainer whose parameters are elsewhere, where they can be copied and saved."""

    def snapshot_apart(self, entered: Callable[[], object]) -> TrainedCopy:
        """Return what `snapshot` does, or a `CopyApart`, which is the caller's to release.

        Parameters
        ----------
        entered : callable
            As for `snapshot`, which says what is raised, too.
        """
