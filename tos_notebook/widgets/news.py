"""What a reader of a model is given, and what it gives back to be told more.

The front end's types of the same things are in ``labextension/src/view/model.ts``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

Plain = Mapping[str, object]
"""JSON of which only a front end knows the names."""


class InForce(TypedDict):
    """A run's settings, as words and numbers."""

    strategy: str
    lockstep: bool
    """Whether all workers make each step together: nothing is stale then."""
    continues: bool
    """Whether they do so without a worker that was lost, after a while."""
    combiner: str | None
    sync: str
    codec: str
    sync_interval: int | None
    """None where workers exchange once in an epoch."""
    batch_size: int
    learning_rate: float | None
    """What was set; None for the program's own."""
    own_rate: float | None
    """The program's own, where it is a number that stays as it is."""
    rate_before: NotRequired[float | None]
    """The learning rate before the present one, as far as a view has seen it."""
    validates: bool
    """Whether it evaluates validation data: their values have a place before they come."""
    shards: list[Plain]
    """What has the parameters, if the driver has not: as rows of the workers' table."""
    chaos: list[str]
    chaos_log: list[str]
    actions: NotRequired[list[Plain]]
    """The commands that it obeys; in a delta only if the strategy has changed."""


class Facts(InForce):
    """What a model does not know of its run: see `facts.RunFacts`."""

    id: str
    number: int
    name: str | None
    """What the run is called; None if it has no name."""
    has_learning_rate: bool
    master: str
    program: str
    model_bytes: int
    """Of the parameters, as they are; 0 where they are not what a milestone exchanges."""
    measures: list[str]
    """What a training step gives beside its loss, as far as that is known before the first."""


class Failure(TypedDict):
    """A run's error in parts."""

    message: str
    where: str | None
    """None if no worker is to blame."""
    frames: list[str]
    """The user's own."""
    rest: str
    """What else is known; may be empty."""


class RunInfo(Facts):
    """How far a run is."""

    state: str
    epoch: int
    epochs: int
    elapsed: float
    partitions: int
    error: Failure | None
    reason: str | None
    waits: list[str]
    pending: list[str]
    """What was asked for, and waits for the end of the epoch."""
    lost: list[str]
    """Who was lost and is not there again, and what the run does about it."""


class Slowest(TypedDict):
    """The worker for which the others of a step wait."""

    executor: str
    partition: int
    waiting: float | None
    """Share of its time in which it waits."""
    others: float | None
    """The same of the others, on average."""


class Costs(TypedDict):
    """What workers that make each step together do of late, on average."""

    compute: float | None
    """Share of their time, as are the next two."""
    exchange: float | None
    wait: float | None
    sent: float | None
    """Bytes a second, of one worker."""
    received: float | None
    slowest: Slowest | None
    """None if none stands out."""


class Links(TypedDict):
    """What links carry of late."""

    rates: list[tuple[int, int, float | None]]
    """From which partition, to which one, and bytes a second, the busiest first; -1 is the
    driver."""
    more: int
    """How many links there are besides."""


class BestValue(TypedDict):
    """The best evaluation of one metric."""

    value: float | None
    epoch: int
    """From 1."""


class Concern(TypedDict):
    """What a person should know of how the run learns."""

    kind: str
    """"diverging" or "overfitting"."""
    epoch: int | None
    """Of an overfitting run: since when its validation loss has grown, from 1."""
    factor: float | None
    """Of a diverging run: how many times its lowest loss its loss is; None if that is no number."""


class Totals(TypedDict):
    """What a run has trained so far."""

    milestones: int
    samples: int
    samples_total: int | None
    samples_per_second: float | None
    validation: dict[str, float | None]
    best: dict[str, BestValue]
    """By metric, of the evaluations so far, where its name tells what is better."""
    warning: Concern | None
    loss: float | None
    metrics: dict[str, float | None]
    """Of training, over the same milestones as the loss."""
    staleness_mean: float | None
    """None where nothing can be stale, and before anything is trained; so the next one."""
    recent_staleness: float | None
    recent_workers: float | None
    bytes: int
    costs: Costs | None
    """None where workers do not make each step together, and before anything is trained."""
    links: Links | None
    """None where `costs` is, and where nothing is known of links."""
    eta: float | None
    """Seconds of training to go; None at first, while that cannot be known, and after the end."""


class SeriesHead(TypedDict):
    """One curve's points in a buffer."""

    name: str
    split: str
    """``"training"``, ``"validation"``, or ``"work"`` for what the work itself was like."""
    length: int


class CommandEntry(TypedDict):
    """What became of a command."""

    time: float
    command: str
    changes: dict[str, str]
    detail: str
    stage: str
    since: float | None
    """When it came into force or was refused; None before."""
    series: str | None
    """What sets the learning rate again and again, of which this is the latest; else None."""
    when: str


class State(TypedDict, total=False):
    """A run in JSON; a delta lacks what has not changed."""

    run: RunInfo
    totals: Totals
    series: list[SeriesHead]
    workers: Sequence[Plain]
    lanes: Plain
    marks: Sequence[Plain]
    commands: list[CommandEntry]
    log: list[Plain]


@dataclass(frozen=True, slots=True)
class Cursor:
    """How much of a model a reader has; the model makes it, and reads it again."""

    generation: tuple[int, int]
    changes: int
    series: tuple[int, ...]
    lanes: int
    marks: int
    commands: int
    log: int
    strategy: str


@dataclass(frozen=True, slots=True)
class News:
    """A snapshot's or a delta's state and buffers, and what its reader has then."""

    state: State
    buffers: list[bytes]
    cursor: Cursor
