"""The worker: train one partition, and exchange with the server at every milestone.

Nothing here knows of sockets, TensorFlow or Spark: they come as a `Connection`, a `Runner`
and an iterator of blocks.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from ..archive.spec import Runner
from ..blocks.block import Columns
from ..blocks.feeds import check_values, non_finite
from ..blocks.skew import class_counts
from ..chaos.mishap import NOTHING, as_mishap
from ..common.arrays import Array
from ..common.content import content_of
from ..common.tracebacks import describe
from ..data.room import gathered
from ..data.stream import Stream
from ..errors import (
    ConfigError,
    ConnectError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    SessionClosed,
    TosError,
    TransportError,
)
from ..transport.base import Connection
from ..wire.messages import (
    Directive,
    Failed,
    Fetch,
    Finish,
    Join,
    Joined,
    Labelled,
    Loaded,
    Poll,
    Proceed,
    Push,
    Request,
    Rows,
    Suspect,
)
from ..wire.settings import WorkerSettings
from .batches import Feed, Held, Streamed, record_text
from .exchange import Exchange, expect
from .optimizer_state import OptimizerState

Answer = TypeVar("Answer")

_NUMBERS = re.compile(r"[<>|][biufc]\d{1,2}")

SEARCH = 1.0
"""Seconds for finding the batch that the program refuses."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker has to do; the same for all workers of a job.

    Parameters
    ----------
    run : str
        The run's id.
    seed : int
        Of the order of rows.
    shuffle : bool
        Whether that order is random.
    batch_size : int
        Rows of one batch.
    columns : int
        Columns to fetch from the server; 0 where Spark brings the rows.
    optimizer_state : {"keep", "reset"}
        What becomes of the optimizer state when parameters are adopted.
    count_labels : bool
        Whether to tell the server of the rows' labels: they are trained in the partitions in
        which they come.
    """

    run: str
    seed: int
    shuffle: bool
    batch_size: int
    columns: int
    optimizer_state: str = "keep"
    count_labels: bool = False


def refuse() -> None:
    """Let a process live that others need.

    Raises
    ------
    ConfigError
        Always.
    """
    raise ConfigError(
        "chaos.Kill: expected a worker in a process of its own, as Spark starts them; this one "
        "trains in a process that others need."
    )


class Worker:
    """One partition's training, from `Join` to the last `Finish`.

    Parameters
    ----------
    connection : Connection
        To the server.
    exchange : Exchange
        Moves the parameters, over the same connection or others.
    runner : Runner
        The program.
    plan : Plan
    join : Join
        Who this worker is.
    clock : callable
        Seconds, for the times in the pushes.
    sleep : callable
        Takes seconds; for chaos.
    kill : callable
        Ends this process, for chaos; by default it refuses to.
    """

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        runner: Runner,
        plan: Plan,
        join: Join,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
        kill: Callable[[], object] = refuse,
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._plan = plan
        self._join = join
        self._clock = clock
        self._sleep = sleep
        self._kill = kill
        self._mishap = NOTHING
        self._exchange = exchange
        self._optimizer_state = OptimizerState(runner, plan.optimizer_state)
        self._metrics: list[str] = []
        self._settings_version = -1
        self._sync_interval = 1
        self._version = 0
        self._waited = 0.0
        self._exchanged = 0.0
        self._failed_at: tuple[int, list[int]] = (0, [])
        self._unprepared: Exception | None = None

    def run(self, blocks: Iterable[Columns] | Iterable[Stream]) -> None:
        """Train over the partition's rows until the job's last epoch, or until told to leave.

        Parameters
        ----------
        blocks : iterable of Columns, or of one Stream
            The partition's rows, where Spark brings them, or what makes them.

        Raises
        ------
        Exception
            Whatever the program or the data raised, once the server knows of it.
        """
        joined = self._open()
        try:
            if joined.directive is Directive.WAIT:
                rows = self._load(blocks)
                feed = rows.feed(joined.epoch, joined.steps)
                if self._are_known(feed, rows.streamed):
                    self._runner.load()
                    # With the parameters of now: others have moved them while this one loaded.
                    if self._goes_on(joined.directive):
                        self._train(joined, rows, feed)
        except (TransportError, ProtocolError, SessionClosed, ConnectError):
            # Not the user's code, and the task's own failure says it all.
            raise
        except Exception as error:
            # A server that is gone must not hide what the user's code raised.
            with suppress(TosError):
                message, frames = describe(error)
                own = self._runner.explain(error)
                if own is not None:
                    # The traceback only leads into TensorFlow.
                    message, frames = own[0], own[1] or frames
                self._ask(Failed(message, frames, own is not None, *self._failed_at), Proceed)
            raise

    def _open(self) -> Joined:
        self._metrics = [name for name in self._runner.spec.outputs if name != "loss"]
        joined = self._exchange.join(replace(self._join, metrics=self._metrics))
        if joined.directive is Directive.GO:
            raise RemoteProtocolError("Expected to poll for parameters first, was told to train.")
        self._adopt_settings(joined.settings_version, joined.settings)
        return joined

    def _are_known(self, feed: Feed, streamed: bool) -> bool:
        """Tell the server what the rows are; return whether they are those from before."""
        if feed.content is None:
            return True
        answer = self._ask(Loaded(*feed.content, streamed), Proceed)
        return answer.directive is Directive.WAIT

    def _train(self, joined: Joined, rows: Held | Streamed, feed: Feed) -> None:
        steps, sequence = joined.steps, joined.sequence
        # An attempt that died between two exchanges has left state behind.
        self._optimizer_state.follow()
        for epoch in range(joined.epoch, joined.last_epoch + 1):
            if epoch > joined.epoch:
                feed = rows.feed(epoch, 0)
            if not self._train_epoch(epoch, feed, steps, sequence):
                return
            steps = sequence = 0

    def _train_epoch(self, epoch: int, feed: Feed, steps: int, sequence: int) -> bool:
        """Train from a batch on to the end of an epoch; return whether another one follows."""
        while count := self._steps(feed(steps, self._sync_interval)):
            # The next rows are collected while the server merges.
            directive = self._milestone(
                epoch, sequence, steps, feed, partial(self._prepare, feed, steps + count)
            )
            if self._unprepared is not None:
                raise self._unprepared
            if not self._goes_on(directive):
                return False
            self._follow()
            steps += count
            sequence += 1
        finished = self._ask(Finish(epoch, feed.rows, steps), Proceed)
        self._adopt_settings(finished.settings_version, finished.settings)
        return self._goes_on(finished.directive)

    def _prepare(self, feed: Feed, steps: int) -> None:
        """Collect the rows to train after this exchange."""
        try:
            feed(steps, self._sync_interval)
        except Exception as error:
            # The server's reply is on its way, and comes first.
            self._unprepared = error

    def _milestone(
        self,
        epoch: int,
        sequence: int,
        first: int,
        feed: Feed,
        meanwhile: Callable[[], object],
    ) -> Directive:
        batch = feed(first, self._sync_interval)
        began = self._clock()
        try:
            trained = self._runner.train(self._exchange.vectors, batch, self._plan.batch_size)
        except Exception:
            self._failed_at = epoch, self._failing_batches(first, batch)
            raise
        self._suffer(self._clock() - began)
        computed = self._clock()
        finite = self._exchange.write(trained.parameters)
        if not finite:
            self._suspect(first, feed, batch)
        push = Push(
            epoch=epoch,
            sequence=sequence,
            steps=self._steps(batch),
            samples=len(batch[0]),
            base_version=self._version,
            settings_version=self._settings_version,
            finite=finite,
            loss=trained.values.get("loss", float("nan")),
            compute=computed - began,
            wait=self._waited,
            exchange=self._exchanged,
            metrics=tuple(trained.values[name] for name in self._metrics),
            digest=feed.digest,
        )
        self._waited = 0.0
        reply = self._exchange.push(push, meanwhile)
        self._exchanged = self._clock() - computed
        if reply.status == "superseded":
            raise LocalProtocolError(
                f"Another attempt has taken over partition {self._join.partition}; "
                "this one ends without having been counted."
            )
        self._version = reply.version
        self._adopt_settings(reply.settings_version, reply.settings)
        return reply.directive

    def _suspect(self, first: int, feed: Feed, batch: Columns) -> None:
        """Tell of rows that are not finite themselves, before the update that is not."""
        found = non_finite(batch, self._runner.spec.feeds)
        if found is not None:
            name, values = found
            row, index = min((feed.row(first, index), index) for index in values)
            value = values[index]
            if not self._plan.columns:
                # No number of a row leads into data that Spark has dealt or sorted.
                value += f" in the record {record_text(batch, self._runner.spec.feeds, index)}"
            self._ask(Suspect(name, row, value, len(values)), Proceed)

    def _follow(self) -> None:
        """Let the optimizer state follow the parameters; part of the exchange."""
        if self._plan.optimizer_state != "keep":
            began = self._clock()
            self._optimizer_state.follow()
            self._exchanged += self._clock() - began

    def _suffer(self, busy: float) -> None:
        """Let happen what chaos has for this milestone, after computing for `busy` seconds."""
        delay = self._mishap.delay(busy)
        if delay > 0:
            self._sleep(delay)
        if self._mishap.kill:
            self._kill()

    def _steps(self, batch: Columns) -> int:
        return -(-len(batch[0]) // self._plan.batch_size) if batch else 0

    def _failing_batches(self, first: int, batch: Columns) -> list[int]:
        """Return the first and last of the batches, of which the program refused one.

        Each alone from where they all began, for as long as somebody may wait for the error.
        """
        size, end = self._plan.batch_size, self._clock() + SEARCH
        count = self._steps(batch)
        for number in range(count) if count > 1 else ():
            if self._clock() > end:
                break
            alone = tuple(column[number * size : (number + 1) * size] for column in batch)
            try:
                self._runner.train(self._exchange.vectors, alone, size)
            except Exception:
                return [first + number] * 2
        return [first, first + count - 1]

    def _goes_on(self, directive: Directive) -> bool:
        """Wait as long as told to; return whether to train on."""
        began = self._clock()
        while directive is Directive.WAIT:
            answer = self._poll()
            self._adopt_settings(answer.settings_version, answer.settings)
            directive = answer.directive
        self._waited += self._clock() - began
        return directive is Directive.GO

    def _poll(self) -> Proceed:
        proceed = self._exchange.poll(Poll(self._settings_version))
        if proceed.version is not None:
            self._version = proceed.version
        return proceed

    def _adopt_settings(self, version: int, settings: WorkerSettings | None) -> None:
        # Chaos is told for one milestone at a time.
        self._mishap = NOTHING if settings is None else as_mishap(settings.chaos)
        known, self._settings_version = self._settings_version, version
        if settings is None or version == known:
            return
        self._exchange.use(settings)
        self._sync_interval = settings.sync_interval
        if settings.learning_rate is not None:
            self._runner.set_learning_rate(settings.learning_rate)

    def _load(self, blocks: Iterable[Columns] | Iterable[Stream]) -> Held | Streamed:
        plan, partition = self._plan, self._join.partition
        feeds = self._runner.spec.feeds
        if plan.columns:
            columns = tuple(fetch(self._connection, i) for i in range(plan.columns))
        else:
            rest = iter(cast(Iterable[Any], blocks))
            first = next(rest, None)
            if isinstance(first, Stream):
                return Streamed(first, plan.seed, plan.batch_size, feeds)
            came = () if first is None else itertools.chain([first], rest)
            columns = gathered(came, [feed.name for feed in feeds], f"Partition {partition}")
        check_values(columns, feeds, f"Partition {partition}, row")
        if plan.count_labels and (counts := class_counts(columns, feeds)):
            self._ask(Labelled(list(counts), list(counts.values())), Proceed)
        content = content_of(columns)
        return Held(columns, plan.seed, partition, plan.shuffle, plan.batch_size, content, feeds)

    def _ask(self, message: Request, expected: type[Answer]) -> Answer:
        answer, _ = self._connection.request(message)
        return expect(expected, answer, message)


def fetch(connection: Connection, index: int) -> Array:
    """Return one column of the partition's rows, which the server has.

    Raises
    ------
    RemoteProtocolError
        What came is no column.
    """
    answer, payload = connection.request(Fetch(index))
    rows = expect(Rows, answer, Fetch(index))
    raw = np.frombuffer(b"" if payload is None else payload, np.uint8)
    try:
        # To numpy a dtype's text is a language of its own.
        if not _NUMBERS.fullmatch(rows.dtype):
            raise ValueError("not a dtype of numbers")
        return cast(Array, raw.view(rows.dtype).reshape(rows.shape))
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(
            f"Column {index}: expected {rows.shape} values of {rows.dtype[:80]!r}, "
            f"got {raw.nbytes} bytes: {error}."
        ) from error
