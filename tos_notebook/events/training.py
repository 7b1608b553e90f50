"""What is trained, left out and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from ..common.histogram import Histogram
from .base import Event, WorkerEvent


@dataclass(slots=True)
class WorkerJoined(WorkerEvent):
    """A worker opened its partition, for the first time or after a failure."""

    epoch: int
    resumed_at: int
    """Batches of the epoch that were already committed; 0 for a fresh start."""


@dataclass(slots=True)
class MilestoneCommitted(WorkerEvent):
    """The server merged one push. One row of ``run.history``."""

    epoch: int
    sequence: int
    steps: int
    """Batches that were trained since the pull."""
    optimizer_steps: int
    """By how many it takes the run's global step further: of a step that all make together, the
    first worker's milestone has it, and the others have 0."""
    samples: int
    loss: float
    """Mean over the milestone's samples."""
    staleness: int | None
    """Versions between the pull and the push; None where the strategy cannot count them."""
    version: int
    """The center's after the merge."""
    compute: float
    """Seconds in TensorFlow."""
    wait: float
    """Seconds that the worker waited: in a pause, for the sync mode, or for others of a step."""
    exchange: float
    """Seconds of the exchange that this milestone began with; a wait for others is in `wait`."""
    bytes_up: int
    """Bytes that the worker has sent: its update as it came, or what went to other workers."""
    bytes_down: int
    """Bytes of parameters, or from other workers, that went to it since its last milestone."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Means over the milestone's samples."""
    workers: int = 1
    """How many took part in the training then."""
    links: tuple[tuple[int, int, int], ...] = ()
    """The busiest links of a worker that exchanges with others: from whom, to whom, and bytes."""
    more_links: int = 0
    """How many more it has sent by."""
    cpu: float | None = None
    memory: int | None = None
    """Cores that the worker's process kept busy of late, and its bytes; None if unknown."""


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
    """Rows of one partition were left out because of a `column`, as the policy ``skip`` says.

    Told when the Spark job that read them has ended.
    """

    partition: int
    """Of the data as they came."""
    column: str
    rows: int
    """How many were left out."""
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
    """A worker used up its partition in one epoch; `samples` are all of its rows."""

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

    ``epoch`` is the latest completed one, or, between two ends of epochs, the current one.
    ``samples`` how many had been trained when the center was read, a milestone or two more or less.
    """

    epoch: int
    samples: int
    values: Mapping[str, float]
    """Loss and metrics by name."""

    @property
    def wrong(self) -> str:
        """The values that are not finite, in words; empty if all are."""
        return ", ".join(f"{n} {value}" for n, value in self.values.items() if not isfinite(value))

    @property
    def warning(self) -> str:
        """What is not finite, and what to look at; empty if all values are finite."""
        return self.wrong and (
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
    """A callback, a schedule, or a condition of ``stop_when=`` raised; it is not called again."""

    callback: str
    """Its class or name."""
    hook: str
    """What it was asked: such as ``on_epoch_end``, ``schedule`` or ``stop_when``."""
    message: str


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
class LabelsSkewed(Event):
    """A partition's labels are far from those of all rows."""

    text: str
    """Which it is, and the remedy."""

    def __str__(self) -> str:
        return self.text
