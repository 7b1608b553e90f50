"""What is lost, and what a run waits for."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Event, WorkerEvent


@dataclass(slots=True)
class WorkerLost(WorkerEvent):
    """A worker's connection ended before it used up its partition."""

    reason: str


@dataclass(slots=True)
class WorkerFailed(WorkerEvent):
    """The program or the data raised on a worker."""

    message: str
    frames: tuple[str, ...]
    """The traceback's lines, innermost last."""
    epoch: int
    batches: tuple[int, ...]
    """The first and the last batch of the range that contains it, from 0; empty while reading the
    data."""


@dataclass(slots=True)
class Stalled(Event):
    """The run has waited for something for longer than it has patience. Once for each wait."""

    cause: str
    """The same in the `StallEnded` that withdraws it."""
    message: str
    look: str
    """What to look at."""
    since: float
    """When it began to wait, in seconds since the epoch."""


@dataclass(slots=True)
class StallEnded(Event):
    """What the run has waited for came, or it waits for something else now."""

    cause: str
    """As in `Stalled`."""


@dataclass(slots=True)
class JobRestarted(Event):
    """A Spark job lost workers or a shard; it starts again behind the last batch that counts."""

    restarts: int
    """Of jobs in a row that ended soon after they had started, this one included."""
    limit: int
    """After so many the run ends."""
    delay: float
    """Seconds until it starts."""
    reason: str
    what: str = "its workers"
    """What was lost."""

    def __str__(self) -> str:
        when = f"in {self.delay:g} s" if self.delay else "at once"
        count = f"{self.restarts} of at most {self.limit} restarts in a row"
        return f"The Spark job lost {self.what} and restarts {when} ({count}): {self.reason}"


@dataclass(slots=True)
class ParametersRestored(Event):
    """Shards of the parameters were lost; the run continues from its last copy in memory.

    Milestones of later versions no longer count, and their batches are trained again.
    """

    version: int
    """Of the copy."""
    milestones: int
    """How many do not count."""
    samples: int
    steps: int
    """Optimizer steps, of all workers together."""
    reason: str

    def __str__(self) -> str:
        again = f"{self.samples:,} rows are trained again" if self.samples else "no row is lost"
        return f"The run continues from its last copy in memory; {again}: {self.reason}"
