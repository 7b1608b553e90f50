"""The protocols of a strategy in the driver: what has the parameters, and what moves them.

The control plane knows who trains what; it never looks into parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from ..common.arrays import Buffer
from ..errors import TosError
from ..layout import Layout
from ..transport.base import BytesLike
from ..wire.messages import Answer, Poll, Push
from .membership import Member
from .reports import Reports
from .requests import WorkerRequests
from .settings import Settings


class Parameters(Protocol):
    """The parameters of one run."""

    layout: Layout

    @property
    def version(self) -> int:
        """How often they have changed."""

    @property
    def torn(self) -> str | None:
        """Why they are not what the ledger says, a sentence; None while they are."""

    def read(self, out: Buffer | None = None, patience: float | None = None) -> tuple[Buffer, int]:
        """Return a copy, shape (layout.nbytes,), uint8, and its version."""

    def load(self, buffer: Buffer) -> None:
        """Replace them by a copy of a buffer, shape (layout.nbytes,), uint8."""


class WorkerExchange(Protocol):
    """The server's side of one worker's parameters, made for its connection."""

    shared: bool
    """Whether payloads are in memory that the worker shares."""

    @property
    def brief(self) -> bool:
        """See `Handler.brief`."""

    def open(self) -> None:
        """Take the memory that it needs: the worker has joined."""

    def close(self) -> None:
        """Give the memory back: the worker has left, or others have taken its place."""

    def receive_into(self, message: Push | Poll, nbytes: int) -> memoryview | None:
        """Return the memory for a payload; see `Handler.receive_into`."""

    def push(self, member: Member, message: Push) -> tuple[Answer, BytesLike | None]:
        """Answer a push, whose payload has come."""

    def poll(self, member: Member, message: Poll) -> tuple[Answer, BytesLike | None]:
        """Answer a waiting worker."""


class Trainer(Protocol):
    """The driver's side of a strategy, for one run."""

    @property
    def parameters(self) -> Parameters:
        """What is trained."""

    def begin(self, reports: Reports, requests: WorkerRequests) -> None:
        """Begin to serve workers, whose reports and requests go there."""

    def exchange(self, segment: str) -> WorkerExchange:
        """Return what serves a worker that is about to join.

        Parameters
        ----------
        segment : str
            Names shared memory of the worker's host, or is empty.
        """

    def change(
        self, settings: Settings, names: Collection[str], entered: Callable[[], object]
    ) -> None:
        """Go by other settings from the next merge on.

        Parameters
        ----------
        settings : Settings
        names : collection of str
            Of those that were given, though they may be as before.
        entered : callable
            To be called once, when no other merge or snapshot can come between it and the change.
        """

    def final(self) -> TosError | None:
        """Return what is wrong with the parameters at the end of a run; None if nothing is."""

    def snapshot(self, entered: Callable[[], object]) -> Any:
        """Return a copy of all that is trained, as of one version.

        Parameters
        ----------
        entered : callable
            To be called once nothing that comes later can be in the copy.

        Raises
        ------
        CheckpointError
            It cannot be saved, or is not what the ledger says.
        """

    def restore(self, copied: Any) -> None:
        """Continue from what `snapshot` returned, before any worker joins.

        Raises
        ------
        CheckpointError
            It is of another program or of other settings; nothing was changed.
        """
