"""What a live view shows of a run, kept up to date event by event in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from .. import events
from ..coordination.watchdog import is_queued
from ..errors import ConfigError
from ..telemetry.losses import lost_workers
from ..telemetry.tally import Tally
from .curves import NEWS, Curves, Lanes
from .failure import failure
from .figures import Figures
from .news import Cursor, Facts, Failure, News, Plain, RunInfo, SeriesHead, State, Totals
from .numbers import seconds
from .timeline import Timeline
from .workers import Workers

if TYPE_CHECKING:
    from ..training.run import Run

Handler = Callable[[Any, float], None]


class RunModel:
    """A sink that holds what a view shows of one run. Thread-safe.

    Its memory is bounded: see the limits of `series`, `curves`, `workers` and `timeline`.

    Attributes
    ----------
    announced : bool
        Whether a front end with a plug-in is told of the run, and can show it by its own means.
    """

    def __init__(self) -> None:
        self.announced = False
        self._lock = threading.Lock()
        self._tally = Tally()
        self._workers = Workers()
        self._curves = Curves()
        self._lanes = Lanes()
        self._timeline = Timeline()
        self._changes = 0
        self._id = ""
        self._state = "starting"
        self._started: float | None = None
        self._ended: float | None = None
        self._epochs = 0
        self._partitions = 0
        # Whether workers have exchanged among themselves, as often as they like in a milestone, and
        # over memory, too: bytes do not tell then what a codec saves.
        self._among = False
        self._failure: events.WorkerFailed | None = None
        self._error: Failure | None = None
        self._reason: str | None = None
        self._stalls: dict[str, str] = {}
        self._figures = Figures(self._tally, self._curves, self._workers)
        self._handlers = self._handling()

    def __call__(self, event: events.Event) -> None:
        """Take one event into account."""
        handler = self._handlers.get(type(event))
        if handler is None:
            return
        with self._lock:
            self._changes += 1
            self._tally(event)
            handler(event, self._since(event.time))

    @property
    def ended(self) -> bool:
        """Whether the run said that it is over."""
        return self._ended is not None

    @property
    def changes(self) -> int:
        """Counts the events so far."""
        return self._changes

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    def refused(self, time: float, command: str, text: str) -> None:
        """Take note of a command that the run did not accept."""
        with self._lock:
            self._changes += 1
            self._timeline.refused(self._since(time), command, text)

    def snapshot(self, now: float, facts: Facts) -> News:
        """Return everything.

        Parameters
        ----------
        now : float
            Seconds since the epoch.
        facts : dict
            What `facts.RunFacts` knows of the run.
        """
        with self._lock:
            self._curves.expect(facts["measures"])
            cursor = self._cursor(facts)
            state, buffers = self._news(None, now)
            count, lanes = self._lanes.packed()
            state["run"], state["totals"] = self._run(now, facts), self._totals(now)
            state["workers"], state["lanes"] = self._table(now), {"length": count}
            return News(state, [*buffers, lanes], cursor)

    def delta(self, known: Cursor, now: float, facts: Facts, table: bool = True) -> News | None:
        """Return what is new to a reader; None if only a snapshot will do.

        Parameters
        ----------
        known : Cursor
            Of the news that the reader had last.
        now, facts
            As for `snapshot`.
        table : bool
            Whether the workers' table is wanted, which is the largest part.
        """
        with self._lock:
            cursor = self._cursor(facts)
            if cursor.generation != known.generation:
                return None
            state, buffers = self._news(known, now)
            count, lanes = self._lanes.packed(known.lanes, NEWS)
            state = cast(State, {name: part for name, part in state.items() if part})
            state["run"], state["totals"] = self._run(now, facts), self._totals(now)
            if cursor.strategy == known.strategy:
                # The commands of a run change with its strategy only.
                state["run"].pop("actions", None)
            if table:
                state["workers"] = self._table(now)
            if count:
                state["lanes"] = {"length": count}
                buffers.append(lanes)
            return News(state, buffers, cursor)

    def row(self, now: float, facts: Facts) -> Plain:
        """Return the run in short: a line of a list, with few points of its loss.

        Parameters
        ----------
        now, facts
            As for `snapshot`.
        """
        with self._lock:
            return {
                **self._run(now, facts),
                **self._totals(now),
                "error": self._error["message"] if self._error else None,
                "executors": self._workers.executors(),
                "spark": self._curves.spark(),
            }

    # -- events, under the lock -------------------------------------------------------

    def _handling(self) -> dict[type[events.Event], Handler]:
        return {
            events.MilestoneCommitted: self._milestone,
            events.RunStarted: self._start,
            events.WorkerJoined: self._joined,
            events.WorkerLost: self._lost,
            events.WorkerFailed: self._failed,
            events.PartitionFinished: lambda event, _: self._workers.finish(event.partition),
            events.EpochFinished: lambda event, _: self._curves.epoch_finished(event),
            events.Validated: self._validated,
            events.Repartitioned: self._repartitioned,
            events.StrategySwapped: self._swapped,
            events.Stalled: self._stalled,
            events.StallEnded: self._moves_again,
            events.StateChanged: self._moved,
            events.RunResumed: self._resumed,
            events.ParametersRestored: self._restored,
            events.RunFinished: self._end,
            **self._timeline.handlers,
        }

    def _since(self, time: float) -> float:
        # A run that was resumed counts no time in which it had no process.
        return 0.0 if self._started is None else self._tally.elapsed(time)

    def _start(self, event: events.RunStarted, _: float) -> None:
        self._started = event.time
        self._id, self._epochs, self._partitions = event.run_id, event.epochs, event.partitions
        self._curves.start(event)

    def _resumed(self, event: events.RunResumed, time: float) -> None:
        self._epochs, self._partitions = event.epochs, event.partitions
        self._workers.leave()
        self._figures.resumed()
        self._timeline.say(time, "info", f"resumed from checkpoint {event.checkpoint}")

    def _restored(self, event: events.ParametersRestored, time: float) -> None:
        self._figures.resumed()
        self._timeline.say(time, "warning", str(event))

    def _milestone(self, event: events.MilestoneCommitted, time: float) -> None:
        row = self._workers.row(event, self._tally.workers)
        row.milestone(event)
        self._among |= bool(event.links)
        self._figures.milestone(event)
        self._curves.milestone(event, time, self._timeline.learning_rate)
        self._lanes.add((row, time, event))

    def _joined(self, event: events.WorkerJoined, time: float) -> None:
        row = self._workers.row(event, self._tally.workers)
        self._workers.join(row, event.time)
        self._timeline.joined(time, row, event)

    def _lost(self, event: events.WorkerLost, time: float) -> None:
        self._timeline.lost(time, self._workers.row(event, self._tally.workers), event)

    def _failed(self, event: events.WorkerFailed, time: float) -> None:
        self._failure = event
        row = self._workers.row(event, self._tally.workers)
        row.failed = True
        self._timeline.failed(time, row, event)

    def _validated(self, event: events.Validated, time: float) -> None:
        self._curves.validated(event, time)
        self._figures.validated()
        self._timeline.validated(time, event)

    def _repartitioned(self, event: events.Repartitioned, time: float) -> None:
        self._partitions = event.partitions
        self._workers.leave()
        self._workers.calm(event.time)
        self._timeline.repartitioned(time, event)

    def _swapped(self, event: events.StrategySwapped, time: float) -> None:
        self._workers.leave()
        self._workers.calm(event.time)
        text = f"strategy {event.strategy} from epoch {event.epoch + 1} on"
        self._timeline.say(time, "info", text)

    def _stalled(self, event: events.Stalled, time: float) -> None:
        self._stalls[event.cause] = f"{event.message} {event.look}"
        self._timeline.stalled(time, event)

    def _moves_again(self, event: events.StallEnded, time: float) -> None:
        if self._stalls.pop(event.cause, None) is not None:
            self._timeline.moves_again(time, event)

    def _moved(self, event: events.StateChanged, time: float) -> None:
        before, self._state = self._state, str(event.state)
        if before == "paused" and self._state == "running":
            self._workers.calm(event.time)
            self._timeline.settle("unpause", "in force", time)
        if self._state == "failed" and self._failure is not None:
            # The run's own words follow at its end; these are the same, sooner.
            self._error = failure(self._failure, None)

    def _end(self, event: events.RunFinished, time: float) -> None:
        self._ended, self._state = event.time, event.outcome
        self._reason = event.reason
        self._curves.close()
        self._timeline.end(time)
        if event.reason is not None:
            self._timeline.say(time, "info", f"{event.outcome}: {event.reason}")
        if event.error is not None:
            self._error = failure(self._failure, event.error)
            self._timeline.say(time, "error", self._error["message"])

    # -- news, under the lock ---------------------------------------------------------

    def _cursor(self, facts: Facts) -> Cursor:
        timeline = self._timeline
        return Cursor(
            (self._curves.generation, self._workers.generation),
            self._changes,
            tuple(len(series) for series in self._curves.series.values()),
            self._lanes.serial,
            timeline.marks.serial,
            timeline.commands.serial,
            timeline.log.serial,
            facts["strategy"],
        )

    def _news(self, known: Cursor | None, now: float) -> tuple[State, list[bytes]]:
        """Return series, marks, commands and log, or what is new of them."""
        had = known.series if known else ()
        heads: list[SeriesHead] = []
        buffers = []
        for i, ((name, split), series) in enumerate(self._curves.series.items()):
            start = had[i] if i < len(had) else 0
            heads.append({"name": name, "split": split, "length": len(series) - start})
            buffers.append(series.packed(start))
        if known is not None and not any(head["length"] for head in heads):
            heads, buffers = [], []
        marks = self._timeline.marks.since(known.marks if known else 0)
        state: State = {
            "series": heads,
            "marks": [{**mark, "worker": row.index} for row, mark in marks if row.index >= 0],
            "commands": self._timeline.commands.since(known.commands if known else 0),
            "log": self._timeline.log.since(known.log if known else 0),
        }
        return state, buffers

    def _run(self, now: float, facts: Facts) -> RunInfo:
        until = now if self._ended is None else self._ended
        return {
            **facts,
            "id": self._id or facts["id"],
            "model_bytes": 0 if self._among else facts["model_bytes"],
            "state": "queued" if is_queued(self._state, self._stalls) else self._state,
            "epoch": min(self._tally.totals().epoch + 1, self._epochs),
            "epochs": self._epochs,
            "elapsed": seconds(self._tally.elapsed(until)),
            "partitions": self._partitions,
            "error": self._error,
            "reason": self._reason,
            "waits": list(self._stalls.values()),
            "pending": self._timeline.pending(),
            "lost": list(
                lost_workers(self._tally.lost.values(), self._tally.lockstep, facts["continues"])
            ),
        }

    def _totals(self, now: float) -> Totals:
        return self._figures.totals(now, self._state, self.ended, self._epochs)

    def _table(self, now: float) -> list[Plain]:
        # After the end no worker's age grows.
        return self._workers.table(self._ended or now, self._state, self._tally.lockstep)


def watch(run: Run) -> RunModel:
    """Give a run a `RunModel` among its sinks, and return it."""
    model = RunModel()
    run.add_sink(model)
    return model


def model_of(run: Run) -> RunModel:
    """Return the `RunModel` among a run's sinks.

    Raises
    ------
    ConfigError
        The run has none.
    """
    for sink in run.sinks:
        if isinstance(sink, RunModel):
            return sink
    raise ConfigError(
        f"The view has no record of {run.run_id}. Load the extension "
        "(%load_ext tos_notebook) before you start a run, or start it with sinks=[RunModel()]; "
        "run.history and run.figure() hold what it did."
    )
