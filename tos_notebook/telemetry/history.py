"""``run.history``: every milestone of a run, column by column."""

from __future__ import annotations

import math
import threading
from array import array
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from .. import events
from ..common.arrays import Array
from ..readable import free_name
from ..steering.links import LinkRates
from ..steering.status import Progress
from .by_epoch import by_epoch
from .pace import PaceMeter, Paces
from .steered import Commands, SteeringLog
from .tally import Tally, Totals, WorkerKey, WorkerTally

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["d", "q", "s"]

# d is float64 and q int64, as array type codes; s is text.
_BEFORE_METRICS: dict[str, Kind] = {
    "time": "d",
    "epoch": "q",
    "partition": "q",
    "executor": "s",
    "host": "s",
    "attempt": "q",
    "sequence": "q",
    "steps": "q",
    "samples": "q",
    "loss": "d",
}
_AFTER_METRICS: dict[str, Kind] = {
    "staleness": "q",
    "version": "q",
    "compute": "d",
    "wait": "d",
    "exchange": "d",
    "bytes_up": "q",
    "bytes_down": "q",
    "workers": "q",
}
_FIELDS = _BEFORE_METRICS | _AFTER_METRICS

_RECENT = 256
"""Events that wait at most until they are filed."""

MOST_METRICS = 256
"""Metrics of which the history has a column. A program has few: more are not a worker's own."""

Column: TypeAlias = "array[float] | array[int] | list[str]"


class History:
    """A sink that keeps every milestone of one run; may be read while it is written.

    Attributes
    ----------
    validated : list of Validated
        The evaluations of the validation data.
    swaps : list of StrategySwapped
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tally = Tally()
        self._pace = PaceMeter()
        self._steered = SteeringLog()
        self._columns: dict[str, Column] = {
            name: [] if kind == "s" else array(kind) for name, kind in _FIELDS.items()
        }
        self._metrics: dict[str, array[float]] = {}
        # The columns' names by those of their metrics.
        self._named: dict[str, str] = {}
        self._recent: list[events.MilestoneCommitted] = []
        self._present: set[int] = set()
        self.validated: list[events.Validated] = []
        self.swaps: list[events.StrategySwapped] = []

    def __call__(self, event: events.Event) -> None:
        """Take one event into account."""
        with self._lock:
            self._tally(event)
            self._pace(event)
            if isinstance(event, events.MilestoneCommitted):
                # Nearly all events are.
                self._recent.append(event)
                if len(self._recent) >= _RECENT:
                    self._file()
                return
            self._steered(event, self._tally)
            if isinstance(event, events.Validated):
                self.validated.append(event)
            elif isinstance(event, events.WorkerJoined):
                self._present.add(event.partition)
            elif isinstance(event, events.WorkerLost | events.WorkerFailed):
                self._present.discard(event.partition)
            elif isinstance(event, events.ParametersRestored):
                self._withdraw(event.version)
            elif isinstance(event, events.RunResumed | events.Repartitioned):
                # Those of the process before, or of the layout.
                self._present.clear()
            elif isinstance(event, events.StrategySwapped):
                self.swaps.append(event)
                # Those of the job before.
                self._present.clear()

    def __len__(self) -> int:
        """Return the number of milestones."""
        with self._lock:
            return len(self._columns["time"]) + len(self._recent)

    def progress(self, partitions: int) -> Progress:
        """Return how far a run of so many partitions is."""
        counts = [0] * partitions
        with self._lock:
            for (_, _, partition), worker in self._tally.workers.items():
                if partition < partitions:
                    counts[partition] += worker.milestones
            totals = self._tally.totals()
            return Progress(totals.epoch, totals.milestones, tuple(counts), len(self._present))

    def frame(self) -> pd.DataFrame:
        """Return the milestones in the order of their commits.

        Returns
        -------
        pandas.DataFrame
            One row per milestone. Columns: time (s since 1970), epoch (from 1), partition (the
            worker's number, from 0), executor, host, attempt, sequence, steps, samples, loss, one
            float64 column per metric, staleness and version (versions), compute, wait and exchange
            (s), bytes_up and bytes_down, workers (how many trained then). A metric that a milestone
            did not have is NaN, and so is a staleness that is not counted; one named as another
            column gets the suffix ``_metric``, as often as it takes.
        """
        import pandas as pd

        with self._lock:
            self._file()
            columns = {name: _copy(column) for name, column in self._columns.items()}
            metrics = {name: _copy(column) for name, column in self._metrics.items()}
        columns["epoch"] += 1
        if self._tally.uncounted:
            columns["staleness"] = np.full(len(columns["epoch"]), math.nan)
        ordered = [*_BEFORE_METRICS, *metrics, *_AFTER_METRICS]
        # Of two workers whose pushes came at once, the later one may have reported first.
        return pd.DataFrame(columns | metrics)[ordered].sort_values(
            "version", kind="stable", ignore_index=True
        )

    def validation(self) -> pd.DataFrame:
        """Return one row per evaluation of the validation data.

        Returns
        -------
        pandas.DataFrame
            Columns: time (s since 1970), epoch (from 1), samples (trained until then), and one for
            each value, loss first.
        """
        import pandas as pd

        rows = [
            {"time": e.time, "epoch": e.epoch + 1, "samples": e.samples, **e.values}
            for e in self.validated
        ]
        return pd.DataFrame(rows, columns=None if rows else ["time", "epoch", "samples"])

    def epochs(self) -> pd.DataFrame:
        """Return one row per epoch; see `by_epoch`."""
        frame = self.frame()
        return by_epoch(frame, self.validation(), ["loss", *self._metrics])

    def workers(self) -> pd.DataFrame:
        """Return one row per executor, host and partition, in this order.

        Returns
        -------
        pandas.DataFrame
            Columns: executor, host, partition (from 0), epoch (latest, from 1), milestones,
            samples, samples_per_second (over the time it computed or exchanged), waited (s, told to
            or for others), staleness_mean and staleness_max (versions), loss (its last), cpu (cores
            that its process kept busy at last) and memory (bytes that it had), both NaN if unknown,
            bytes_up, bytes_down, lost (attempts that were lost or failed there).
        """
        import pandas as pd

        with self._lock:
            rows = [_worker_row(key, worker) for key, worker in self._tally.workers.items()]
        table = pd.DataFrame(rows, columns=list(_WORKER_DTYPES)).astype(_WORKER_DTYPES)
        if self._tally.uncounted:
            table["staleness_max"] = math.nan
        return table.sort_values(["executor", "host", "partition"], ignore_index=True)

    def steered(self) -> Commands:
        """Return what the run was told; see `tos_notebook.Run.events`."""
        with self._lock:
            return self._steered.rows()

    def paces(self) -> Paces:
        """Return what workers do with their time of late."""
        with self._lock:
            return self._pace.paces()

    def links(self) -> LinkRates:
        """Return what links carry of late; none where workers do not make each step together."""
        with self._lock:
            return self._tally.links.rates()

    @property
    def lost(self) -> tuple[events.WorkerLost, ...]:
        """The workers that were lost, of partitions that have none since."""
        with self._lock:
            return tuple(self._tally.lost.values())

    @property
    def lockstep(self) -> bool:
        """Whether all workers make each step together."""
        return self._tally.lockstep

    @property
    def stale(self) -> bool:
        """Whether there is a staleness to show."""
        return self._tally.stale

    def totals(self) -> Totals:
        """Return the run's sums as they stand."""
        with self._lock:
            return self._tally.totals()

    def _file(self) -> None:
        """Move recent events into the columns: many at once cost a fraction of one by one."""
        recent, self._recent = self._recent, []
        rows = len(self._columns["time"])
        for name, column in self._columns.items():
            value_of: Any = _staleness if name == "staleness" else attrgetter(name)
            column.extend(map(value_of, recent))
        for name in dict.fromkeys(chain.from_iterable(event.metrics for event in recent)):
            values = [event.metrics.get(name, math.nan) for event in recent]
            kept = self._metric(name, rows)
            if kept is not None:
                kept.extend(values)
        for metric in self._metrics.values():
            metric.extend([math.nan] * (rows + len(recent) - len(metric)))

    def after(self, version: int) -> tuple[int, int, int]:
        """Return milestones, samples and steps of later versions."""
        with self._lock:
            self._file()
            late = np.array(self._columns["version"]) > version
            samples, steps = (
                int(np.array(self._columns[name])[late].sum()) for name in ("samples", "steps")
            )
            return int(late.sum()), samples, steps

    def _withdraw(self, version: int) -> None:
        """Forget milestones of later versions: their batches are trained again."""
        self._file()
        kept = np.nonzero(np.array(self._columns["version"], np.int64) <= version)[0].tolist()
        if len(kept) < len(self._columns["version"]):
            for column in [*self._columns.values(), *self._metrics.values()]:
                left: Any = [column[row] for row in kept]
                column[:] = left if isinstance(column, list) else array(column.typecode, left)

    def _metric(self, name: str, rows: int) -> array[float] | None:
        if name not in self._named and len(self._named) == MOST_METRICS:
            return None
        if name not in self._named:
            unique = free_name(name, _FIELDS.keys() | self._metrics.keys())
            self._named[name] = unique
            self._metrics[unique] = array("d", [math.nan]) * rows
        return self._metrics[self._named[name]]


_WORKER_DTYPES = {
    "executor": "object",
    "host": "object",
    "partition": "int64",
    "epoch": "int64",
    "milestones": "int64",
    "samples": "int64",
    "samples_per_second": "float64",
    "waited": "float64",
    "staleness_mean": "float64",
    "staleness_max": "int64",
    "loss": "float64",
    "cpu": "float64",
    "memory": "float64",
    "bytes_up": "int64",
    "bytes_down": "int64",
    "lost": "int64",
}


def _staleness(event: events.MilestoneCommitted) -> int:
    # `History.frame` says where it is not counted.
    return event.staleness or 0


def _worker_row(key: WorkerKey, worker: WorkerTally) -> dict[str, object]:
    named: dict[str, object] = dict(zip(("executor", "host", "partition"), key, strict=True))
    named["epoch"] = worker.epoch + 1
    return named | {n: getattr(worker, n) for n in _WORKER_DTYPES if n not in named}


def _copy(column: Column) -> Array:
    # Of an array, through its buffer: a copy of a million rows holds the lock for a millisecond.
    return np.array(column, dtype=object if isinstance(column, list) else None)
