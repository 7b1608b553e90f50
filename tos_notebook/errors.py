"""Every error this package raises on purpose.

::

    TosError
    ├── ConfigError              a setting out of range or of the wrong type (also a ValueError)
    │   └── CodecError           a codec that is unknown, or lacks what it needs
    ├── ConnectError
    │   ├── JavaMissing          no usable Java for an embedded Spark
    │   ├── ClusterUnreachable   the master, or an executor's way back to the driver
    │   └── WorkerEnvironment    an executor lacks Python packages, or has other versions
    ├── CaptureError
    │   ├── UnsupportedProgram   something in the model cannot be shipped
    │   └── ShapeMismatch        records or feeds whose arity, shape or dtype do not fit
    ├── DataError                data that cannot be trained on (empty, unreadable)
    ├── CombinerError            a combiner that is unknown, raises or returns nonsense
    │   ├── NonFiniteUpdate      an update or a new center with NaN or infinity in it
    │   └── CombinerCheckFailed  a combiner breaks a law that `testing.check_combiner` tests
    ├── StrategyCheckFailed      a strategy breaks a law that `testing.check_strategy` tests
    ├── CallbackError            a Keras callback raised, and was to end the run
    ├── ProtocolError
    │   ├── LocalProtocolError   we misused the protocol
    │   ├── RemoteProtocolError  the peer misbehaved
    │   └── VersionMismatch      the peer speaks another protocol version
    ├── TransportError
    │   ├── ConnectTimeout       the peer did not answer in time
    │   ├── ConnectionClosed     the peer went away
    │   ├── PeerLost             a worker that others reduce with went away
    │   └── AuthenticationError  the peer does not hold the session's secret
    ├── WorkerError              the user's code failed on an executor
    ├── InvalidTransition        a command that the run's state does not allow
    ├── CheckpointError          a checkpoint that cannot be written or read
    ├── SessionClosed            the session was closed before the call
    └── WaitTimeout              a wait with a timeout ran out (also a TimeoutError)

Each message says what was expected, what came and what to do. All of them pickle, so
that they survive the way from an executor to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .readable import readable


class TosError(Exception):
    """Base of every error of this package."""

    def __str__(self) -> str:
        # A kernel cannot send a text that is not UTF-8: its cell would end without a word.
        return readable(self._said())

    def _said(self) -> str:
        return super().__str__()

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in a cell: what is wrong, without our own frames."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(TosError, ValueError):
    """A setting is out of range or of the wrong type."""


class CodecError(ConfigError):
    """A codec is unknown, has a parameter out of range, or lacks the error feedback it needs."""


class ConnectError(TosError):
    """No usable connection to a Spark cluster."""


class JavaMissing(ConnectError):
    """An embedded Spark needs Java 17 and none was found."""


class ClusterUnreachable(ConnectError):
    """The master did not answer, or an executor cannot reach the driver's server."""


class WorkerEnvironment(ConnectError):
    """An executor lacks a package, or has another version than the driver."""


class CaptureError(TosError):
    """A program could not be captured."""


class UnsupportedProgram(CaptureError):
    """The program holds something that cannot run on an executor."""


class ShapeMismatch(CaptureError):
    """Feeds and records differ in arity, shape or dtype."""


class DataError(TosError):
    """The training data is empty or cannot be read."""


class CombinerError(TosError):
    """A combiner is unknown, raised, or returned a wrong shape or dtype."""


class NonFiniteUpdate(CombinerError):
    """An update, or what a combiner made of it, holds NaN or infinity."""


class CombinerCheckFailed(CombinerError):
    """A combiner broke a law that `testing.check_combiner` tests; the message is its report."""


class StrategyCheckFailed(TosError):
    """A strategy broke a law that `testing.check_strategy` tests; the message is its report."""


class CallbackError(TosError):
    """A callback raised, and was to end the run; what it raised is the ``__cause__``."""


class ProtocolError(TosError):
    """The conversation between worker and server broke its rules."""


class LocalProtocolError(ProtocolError):
    """This side misused the protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something the protocol does not allow."""


class VersionMismatch(ProtocolError):
    """The peer speaks another version of the protocol."""


class TransportError(TosError):
    """Bytes did not get through."""


class ConnectTimeout(TransportError):
    """The peer did not answer in time."""


class ConnectionClosed(TransportError):
    """The peer closed the connection."""


class PeerLost(TransportError):
    """A worker that this one adds up with went away, or was silent for too long.

    Parameters
    ----------
    rank : int
        Its rank.
    reason : str
        What has happened, as a sentence without its subject.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)
        self.rank = rank
        self.reason = reason

    def _said(self) -> str:
        return f"Expected the worker of rank {self.rank} to take part, but it {self.reason}"


class AuthenticationError(TransportError):
    """The peer does not hold the session's secret."""


class WorkerError(TosError):
    """The program or the data failed on an executor.

    Parameters
    ----------
    message : str
        The original exception, as ``TypeName: text``.
    executor : str
        Spark's executor id.
    host : str
        The executor's host.
    partition : int
        The partition that was being trained.
    attempt : int
        Spark's attempt number of the task, from 0.
    frames : sequence of str
        The traceback as formatted lines, the user's own frames first.
    epoch : int
        The epoch that was being trained, from 0.
    batches : sequence of int
        The first and the last batch of the partition, from 0, among which it lies; they are the
        same where it is known. Empty if no batch was being trained.
    """

    def __init__(
        self,
        message: str,
        executor: str = "?",
        host: str = "?",
        partition: int = -1,
        attempt: int = 0,
        frames: Sequence[str] = (),
        epoch: int = 0,
        batches: Sequence[int] = (),
    ) -> None:
        given = executor, host, partition, attempt, tuple(frames), epoch, tuple(batches)
        super().__init__(message, *given)
        self.message = message
        self.executor = executor
        self.host = host
        self.partition = partition
        self.attempt = attempt
        self.frames = tuple(frames)
        self.epoch = epoch
        self.batches = tuple(batches)

    def _said(self) -> str:
        return "\n".join([f"{self.message}  [on {place(self)}]", *self.frames])


class Place(Protocol):
    """What knows where a program or its data failed; the parameters of `WorkerError`."""

    executor: str
    host: str
    partition: int
    attempt: int
    epoch: int
    batches: tuple[int, ...]


def place(failure: Place) -> str:
    """Return in words where a program or its data failed."""
    if failure.executor == "?" and failure.partition < 0:
        return "an executor"
    text = (
        f"executor {failure.executor} ({failure.host}), "
        f"partition {failure.partition}, attempt {failure.attempt}"
    )
    if not failure.batches:
        return text
    first, last = failure.batches[0], failure.batches[-1]
    which = f"batch {first}" if first == last else f"batches {first} to {last}"
    return f"{text}, epoch {failure.epoch + 1}, {which}"


def blamed(error: TosError) -> TosError:
    """Return a worker's error as that of the data, where the data are to blame.

    Whatever process has seen a bad row first, it is a `DataError` then, or a `ShapeMismatch`, with
    the `WorkerError` as its ``__cause__``.
    """
    if not isinstance(error, WorkerError):
        return error
    name, _, text = error.message.partition(": ")
    kind = {cls.__name__: cls for cls in (DataError, ShapeMismatch)}.get(name)
    if kind is None:
        return error
    found = kind(f"{text}  [on {place(error)}]")
    found.__cause__ = error
    return found


class InvalidTransition(TosError):
    """A command that the run's present state does not allow; nothing was changed.

    Parameters
    ----------
    state : str
        The run's state when the command came.
    command : str
        The command that was refused.
    reason : str
        Why, and what to do instead.
    """

    def __init__(self, state: str, command: str, reason: str) -> None:
        super().__init__(state, command, reason)
        self.state = state
        self.command = command
        self.reason = reason

    def _said(self) -> str:
        return f"Cannot {self.command} while the run is {self.state}: {self.reason}"


class CheckpointError(TosError):
    """A checkpoint cannot be written or read."""


class SessionClosed(TosError):
    """The session was closed before this call."""


class WaitTimeout(TosError, TimeoutError):
    """A wait with a timeout ran out; what was waited for may still happen."""
