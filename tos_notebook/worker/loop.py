"""The worker: train one partition, and exchange with the server at every milestone.

Nothing here knows of sockets, TensorFlow or Spark: they come as a `Connection`, a `Runner`
and an iterator of blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ..archive.runner import Runner
from ..blocks.block import Columns
from ..blocks.feeds import non_finite
from ..common.tracebacks import describe
from ..data.stream import Stream
from ..errors import (
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
    Finish,
    Join,
    Joined,
    Loaded,
    Poll,
    Proceed,
    Push,
    Request,
    Suspect,
)
from ..wire.settings import WorkerSettings
from .batches import Batches, Feed, record_text
from .chaos_effects import ChaosEffects
from .exchange import Answer, Exchange, ask
from .loading import load
from .optimizer_state import OptimizerState
from .plan import Plan
from .usage import UsageMeter

SEARCH = 1.0
"""Seconds for the search for the batch that the program refuses."""


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
        The identity of this worker.
    clock : callable
        Seconds, for the times in the pushes.
    chaos : ChaosEffects, optional
        What chaos may do to this worker; by default it may not end the process.
    load : callable
        Returns the partition's rows; see `worker.loading.load`.
    """

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        runner: Runner,
        plan: Plan,
        join: Join,
        clock: Callable[[], float] = time.perf_counter,
        chaos: ChaosEffects | None = None,
        load: Callable[..., Batches] = load,
    ) -> None:
        self._connection = connection
        self._load = load
        self._runner = runner
        self._plan = plan
        self._join = join
        self._clock = clock
        self._chaos = ChaosEffects() if chaos is None else chaos
        self._exchange = exchange
        self._optimizer_state = OptimizerState(runner, plan.optimizer_state)
        self._metrics: list[str] = []
        self._settings_version = -1
        self._sync_interval = 1
        self._version = 0
        self._waited = 0.0
        self._exchanged = 0.0
        self._failed_at: tuple[int, list[int]] = (0, [])
        # Whether the next rows were collected, and what that has raised.
        self._ahead = False
        self._unprepared: Exception | None = None
        self._usage = UsageMeter(clock)

    def run(self, blocks: Iterable[Columns] | Iterable[Stream]) -> None:
        """Train the partition's rows until the job's last epoch, or until the server ends it.

        Parameters
        ----------
        blocks : iterable of Columns, or of one Stream
            The partition's rows, where Spark brings them, or what makes them.

        Raises
        ------
        Exception
            What the program or the data raised, once the server knows of it.
        """
        feeds = self._runner.spec.feeds
        joined = self._open()
        try:
            if joined.directive is Directive.WAIT:
                place = self._plan, self._join.partition, feeds
                rows = self._load(self._connection, *place, blocks)
                feed = rows.feed(joined.epoch, joined.steps)
                if self._rows_are_known(feed, rows.streamed):
                    self._runner.load()
                    # With the parameters of now: others have moved them while this one loaded.
                    if self._wait_for_go(joined.directive):
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

    def _rows_are_known(self, feed: Feed, streamed: bool) -> bool:
        """Tell the server what the rows are; return whether they are those from before."""
        if feed.content is None:
            return True
        answer = self._ask(Loaded(*feed.content, streamed), Proceed)
        return answer.directive is Directive.WAIT

    def _train(self, joined: Joined, rows: Batches, feed: Feed) -> None:
        steps, sequence = joined.steps, joined.sequence
        # An attempt that died between two exchanges has left state behind.
        self._optimizer_state.follow()
        for epoch in range(joined.epoch, joined.last_epoch + 1):
            if epoch > joined.epoch:
                feed = rows.feed(epoch, 0)
            if not self._train_epoch(epoch, rows, feed, steps, sequence):
                return
            steps = sequence = 0

    def _train_epoch(
        self,
        epoch: int,
        rows: Batches,
        feed: Feed,
        steps: int,
        sequence: int,
    ) -> bool:
        """Train from a batch to the end of an epoch; return whether another epoch follows."""
        while self._prepared(epoch):
            batch = feed(steps, self._batches)
            count = self._steps(batch)
            if not (count or self._exchange.attends):
                return self._finish(epoch, feed.rows, steps)
            self._ahead = False
            # The next rows are collected while the server merges.
            following = partial(self._collect_next, feed, steps + count)
            directive = self._milestone(epoch, sequence, steps, feed, following)
            if self._unprepared is not None:
                raise self._unprepared
            if not self._wait_for_go(directive):
                return False
            self._update_optimizer_state()
            if self._exchange.again:
                if self._ahead:
                    # A feed does not go back.
                    feed = rows.feed(epoch, steps)
                    if not self._rows_are_known(feed, rows.streamed):
                        return False
                continue
            steps += count
            sequence += count > 0
        return False

    @property
    def _batches(self) -> int:
        """How many batches a milestone takes."""
        return self._sync_interval * self._exchange.rounds

    def _prepared(self, epoch: int) -> bool:
        """Let the exchange get ready; return whether to continue."""
        began = self._clock()
        while (news := self._exchange.prepare(self._runner, epoch)) is not None:
            self._adopt_settings(news.settings_version, news.settings)
            if news.directive in (Directive.STOP, Directive.LEAVE):
                return False
        self._waited += self._clock() - began
        return True

    def _finish(self, epoch: int, rows: int, steps: int) -> bool:
        """Tell the server that the rows of an epoch are used up; return whether to continue."""
        finished = self._ask(Finish(epoch, rows, steps), Proceed)
        self._adopt_settings(finished.settings_version, finished.settings)
        return self._wait_for_go(finished.directive)

    def _collect_next(self, feed: Feed, steps: int) -> None:
        """Collect the rows to train after this exchange."""
        self._ahead = True
        try:
            feed(steps, self._batches)
        except Exception as error:
            # The server's reply is on its way, and comes first.
            self._unprepared = error

    def _milestone(
        self, epoch: int, sequence: int, first: int, feed: Feed, meanwhile: Callable[[], object]
    ) -> Directive:
        batch = feed(first, self._batches)
        began = self._clock()
        try:
            trained = self._exchange.train(self._runner, batch, self._plan.batch_size)
        except Exception:
            self._failed_at = epoch, self._failing_batches(first, batch)
            raise
        if trained is None:
            return Directive.GO
        self._chaos.apply(self._clock() - began)
        computed = self._clock()
        finite = self._exchange.write(trained.parameters)
        if not finite:
            self._report_suspect(first, feed, batch)
            self._runner.reset_non_finite_state()
        cpu, memory = self._usage.read()
        push = Push(
            epoch=epoch,
            sequence=sequence,
            steps=self._steps(batch),
            samples=len(batch[0]) if batch else 0,
            base_version=self._version,
            settings_version=self._settings_version,
            finite=finite,
            loss=trained.values.get("loss", float("nan")),
            compute=computed - began,
            wait=self._waited,
            exchange=self._exchanged,
            cpu=cpu,
            memory=memory,
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

    def _report_suspect(self, first: int, feed: Feed, batch: Columns) -> None:
        """Report rows that are not finite themselves, before the update that is not."""
        found = non_finite(batch, self._runner.spec.feeds)
        if found is not None:
            name, values = found
            row, index = min((feed.row(first, index), index) for index in values)
            value = values[index]
            if not self._plan.columns:
                # No number of a row leads into data that Spark has dealt or sorted.
                value += f" in the record {record_text(batch, self._runner.spec.feeds, index)}"
            self._ask(Suspect(name, row, value, len(values)), Proceed)

    def _update_optimizer_state(self) -> None:
        """Fit the optimizer state to the parameters just adopted; part of the exchange."""
        if self._plan.optimizer_state != "keep":
            began = self._clock()
            self._optimizer_state.follow()
            self._exchanged += self._clock() - began

    def _steps(self, batch: Columns) -> int:
        return -(-len(batch[0]) // self._plan.batch_size) if batch else 0

    def _failing_batches(self, first: int, batch: Columns) -> list[int]:
        """Return the first and last of the batches, of which the program refused one.

        Each batch is tried alone from where they all began, for at most `SEARCH` seconds: the user
        may wait for the error.
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

    def _wait_for_go(self, directive: Directive) -> bool:
        """Wait as long as the server says so; return whether to continue."""
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
        # The server sends chaos for one milestone at a time.
        self._chaos.prepare(settings)
        known, self._settings_version = self._settings_version, version
        if settings is None or version == known:
            return
        self._exchange.use(settings)
        self._sync_interval = settings.sync_interval
        if settings.learning_rate is not None:
            self._runner.set_learning_rate(settings.learning_rate)

    def _ask(self, message: Request, expected: type[Answer]) -> Answer:
        return ask(self._connection, message, expected)
