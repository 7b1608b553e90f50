"""Messages between a worker and the server: what they say to each other.

A field's type names its limits, too (see `limits`): bodies that exceed them are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from ..common.content import NO_DIGEST
from .limits import (
    Cores,
    Count,
    Counts,
    Hosts,
    Labels,
    Lines,
    Maybe,
    Metrics,
    Name,
    Names,
    Pair,
    Seconds,
    Shape,
    Short,
    Text,
    Token,
)
from .settings import WorkerSettings

Status = Literal["committed", "duplicate", "skipped", "superseded", "again"]
"""``"again"``: it does not count yet, since a worker of the same milestone was lost."""


class Directive(StrEnum):
    """What a worker does next."""

    GO = "go"
    WAIT = "wait"
    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Join:
    """A worker opens its partition.

    `task` is Spark's task attempt id, the owner's token. `segment` names shared memory of the
    worker's host in which updates and replies could lie (see `transport.shared`), or is empty.
    `metrics` are the names of those in its pushes.
    """

    run: Name
    partition: Count
    attempt: Count
    task: Token
    host: Name
    pid: Token
    segment: Name
    metrics: Names


@dataclass(frozen=True, slots=True)
class Joined:
    """Continue in `epoch` after `steps` committed batches, from `sequence`.

    The directive is to wait: the worker loads what it needs, and polls for parameters then. With
    `shared`, payloads of `Push`, `Reply` and `Proceed` lie in the worker's segment instead of
    following the frame. `before` is the task that had the partition until now.
    """

    epoch: Count
    steps: Count
    sequence: Count
    last_epoch: Count
    settings: WorkerSettings
    settings_version: Count
    directive: Directive
    shared: bool
    before: Maybe = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask for one column of the partition's rows."""

    column: Count


@dataclass(frozen=True, slots=True)
class Rows:
    """One column. Payload: its raw values in C order, none if it has no rows."""

    dtype: Name
    shape: Shape


@dataclass(frozen=True, slots=True)
class Loaded:
    """The worker has loaded its rows, and trains none yet: how many, and their digest.

    The server does not have these rows itself. They are the whole partition; if `streamed`, those
    of the epoch's batches that are committed, which the worker has skipped.
    """

    rows: Count
    digest: Name
    streamed: bool


class Push(NamedTuple):
    """One milestone. Payload: the update.

    Without steps, the worker only takes part in what others train. `finite` says that the update
    has neither NaN nor infinity in it; `compute`, `wait` and `exchange` are seconds. `cpu` is how
    many cores the worker's process has kept busy of late. `memory` is what that process has, in
    KiB, or 0 if unknown. `metrics` are values in the order of `Join.metrics`. `digest` is of a
    stream's rows from the epoch's first batch to this push's last one.
    """

    epoch: Count
    sequence: Count
    steps: Count
    samples: Count
    base_version: Count
    settings_version: Count
    finite: bool
    loss: float
    compute: Seconds
    wait: Seconds
    exchange: Seconds
    cpu: Cores
    memory: Count
    metrics: Metrics
    digest: bytes = NO_DIGEST


@dataclass(frozen=True, slots=True)
class Labelled:
    """The labels of the partition's rows, and how many rows have each of them."""

    labels: Labels
    rows: Counts


@dataclass(frozen=True, slots=True)
class Suspect:
    """The worker's rows may have spoiled the update of the next push: NaN or infinity.

    `feed` is the input's name, `row` the first such row of the partition, `value` what it holds,
    `rows` how many of the milestone's rows hold any.
    """

    feed: Name
    row: Count
    value: Short
    rows: Count


class Reply(NamedTuple):
    """The outcome of a push. Payload: the parameters to adopt.

    A superseded worker gets none. One that must wait gets the newest when it continues, unless it
    keeps its own.
    """

    version: Count
    settings_version: Count
    status: Status
    directive: Directive
    settings: WorkerSettings | None


@dataclass(frozen=True, slots=True)
class Finish:
    """The partition is used up for this epoch."""

    epoch: Count
    samples: Count
    steps: Count


@dataclass(frozen=True, slots=True)
class Poll:
    """A waiting worker asks whether it may continue."""

    settings_version: Count


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker listens for others, by this address and certificate, to train an epoch with them.

    `fingerprint` is in hexadecimal digits, or empty.
    """

    epoch: Count
    host: Name
    port: Count
    fingerprint: Name


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The worker waits for one of its generation, by its rank, and asks whether it still needs to.

    `problem` says why it cannot reach that one, and is empty while it waits.
    """

    generation: Count
    rank: Count
    problem: Short


@dataclass(frozen=True, slots=True)
class Formed:
    """All workers that an epoch needs are ready. Payload: what they begin with.

    The worker is number `rank` of those at the addresses. `generation` grows from one answer of
    this kind to the next. `whole` says whether each partition takes part. `version` is that of the
    parameters.
    """

    generation: Count
    rank: Count
    hosts: Hosts
    ports: Counts
    fingerprints: Hosts
    whole: bool
    version: Count
    settings_version: Count
    settings: WorkerSettings


@dataclass(frozen=True, slots=True)
class Serving:
    """A shard listens for workers, by this address and certificate, and asks what to do.

    `token` names what the driver has started it for. `fingerprint` is as in `Ready`.
    """

    token: Name
    shard: Count
    host: Name
    port: Count
    fingerprint: Name
    pid: Token


@dataclass(frozen=True, slots=True)
class Done:
    """A shard has obeyed an order, or got none, and asks for the next. Payload: what was asked for.

    `version` is that of its parameters. `error` is the class of what went wrong with the order, or
    with an update that counts; then `text` says what. `millicores` are thousandths of a core that
    its process has kept busy of late, and `memory` is as in `Push`. `received` and `sent` are bytes
    of parameters so far, from workers and to them.
    """

    order: Count
    version: Count
    error: Name
    text: Text
    millicores: Count = 0
    memory: Count = 0
    received: Count = 0
    sent: Count = 0


@dataclass(frozen=True, slots=True)
class Order:
    """What a shard does next, and what with: the payload. Number 0 is to ask again."""

    number: Count
    what: Name


@dataclass(frozen=True, slots=True)
class Attach:
    """A worker opens its partition at a shard; all before this push count.

    `generation` is what the driver has named to it. `workers` were active when the push before was
    counted.
    """

    generation: Name
    partition: Count
    task: Token
    epoch: Count
    sequence: Count
    workers: Count


@dataclass(frozen=True, slots=True)
class Encoding:
    """What the worker's updates are from now on, and the codec for them and for replies.

    With `by_row`, tables are exchanged by row, and the worker has no row that was sent before.
    """

    pushes: Name
    codec: Name
    by_row: bool


@dataclass(frozen=True, slots=True)
class Collect:
    """What became of the worker's update at the driver: to be merged, or to be forgotten.

    With `give`, the shard sends parameters, as soon as they have at least this version. `workers`
    are the active ones.
    """

    epoch: Count
    sequence: Count
    merge: bool
    give: bool
    version: Count
    workers: Count


@dataclass(frozen=True, slots=True)
class Lookup:
    """Ask a shard for rows of a served table. Payload: their numbers; the answer's, the rows."""

    table: Count


@dataclass(frozen=True, slots=True)
class LeaveRows:
    """How rows of a served table have changed, for the push of this place that follows.

    Payload: the numbers of the rows, then what has changed.
    """

    table: Count
    epoch: Count
    sequence: Count


@dataclass(frozen=True, slots=True)
class Failed:
    """The program or the data raised: the exception's text and its traceback's lines.

    `in_program`: it was an operation of the program, which would fail again. `batches`: the first
    and the last of those of `epoch` among which it lies, from 0; empty while reading the data.
    """

    message: Text
    frames: Lines
    in_program: bool
    epoch: Count
    batches: Pair


@dataclass(frozen=True, slots=True)
class Proceed:
    """The worker's next directive; `settings` when they changed since its version.

    `version` is that of the parameters to adopt, which are the payload; None without any.
    """

    directive: Directive
    settings_version: Count
    settings: WorkerSettings | None
    version: Maybe = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The server cannot serve a request: an error's class name and its text."""

    error: Name
    text: Text


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The worker leaves in order. Without it, a lost connection is a lost worker."""


OfWorkers = (
    Join | Fetch | Loaded | Push | Finish | Poll | Ready | Awaiting | Failed | Suspect | Labelled
)
OfShards = Serving | Done
ToShards = Attach | Encoding | Collect | Lookup | LeaveRows
Request = OfWorkers | OfShards | ToShards
Answer = Joined | Rows | Reply | Proceed | Formed | Order
Message = Request | Answer | Refused | Goodbye

KINDS: dict[int, type[Message]] = {
    1: Join,
    2: Joined,
    3: Fetch,
    4: Rows,
    5: Push,
    6: Reply,
    7: Finish,
    8: Poll,
    9: Failed,
    10: Proceed,
    11: Refused,
    12: Goodbye,
    13: Suspect,
    14: Loaded,
    15: Labelled,
    16: Ready,
    17: Formed,
    18: Awaiting,
    19: Serving,
    20: Done,
    21: Order,
    22: Attach,
    23: Encoding,
    24: Collect,
    25: Lookup,
    26: LeaveRows,
}
