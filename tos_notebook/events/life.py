"""A run from its start to its end: states and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Event


@dataclass(slots=True)
class RunStarted(Event):
    """A run was accepted; its first Spark job is about to start."""

    run_id: str
    """That of `Run.run_id`."""
    epochs: int
    partitions: int
    samples: int | None
    """Rows of the data; None where the size is unknown."""
    lockstep: bool = False
    """Whether all workers make each step together, so that nothing is stale."""


@dataclass(slots=True)
class RunResumed(Event):
    """A run continues from a checkpoint. The events until then come before, as they were."""

    checkpoint: int
    """Its number."""
    epochs: int
    partitions: int
    samples: int | None
    """Rows of the data; None where the size is unknown."""
    lockstep: bool = False


@dataclass(slots=True)
class StateChanged(Event):
    """The run's state machine moved."""

    state: str
    """The new one, as in `RunStatus.state`."""


@dataclass(slots=True)
class CheckpointWritten(Event):
    """A checkpoint was written, whole."""

    number: int
    """Counts those of the run."""
    version: int
    """That of the center in it."""
    nbytes: int
    """Bytes of its files."""
    seconds: float
    """From its beginning to its end, on a separate thread."""
    stall: float
    """Seconds of it in which no push was let in."""


@dataclass(slots=True)
class CheckpointFailed(Event):
    """A checkpoint could not be written, or not before the run's end; the next one is tried."""

    message: str

    def __str__(self) -> str:
        return f"A checkpoint failed: {self.message}"


@dataclass(slots=True)
class RunFinished(Event):
    """The run ended; nothing follows."""

    outcome: str
    """``finished``, ``stopped`` or ``failed``."""
    error: str | None = None
    """Its message if it failed."""
    reason: str | None = None
