"""Events: facts about a run that have already happened, published to sinks.

Commands (see `tos_notebook.steering.machine`) are imperative, events are in the past tense.
Every event carries ``time``, seconds since the epoch, as the server's clock read it.

Nobody changes an event. They are not frozen all the same: making one frozen costs three times
as much, at every milestone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Event:
    """Base of all events."""

    time: float


@dataclass(slots=True)
class RunStarted(Event):
    """A run was accepted; its first Spark job is about to start."""

    run_id: str
    epochs: int
    partitions: int
    samples: int | None


@dataclass(slots=True)
class WorkerJoined(Event):
    """A worker opened its partition, for the first time or after a failure."""

    partition: int
    attempt: int
    executor: str
    host: str
    epoch: int
    resumed_at: int
    """Batches of the epoch that were already committed; 0 for a fresh start."""


@dataclass(slots=True)
class MilestoneCommitted(Event):
    """The server merged one push. One row of ``run.history``.

    ``loss`` and ``metrics`` are means over the milestone's samples. ``exchange`` is the
    time of the exchange *before* the milestone's computation, which gave it its parameters.
    """

    epoch: int
    partition: int
    executor: str
    host: str
    attempt: int
    sequence: int
    steps: int
    samples: int
    loss: float
    staleness: int
    version: int
    compute: float
    """Seconds in TensorFlow."""
    wait: float
    """Seconds the worker was told to wait (pause, synchronisation)."""
    exchange: float
    """Seconds between sending an update and adopting the reply."""
    bytes_up: int
    """Bytes of the update as it came."""
    bytes_down: int
    """Bytes of parameters that went to the worker since its last milestone."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    workers: int = 1
    """How many took part in the training then."""


@dataclass(slots=True)
class UpdateSkipped(Event):
    """A non-finite update was refused and left out, as the policy ``skip`` says."""

    epoch: int
    partition: int
    attempt: int
    sequence: int
    reason: str


@dataclass(slots=True)
class RowsSkipped(Event):
    """Rows of one partition were left out because of one column, as the policy ``skip`` says.

    Told when the Spark job that read them has ended.
    """

    partition: int
    """Of the data as they came."""
    column: str
    rows: int
    first: int
    """The first of them, from 0 within the partition."""
    reason: str
    """What is wrong with that one."""

    def __str__(self) -> str:
        count = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        return (
            f"{count} of partition {self.partition} left out for column {self.column!r}: the first "
            f"is row {self.first}, with {self.reason}."
        )


@dataclass(slots=True)
class PartitionFinished(Event):
    """A worker used up its partition in one epoch."""

    epoch: int
    partition: int
    samples: int


@dataclass(slots=True)
class EpochFinished(Event):
    """Every partition was used up."""

    epoch: int
    samples: int


@dataclass(slots=True)
class Validated(Event):
    """The center was evaluated on the validation data.

    ``epoch`` is the one that was done, or, between two ends of epochs, the latest under way;
    ``samples`` how many had been trained when the center was read, a milestone or two more or less.
    """

    epoch: int
    samples: int
    values: Mapping[str, float]

    @property
    def wrong(self) -> str:
        """The values that are not finite, in words; empty if all are."""
        return ", ".join(f"{n} {value}" for n, value in self.values.items() if not isfinite(value))

    @property
    def warning(self) -> str:
        """What is not finite, and what to look at; empty if all values are finite."""
        if not self.wrong:
            return ""
        return (
            f"At epoch {self.epoch + 1} the validation data gave {self.wrong}. Look at its rows "
            "for NaN, infinity and values far from those of the training data. Look at the model's "
            "loss and metrics for log(0) and divisions by 0. If the training loss grows "
            "as well, lower the learning rate."
        )


@dataclass(slots=True)
class ValidationFailed(Event):
    """The center could not be evaluated; it is not tried again in this run."""

    epoch: int
    message: str


@dataclass(slots=True)
class CallbackFailed(Event):
    """A callback raised; it is not called again in this run.

    So does a schedule of the learning rate, or a condition of ``stop_when=``.
    """

    callback: str
    hook: str
    message: str


@dataclass(slots=True)
class Histogram:
    """How often values lie between `edges`; of large tensors, of evenly chosen ones."""

    counts: npt.NDArray[np.float64]
    """Shape (bins,)."""
    edges: npt.NDArray[np.float64]
    """Shape (bins + 1,), ascending."""


@dataclass(slots=True)
class WeightsMeasured(Event):
    """The center's parameters were looked at."""

    samples: int
    """How many had been trained, a milestone or two more or less."""
    weights: Mapping[str, Histogram]
    """By parameter."""
    updates: Mapping[str, Histogram]
    """What was added since the last time; empty at the first."""


@dataclass(slots=True)
class Repartitioned(Event):
    """The data was laid out anew between two epochs."""

    epoch: int
    partitions: int
    seconds: float


@dataclass(slots=True)
class WorkerLost(Event):
    """A worker's connection ended before it used up its partition."""

    partition: int
    attempt: int
    executor: str
    host: str
    reason: str


@dataclass(slots=True)
class WorkerFailed(Event):
    """The program or the data raised on a worker."""

    partition: int
    attempt: int
    executor: str
    host: str
    message: str
    frames: tuple[str, ...]
    epoch: int
    batches: tuple[int, ...]
    """The first and the last batch among which it lies, from 0; empty while reading the data."""


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


@dataclass(slots=True)
class LabelsSkewed(Event):
    """A partition's labels are far from those of all rows, which `text` says with the remedy."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class JobRestarted(Event):
    """A Spark job lost its workers; it starts again behind the last batch that was committed."""

    restarts: int
    """Of jobs in a row that ended soon after they had started, this one included."""
    limit: int
    """After so many the run ends."""
    delay: float
    """Seconds until it starts."""
    reason: str

    def __str__(self) -> str:
        when = f"in {self.delay:g} s" if self.delay else "at once"
        return (
            f"The Spark job lost its workers and restarts {when} ({self.restarts} of at most "
            f"{self.limit} restarts in a row): {self.reason}"
        )


@dataclass(slots=True)
class CommandAccepted(Event):
    """A command was found legal; `tos_notebook.steering.actions` says when it takes effect.

    ``detail`` says in words what was asked for; ``changes`` has the settings of ``set`` by name,
    as text.
    """

    command: str
    detail: str
    changes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CommandApplied(Event):
    """A command took effect."""

    command: str
    detail: str


@dataclass(slots=True)
class CommandLapsed(Event):
    """The run ended before a command could take effect."""

    command: str
    detail: str


@dataclass(slots=True)
class StateChanged(Event):
    """The run's state machine moved."""

    state: str


@dataclass(slots=True)
class RunResumed(Event):
    """A run goes on from a checkpoint, in another process or after its end.

    The events until the checkpoint come before, as they were; what was trained after it is gone,
    and is trained again.
    """

    checkpoint: int
    epochs: int
    partitions: int
    samples: int | None
    """Rows of the data; None where the size is unknown."""


@dataclass(slots=True)
class CheckpointWritten(Event):
    """A checkpoint was written, whole."""

    number: int
    version: int
    """That of the center in it."""
    nbytes: int
    seconds: float
    """From its beginning to its end, on a thread of its own."""
    stall: float
    """Seconds of it in which no push was let in."""


@dataclass(slots=True)
class CheckpointFailed(Event):
    """A checkpoint could not be written; training goes on, and it is tried again when due.

    At the run's end: it was not written in time.
    """

    message: str

    def __str__(self) -> str:
        return f"A checkpoint failed: {self.message}"


@dataclass(slots=True)
class RunFinished(Event):
    """The run ended; nothing follows.

    ``outcome`` is ``finished``, ``stopped`` or ``failed``; ``error`` its message if failed,
    ``reason`` why it was stopped, if that is known.
    """

    outcome: str
    error: str | None = None
    reason: str | None = None
