"""Running sums over a run's events: what a live view needs, at constant cost per event."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from ..events import (
    SLOTS,
    Event,
    MilestoneCommitted,
    ParametersRestored,
    Repartitioned,
    RunFinished,
    RunResumed,
    RunStarted,
    Stalled,
    StateChanged,
    StrategySwapped,
    Validated,
    WorkerFailed,
    WorkerJoined,
    WorkerLost,
)
from .links import LinkMeter
from .window import Window

RECENT = 20
"""Milestones over which the loss shown is averaged."""

STEADY = 200
"""Milestones over which the recent staleness is averaged, which varies more than the loss."""

WorkerKey = tuple[str, str, int]
"""Executor, host and partition."""


@dataclass(frozen=True, slots=True)
class Totals:
    """A run at one moment.

    Epochs count from 0, as in the events. What nothing is known about yet is 0, or NaN for means.
    """

    epoch: int
    """The latest epoch that any worker is in."""
    epochs: int
    milestones: int
    samples: int
    """Trained so far, over all epochs."""
    samples_total: int | None
    """To be trained over all epochs; None where the size of the data is unknown."""
    samples_per_second: float
    """From the first to the last milestone since start or resume, the first one's left out.

    Pauses do not count."""
    loss: float
    """Mean per sample over the last `RECENT` milestones."""
    staleness_mean: float
    """Versions, mean over all milestones; NaN as well where nothing can be stale, or is counted."""
    recent_staleness: float
    """The same over the last `STEADY` milestones."""
    recent_workers: float
    """How many trained at once, mean over the same milestones."""
    elapsed: float
    """Seconds from the run's start to its latest event; see `Tally.elapsed`."""
    queued: bool = False
    """Whether it waits for slots that other runs have, and has not begun."""
    latest: float = 0.0
    """When the latest event was, in seconds since 1970."""
    steps: int = 0
    """Optimizer steps so far, of all workers together: the global step."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Means per sample over the same milestones as the loss."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """The latest evaluation of the validation data, by name."""


@dataclass(slots=True)
class WorkerTally:
    """Sums over one worker's milestones."""

    epoch: int = 0
    milestones: int = 0
    samples: int = 0
    busy: float = 0.0
    """Seconds computing and exchanging."""
    waited: float = 0.0
    """Seconds waiting: told to, or for others of a step."""
    counted: int = 0
    """Milestones whose staleness is known."""
    staleness_sum: int = 0
    staleness_max: int = 0
    loss: float = math.nan
    cpu: float | None = None
    """Cores that its process kept busy at last; None if unknown, as the next."""
    memory: int | None = None
    """Bytes that its process had."""
    bytes_up: int = 0
    bytes_down: int = 0
    lost: int = 0
    """Times that an attempt at the partition was lost or failed here."""
    connected: bool = True

    def milestone(self, event: MilestoneCommitted) -> None:
        """Count one milestone."""
        self.epoch = event.epoch
        self.milestones += 1
        self.samples += event.samples
        self.busy += event.compute + event.exchange
        self.waited += event.wait
        staleness = event.staleness
        if staleness is not None:
            self.counted += 1
            self.staleness_sum += staleness
            if staleness > self.staleness_max:
                self.staleness_max = staleness
        self.loss = event.loss
        self.cpu, self.memory = event.cpu, event.memory
        self.bytes_up += event.bytes_up
        self.bytes_down += event.bytes_down

    def join(self, epoch: int) -> None:
        """Note that an attempt opened the partition here."""
        self.epoch = epoch
        self.connected = True

    def lose(self) -> None:
        """Count the end of an attempt once, though its failure and its loss may both be told."""
        self.lost += self.connected
        self.connected = False

    @property
    def samples_per_second(self) -> float:
        """Samples over busy seconds; 0 before any."""
        return self.samples / self.busy if self.busy > 0 else 0.0

    @property
    def staleness_mean(self) -> float:
        """Versions, mean over milestones; NaN before any, and if they are not counted."""
        return self.staleness_sum / self.counted if self.counted else math.nan


class TrainingClock:
    """Seconds in which a run trains: its pauses do not count."""

    def __init__(self) -> None:
        self._rested = 0.0
        self._since: float | None = None

    def state(self, state: str, time: float) -> None:
        """Take note of the run's state from a time on."""
        if state == "paused":
            self._since = time if self._since is None else self._since
        elif self._since is not None:
            self._rested += max(0.0, time - self._since)
            self._since = None

    def milestone(self, time: float) -> float:
        """Take note of a milestone, which each worker ends before it waits; return `at` of it."""
        if self._since is None:
            return time - self._rested
        self._since = max(self._since, time)
        return self.at(time)

    def at(self, time: float) -> float:
        """Return a time without the pauses before it."""
        return (time if self._since is None else min(time, self._since)) - self._rested


class Tally:
    """Sums over one run, kept up to date event by event. A sink; not thread-safe.

    Attributes
    ----------
    workers : dict
        A tally for each worker.
    clock : TrainingClock
    lockstep : bool
        Whether all workers make each step together.
    uncounted : bool
        Whether milestones may be stale by a number that is not counted.
    links : LinkMeter
        Counts only while they do.
    lost : dict of WorkerLost
        By partition, of those that have no worker since.
    """

    def __init__(self) -> None:
        self.workers: defaultdict[WorkerKey, WorkerTally] = defaultdict(WorkerTally)
        self._epoch = 0
        self._epochs = 0
        self._samples_total: int | None = None
        self.lockstep = False
        self.uncounted = False
        self._milestones = 0
        self._samples = 0
        self._steps = 0
        self._staleness = 0
        # Milestones that can be stale.
        self._apart = 0
        self._recent: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=RECENT)
        self._steady: deque[tuple[float, int]] = deque(maxlen=STEADY)
        self._first: MilestoneCommitted | None = None
        self._before = 0
        self.clock = TrainingClock()
        self.links = LinkMeter()
        self.lost: dict[int, WorkerLost] = {}
        self._first_at = self._last_at = 0.0
        self._validation: Mapping[str, float] = {}
        # Seconds between a death of the run's process and its resume.
        self._away = 0.0
        # When its wait for slots of other runs began: its time begins with its first worker.
        self._queued: float | None = None
        self._begun, self._joined = 0.0, False
        self._started: float | None = None
        self._latest = 0.0

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if self._started is None:
            self._started = event.time
        if isinstance(event, MilestoneCommitted):
            # Nearly all events are.
            if event.time > self._latest:
                self._latest = event.time
            self._milestone(event)
            return
        if isinstance(event, RunResumed):
            self._away += max(0.0, event.time - self._latest)
        self._latest = max(self._latest, event.time)
        if isinstance(event, Validated):
            self._validation = event.values
        elif isinstance(event, StateChanged):
            self.clock.state(event.state, event.time)
        elif isinstance(event, RunStarted):
            self._start(event)
        elif isinstance(event, RunResumed):
            self._resume(event)
        elif isinstance(event, StrategySwapped):
            self.lockstep = event.lockstep
            self._steady.clear()
            self.links.clear()
            self.lost.clear()
        elif isinstance(event, Repartitioned):
            self.links.clear()
            self.lost.clear()
        elif isinstance(event, RunFinished):
            self.lost.clear()
        elif isinstance(event, ParametersRestored):
            self._withdraw(event)
        elif isinstance(event, Stalled):
            if event.cause.startswith(SLOTS) and not self._joined:
                self._queued = self._begun
        elif isinstance(event, WorkerJoined):
            self._worker(event).join(event.epoch)
            self._leave_queue(event.time)
            self.lost.pop(event.partition, None)
        elif isinstance(event, WorkerLost | WorkerFailed):
            self._worker(event).lose()
            if isinstance(event, WorkerLost):
                self.lost[event.partition] = event

    @property
    def queued(self) -> bool:
        """Whether it waits for slots that other runs have, and has not begun."""
        return self._queued is not None

    @property
    def stale(self) -> bool:
        """Whether milestones may be stale, and say how much."""
        return not (self.lockstep or self.uncounted)

    def totals(self) -> Totals:
        """Return the sums as they stand."""
        recent_staleness, recent_workers = self._steady_means()
        stale = self._apart > 0 and self.stale
        means = self._recent_means()
        return Totals(
            epoch=self._epoch,
            epochs=self._epochs,
            milestones=self._milestones,
            samples=self._samples,
            samples_total=self._samples_total,
            samples_per_second=self._rate(),
            loss=means.pop("", math.nan),
            staleness_mean=self._staleness / self._apart if stale else math.nan,
            recent_staleness=recent_staleness if stale else math.nan,
            recent_workers=recent_workers,
            elapsed=self.elapsed(self._latest),
            queued=self.queued,
            latest=self._latest,
            steps=self._steps,
            metrics=means,
            validation=self._validation,
        )

    def elapsed(self, time: float) -> float:
        """Return the seconds from the run's start to `time`.

        Pauses count. The time between the death of the run's process and its resume does not, nor
        that in which it waited for slots that other runs had.
        """
        if self._queued is not None:
            time = min(time, self._queued)
        return 0.0 if self._started is None else max(0.0, time - self._started - self._away)

    def _leave_queue(self, time: float) -> None:
        self._joined = True
        if self._queued is not None:
            self._away += max(0.0, time - self._queued)
            self._queued = None

    def _start(self, event: RunStarted) -> None:
        self._started = event.time
        self._plan(event)

    def _plan(self, event: RunStarted | RunResumed) -> None:
        self._begun, self._joined, self._queued = event.time, False, None
        self._epochs, self.lockstep = event.epochs, event.lockstep
        self._samples_total = None if event.samples is None else event.samples * event.epochs

    def _resume(self, event: RunResumed) -> None:
        self._plan(event)
        self.links.clear()
        self.lost.clear()
        # The rate is that of this process, not of the time in which there was none.
        self._first, self._before = None, self._samples

    def _milestone(self, event: MilestoneCommitted) -> None:
        # A call of `max` costs more than all else that is done to a sum.
        at = self.clock.milestone(event.time)
        if self._first is None:
            self._first, self._first_at, self._last_at = event, at, at
        if at > self._last_at:
            self._last_at = at
        if event.epoch > self._epoch:
            self._epoch = event.epoch
        staleness, samples = event.staleness, event.samples
        self._milestones += 1
        self._samples += samples
        self._steps += event.optimizer_steps
        self.uncounted = staleness is None
        self._staleness += staleness or 0
        self._apart += not self.lockstep
        # A metric may be called loss; none is called nothing.
        self._recent.append((samples, {"": event.loss, **event.metrics}))
        self._steady.append((staleness or 0, event.workers))
        self.workers[event.executor, event.host, event.partition].milestone(event)
        if self.lockstep:
            self.links.add(event)

    def _withdraw(self, event: ParametersRestored) -> None:
        self._milestones -= event.milestones
        self._samples -= event.samples
        self._steps -= event.steps
        self._recent.clear()
        self._steady.clear()
        # The rate begins again, as it does where another process continues.
        self._first, self._before = None, self._samples

    def _worker(self, event: WorkerJoined | WorkerLost | WorkerFailed) -> WorkerTally:
        return self.workers[event.executor, event.host, event.partition]

    def _rate(self) -> float:
        if self._first is None or self._last_at <= self._first_at:
            return 0.0
        samples = self._samples - self._before - self._first.samples
        return samples / (self._last_at - self._first_at)

    def _recent_means(self) -> dict[str, float]:
        window = Window()
        for samples, values in self._recent:
            window.add(samples, values)
        return window.means()

    def _steady_means(self) -> tuple[float, float]:
        if not self._steady:
            return math.nan, math.nan
        staleness, workers = zip(*self._steady, strict=True)
        return fmean(staleness), fmean(workers)
