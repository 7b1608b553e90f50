"""A row per worker: what it did, where it stands, and in words whether it lags behind."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from ..events import MilestoneCommitted, WorkerFailed, WorkerJoined, WorkerLost
from ..telemetry.tally import WorkerKey, WorkerTally
from .costs import KEEP, Spent, costs
from .news import Costs, Plain
from .numbers import short

MAX_ROWS = 256
"""Rows that are kept; beyond, workers that have left are forgotten, the most silent first."""

SLOW, RECOVERED = 0.5, 0.7
"""Parts of the median pace: a worker is behind once it is below the first for `LAG` seconds, until
it is above the second."""

LAG = 5.0

CALM = 10.0
"""Seconds after a pause, a join or a new layout in which no worker is said to be behind."""

FEWEST = 3
"""Workers among which one can be behind: the median of two is their mean."""

WARM = 5
"""Milestones before a worker's pace counts."""

SILENT, TIMES = 5.0, 10
"""A worker is silent after so many seconds, and so many times a milestone's length."""

REST = 1.0
"""Seconds between two epochs after which a worker is said to wait."""

OVER = ("finished", "stopped", "failed")
"""States of a run that has ended."""


@dataclass(slots=True, eq=False)
class Row:
    """One worker: an executor's work on one partition."""

    key: WorkerKey
    tally: WorkerTally
    index: int
    """Its place in the table; -1 once it was forgotten."""
    heard: float
    """When it joined, or committed its latest milestone."""
    staleness: int | None = None
    rested: bool = False
    """It used up its partition and has not begun another epoch."""
    left: bool = False
    """It will not come back: another has its partition, or the data was laid out again."""
    failed: bool = False
    """It was lost by an error of its own."""
    spent: Spent = field(default_factory=Spent)
    slow_since: float | None = None
    """Since when its pace is below the usual one."""

    def hear(self, time: float) -> None:
        """Note a sign of life."""
        self.heard = time
        self.rested = self.left = self.failed = False

    def milestone(self, event: MilestoneCommitted) -> None:
        """Count one milestone into the recent pace."""
        self.hear(event.time)
        self.staleness = event.staleness
        self.spent.add(event)

    def state(self, run: str, now: float) -> str:
        """Return one of training, waiting, lost, failed, stopped, done; `run` is the run's state.

        Of a run that has failed those have failed that told an error of their own; it stopped the
        others before they were done.
        """
        if not self.tally.connected:
            return "failed" if self.failed and run == "failed" else "lost"
        if self.left or run == "finished":
            return "done"
        if run in OVER:
            return "stopped"
        resting = self.rested and now - self.heard > REST
        return "waiting" if resting or run == "paused" else "training"

    def note(self, state: str, now: float, usual: float, lockstep: bool) -> str:
        """Return in words whether it lags behind the usual pace; mostly empty.

        In lockstep no milestone is told before all have trained theirs: silence is not its own.
        """
        if state != "training" or self.tally.milestones < WARM or not usual:
            self.slow_since = None
            return ""
        silent = now - self.heard
        if not lockstep and silent > max(SILENT, TIMES * self.spent.busy * (1 - KEEP)):
            return f"behind: nothing heard of it for {silent:.0f} s"
        if self._lags(now, usual):
            return f"behind: {100 * self.spent.pace / usual:.0f} % of the median pace"
        return ""

    def _lags(self, now: float, usual: float) -> bool:
        if self.slow_since is None and self.spent.pace < SLOW * usual:
            self.slow_since = now
        elif self.spent.pace > RECOVERED * usual:
            self.slow_since = None
        return self.slow_since is not None and now - self.slow_since >= LAG


class Workers:
    """The rows of a run, in the order in which they appeared.

    Attributes
    ----------
    generation : int
        Counts the times that rows were forgotten, which changes the indices.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._calm_until = -math.inf
        self._rows: dict[WorkerKey, Row] = {}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def row(
        self,
        event: MilestoneCommitted | WorkerJoined | WorkerLost | WorkerFailed,
        tallies: dict[WorkerKey, WorkerTally],
    ) -> Row:
        """Return the row of the worker that an event is about, a new one if need be."""
        key = (event.executor, event.host, event.partition)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                self._forget_one()
            row = self._rows[key] = Row(key, tallies[key], len(self._rows), event.time)
        return row

    def join(self, row: Row, time: float) -> None:
        """Note that a worker opened its partition: the one that had it before has left."""
        for other in self:
            if other.key[2] == row.key[2]:
                other.left = True
        row.hear(time)
        self.calm(time)

    def calm(self, time: float) -> None:
        """Give the workers time to find their pace: something has changed for all of them."""
        self._calm_until = time + CALM

    def finish(self, partition: int) -> None:
        """Note that a partition was used up."""
        for row in self:
            if row.key[2] == partition and not row.left:
                row.rested = True

    def leave(self) -> None:
        """Note that the data was laid out again."""
        for row in self:
            row.left = True

    def executors(self) -> dict[str, int]:
        """Count executors: those with a worker that was not lost, and all."""
        states: dict[tuple[str, str], bool] = {}
        for row in self:
            place = row.key[:2]
            states[place] = states.get(place, False) or row.tally.connected
        return {"active": sum(states.values()), "total": len(states)}

    def costs(self) -> Costs | None:
        """Return what they do with their time, where all of them make each step together."""
        there = (row for row in self if row.tally.connected and not row.left)
        return costs([(row.key[0], row.key[2], row.spent) for row in there])

    def _forget_one(self) -> None:
        gone = [row for row in self if row.left or row.rested or not row.tally.connected]
        if not gone:
            return
        oldest = min(gone, key=lambda row: row.heard)
        oldest.index = -1
        del self._rows[oldest.key]
        for index, row in enumerate(self):
            row.index = index
        self.generation += 1

    def table(self, now: float, run: str, lockstep: bool) -> list[Plain]:
        """Return the rows as plain values.

        Parameters
        ----------
        now : float
            In seconds since the epoch.
        run : str
            The run's state.
        lockstep : bool
            Whether all workers make each step together.
        """
        states = [row.state(run, now) for row in self]
        paces = [
            row.spent.pace
            for row, state in zip(self, states, strict=True)
            if state == "training" and row.tally.milestones >= WARM
        ]
        usual = median(paces) if len(paces) >= FEWEST and now >= self._calm_until else 0.0
        notes = [row.note(s, now, usual, lockstep) for row, s in zip(self, states, strict=True)]
        return [_plain(row, now, *told) for row, *told in zip(self, states, notes, strict=True)]


def _plain(row: Row, now: float, state: str, note: str) -> Plain:
    (executor, host, partition), tally, spent = row.key, row.tally, row.spent
    return {
        "key": f"{executor}/{partition}",
        "executor": executor,
        "host": host,
        "partition": partition,
        "epoch": tally.epoch + 1,
        "milestones": tally.milestones,
        "samples": tally.samples,
        "samples_per_second": short(spent.pace),
        "computing": short(spent.share(spent.compute), 3),
        "exchanging": short(spent.share(spent.exchange), 3),
        "waiting": short(spent.share(spent.wait), 3),
        "staleness": row.staleness,
        "staleness_mean": short(tally.staleness_mean, 3),
        "staleness_max": tally.staleness_max if tally.counted else None,
        "age": round(max(0.0, now - row.heard), 1),
        "cpu": short(tally.cpu, 3),
        "memory": tally.memory,
        "sent": tally.bytes_up,
        "received": tally.bytes_down,
        "state": state,
        "lost": tally.lost,
        "note": note,
    }
