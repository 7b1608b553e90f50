"""The fast path of small pushes, where this package was installed with a C compiler, on Linux.

The thread that answers small requests of all connections receives, merges and answers a push
without the interpreter, as long as nothing has changed since the strategy agreed to it. It makes a
note of each push, which is counted before another thread gets the run's lock: see
`coordination.run_lock`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..common import native
from ..common.arrays import Buffer
from ..wire.frames import encode_head
from ..wire.messages import Directive, Reply
from ..wire.packed import PUSH_SPANS
from ..wire.whole import PUSH_BEGINS

BY_ONE, BY_STEPS, BY_STALENESS = range(3)
"""What a change is divided by: nothing, the push's steps, or a power of its staleness + 1."""


class Part(NamedTuple):
    """Values of the center that are added and divided as one."""

    start: int
    """Its first byte in the center."""
    nbytes: int
    wide: bool
    """Whether they are float64; float32 if not."""
    rule: int
    """`BY_ONE`, `BY_STEPS` or `BY_STALENESS`."""
    exponent: float = 0.0
    """Of the power."""


class Noted(NamedTuple):
    """A push that was merged, and is still to be counted."""

    who: Any
    """What `Peer.arm` was given."""
    time: float
    """When, in seconds since the epoch."""
    heard: float
    """The same by the monotonic clock."""
    staleness: int
    version: int
    """That it made."""
    push: tuple[Any, ...]
    """The fields of a `Push`."""


class Path(Protocol):
    """The fast path into one center.

    Attributes
    ----------
    version : int
        The center's.
    raised : int
        Not 0 once a sum was beyond the range of its dtype: nothing is merged any more.
    settle : callable
        Called without arguments, 50 ms after a push whose note was not taken.
    """

    version: int
    raised: int
    settle: Callable[[], object]

    def pause(self) -> None:
        """Keep pushes out until `resume`; one thread at a time may do so, and may nest."""

    def resume(self, changed: bool) -> None:
        """Let pushes in again.

        Parameters
        ----------
        changed : bool
            Whether only those come in for which `Peer.arm` is called from now on.
        """

    def hold(self) -> None:
        """Keep pushes out until `release`; for any number of threads."""

    def release(self) -> None:
        """See `hold`."""

    def forget(self) -> None:
        """Let in only pushes for which `Peer.arm` is called from now on."""

    def take(self) -> Sequence[Noted]:
        """Return what was merged since the last call.

        Returns
        -------
        sequence of Noted
            In the order of their versions, as plain tuples.
        """

    def use(self, parts: tuple[Part, ...]) -> bool:
        """Merge by other rules.

        Parameters
        ----------
        parts : tuple of Part

        Returns
        -------
        bool
            False if there are too many; those before stay.
        """


class Peer(Protocol):
    """One connection; only the thread that serves it calls.

    Attributes
    ----------
    key : object
        What the poller returns for it.
    """

    key: Any

    def arm(
        self,
        path: Path,
        who: object,
        update: Buffer,
        apart: bool,
        epoch: int,
        sequence: int,
        settings_version: int,
        metrics: int,
    ) -> bool:
        """Let the next push in, and those after it, until something changes; for a paused path.

        Parameters
        ----------
        path : Path
        who : object
            Names the worker in what is noted.
        update : ndarray, shape (nbytes of the center,), uint8
            Where its updates lie.
        apart : bool
            Whether they come by the connection, and do not lie there already.
        epoch, sequence, settings_version : int
            What the next push says; the ones after it count on in sequence.
        metrics : int
            How many are in each push.

        Returns
        -------
        bool
            False if the fast path cannot take such pushes.
        """

    def take_received(self) -> int:
        """Return what is left in the channel's chunk.

        Returns
        -------
        int
            Bytes; -1 for none.
        """

    def take_unsent(self) -> bytes:
        """Return what the peer had no room for.

        Returns
        -------
        bytes
            The end of the last answer.
        """


class NoPath:
    """In place of a path where there is none; see `Path`."""

    raised = 0

    def __init__(self) -> None:
        self.version = 0

    def hold(self) -> None:
        """See `Path.hold`."""

    def release(self) -> None:
        """See `Path.release`."""

    def forget(self) -> None:
        """See `Path.forget`."""


NO_PATH = NoPath()
"""For locks of what has no version."""


def new_path(center: Buffer) -> Path | None:
    """Return a path into a center; None where there can be none."""
    made: Path | None = None
    if native.extension is not None and hasattr(native.extension, "Path"):
        reply = encode_head(Reply(0, 0, "committed", Directive.GO, None), 0, 0)
        made = native.extension.Path(center, PUSH_BEGINS, PUSH_SPANS.high, reply)
    return made


def new_peer(descriptor: int, chunk: memoryview) -> Peer | None:
    """Return a connection's peer; None where there can be none."""
    made: Peer | None = None
    if native.extension is not None and hasattr(native.extension, "Peer"):
        made = native.extension.Peer(descriptor, chunk)
    return made
