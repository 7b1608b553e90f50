"""Events: facts about a run that have already happened, published to sinks.

Commands (see `tos_notebook.steering.machine`) are imperative, events are in the past tense. What
several events have:

- `epoch`, `partition`: their numbers, from 0; `epochs`, `partitions`: how many the run has.
- `samples`: rows that were trained.
- `attempt`: which try of Spark's at the partition it is, from 0.
- `executor`, `host`: Spark's id of the worker's executor, and where that runs.
- `sequence`: which push of the partition in the epoch it is, from 0.
- `command`: the name, as in `tos_notebook.steering.machine.Command`.
- `detail`, `message`, `reason`: what was asked for, what happened, and why, if that is known.

Events are not changed. To freeze them would cost three times as much, at every milestone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from .common.histogram import Histogram

SLOTS = "slots: "
"""Begins the cause of a wait for slots that other runs have."""

DRIVER = -1
"""Stands for the driver where the ends of a link are partitions."""


@dataclass(slots=True)
class Event:
    """Base of all events."""

    time: float
    """Seconds since 1970, by the server's clock."""


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
class WorkerEvent(Event):
    """Base of what happens to one worker."""

    partition: int
    attempt: int
    executor: str
    host: str


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
    """Seconds the worker waited: told to (pause, synchronisation), or for others of a step."""
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

    ``epoch`` is the latest that was done, or, between two ends of epochs, the latest under way;
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
class Repartitioned(Event):
    """The data was laid out again between two epochs."""

    epoch: int
    partitions: int
    seconds: float
    """How long it took."""


@dataclass(slots=True)
class StrategySwapped(Event):
    """Another strategy trains the run, from an epoch on."""

    epoch: int
    strategy: str
    lockstep: bool
    """As in `RunStarted`."""


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
    """As in `Stalled`."""


@dataclass(slots=True)
class LabelsSkewed(Event):
    """A partition's labels are far from those of all rows."""

    text: str
    """Which it is, and the remedy."""

    def __str__(self) -> str:
        return self.text


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

    Milestones of later versions do not count any more, and their batches are trained again.
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


@dataclass(slots=True)
class CommandAccepted(Event):
    """A command was found legal; `tos_notebook.steering.actions` says when it takes effect."""

    command: str
    detail: str
    """In words, what was asked for."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """The settings of ``set`` by name, as text."""
    source: str = "Python"
    """Who asked for it; see `tos_notebook.Run.events`."""


@dataclass(slots=True)
class CommandApplied(Event):
    """A command took effect."""

    command: str
    detail: str


@dataclass(slots=True)
class CommandLapsed(Event):
    """A command had no effect: the run ended before, or another command took its place."""

    command: str
    detail: str


@dataclass(slots=True)
class StateChanged(Event):
    """The run's state machine moved."""

    state: str
    """The new one, as in `RunStatus.state`."""


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
class CheckpointWritten(Event):
    """A checkpoint was written, whole."""

    number: int
    """Counts those of the run."""
    version: int
    """That of the center in it."""
    nbytes: int
    """Bytes of its files."""
    seconds: float
    """From its beginning to its end, on a thread of its own."""
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
