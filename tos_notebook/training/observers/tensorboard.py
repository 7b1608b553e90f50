"""A run's event files for TensorBoard, written while it trains."""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...cluster.backend import spark_context
from ...cluster.connect import connect
from ...cluster.files import is_local, local_path
from ...cluster.opening import open_store
from ...cluster.streams import Growing
from ...errors import ConfigError
from ...events import (
    EpochFinished,
    Event,
    MilestoneCommitted,
    RunResumed,
    RunStarted,
    StrategySwapped,
    Validated,
    WeightsMeasured,
)
from ...readable import free_name
from ...telemetry.tensorboard import (
    EventWriter,
    is_event_file,
    read_scalars,
    require_tensorboard,
)
from ...telemetry.window import Window
from .base import Maker, Observer, RunContext
from .best_effort import BestEffort

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

_OWN = ("loss", "staleness", "samples_per_second", "epoch", "learning_rate")
"""Curves of the training that are not metrics of the program."""

PERIOD = 1.0
"""Seconds between two points of a curve; the end of an epoch makes one, too."""

ROLLING = 30.0
"""Seconds between two files, where one can be read only once it is closed."""

BOUND = 100
"""Points that may wait for a slow file system; more are left out."""

WRITING_TIMEOUT = 60.0
"""Seconds that the end of a run waits for the last of its points."""


def _means(event: MilestoneCommitted, stale: bool) -> dict[str, float]:
    """Return what is averaged over milestones, by tag; `stale`: staleness, too."""
    common = {"loss": event.loss}
    if stale and event.staleness is not None:
        common["staleness"] = float(event.staleness)
    metrics = {
        free_name(name, {*_OWN, *event.metrics}) if name in _OWN else name: value
        for name, value in event.metrics.items()
    }
    found = {f"training/{name}": value for name, value in (common | metrics).items()}
    return found | {f"worker {event.partition}/{name}": value for name, value in common.items()}


def _rates(event: MilestoneCommitted) -> list[str]:
    """Return the tags of the rates that a milestone's samples count for."""
    of = ("training", f"worker {event.partition}", f"executor {event.executor}")
    return [f"{each}/samples_per_second" for each in of]


class TensorBoardWriter(BestEffort):
    """Writes scalars, histograms, settings and the graph; samples trained are the steps.

    Parameters
    ----------
    context : RunContext
    folder : str
    open_stream : callable
        Returns the stream of the event file; called once, on the thread.
    bound : int
        Points that may wait for a slow file system; more are left out.
    period : float
        Seconds between two points of a curve.
    """

    def __init__(
        self,
        context: RunContext,
        folder: str,
        open_stream: Callable[[], Growing],
        bound: int = BOUND,
        period: float = PERIOD,
    ) -> None:
        super().__init__("tos-tensorboard", bound, "Event files are no longer written")
        self.folder = folder
        self._context = context
        self._open = open_stream
        self._samples = context.samples
        self._window: Window | None = None
        self._due = 0.0
        self._lockstep = False
        # The thread's.
        self._writer: EventWriter | None = None
        self._flush_at = 0.0
        self._period = self._pace = period

    def __call__(self, event: Event) -> None:
        """Have written what an event says."""
        if isinstance(event, MilestoneCommitted):
            self._milestone(event)
        elif isinstance(event, RunStarted | RunResumed):
            self._lockstep = event.lockstep
            self._offer(partial(self._start, event.time))
        elif isinstance(event, StrategySwapped):
            self._lockstep = event.lockstep
        elif isinstance(event, EpochFinished):
            self._point(event.time, {"training/epoch": event.epoch + 1.0})
        elif isinstance(event, Validated):
            values = {f"validation/{name}": value for name, value in event.values.items()}
            self._scalars(event.time, event.samples, values)
        elif isinstance(event, WeightsMeasured):
            found = {f"weights/{name}": h for name, h in event.weights.items()}
            found |= {f"updates/{name}": h for name, h in event.updates.items()}
            when, step = event.time, event.samples
            self._offer(partial(self._write, lambda to: to.histograms(when, step, found)))

    def finish(self, last: bool) -> None:
        """Write what is left and end the file; see `Observer.finish`."""
        self._point(time.time(), {})
        if self._left_out:
            logger.warning("%d entries were left out of the event files.", self._left_out)
        self._executor.put(self._close)
        self._executor.end(WRITING_TIMEOUT)

    def _milestone(self, event: MilestoneCommitted) -> None:
        if self._window is None:
            self._window, self._due = Window(event.time), event.time + self._period
        self._samples += event.samples
        self._window.add(event.samples, _means(event, not self._lockstep), _rates(event))
        if event.time >= self._due:
            self._point(event.time, {})

    def _point(self, now: float, more: Mapping[str, float]) -> None:
        window, self._window = self._window, None
        found = {} if window is None else window.values(now)
        values = {tag: value for tag, value in found.items() if math.isfinite(value)}
        rate = self._context.run.settings.learning_rate
        if rate is not None:
            values["training/learning_rate"] = rate
        self._scalars(now, self._samples, values | dict(more))

    def _scalars(self, when: float, step: int, values: Mapping[str, float]) -> None:
        if values:
            self._offer(partial(self._write, lambda to: to.scalars(when, step, values)))

    # -- on the thread ----------------------------------------------------------------

    def _write(self, call: Callable[[EventWriter], object]) -> None:
        if self._writer is not None:
            call(self._writer)
            self._flush(self._writer)

    def _flush(self, writer: EventWriter) -> None:
        now = time.perf_counter()
        if now >= self._flush_at:
            writer.flush()
            self._flush_at = now + self._pace

    def _start(self, when: float) -> None:
        run = self._context.run
        stream = self._open()
        self._pace = ROLLING if stream.rolls else self._period
        self._writer = writer = EventWriter(stream)
        writer.settings(when, {name: _plain(value) for name, value in run.settings.by_name.items()})
        if run.program.drawing is not None:
            writer.graph(when, *run.program.drawing)
        self._flush(writer)

    def _close(self) -> None:
        if self._writer is not None:
            self._attempt(self._writer.close)


def _plain(value: Any) -> bool | float | str:
    return value if isinstance(value, bool | int | float | str) else str(value)


def writing(sc: Any, uri: str) -> Maker:
    """Return what makes a run's `TensorBoardWriter` in a folder.

    Parameters
    ----------
    sc : SparkContext
    uri : str
        Any Hadoop URI, or a local path.

    Raises
    ------
    ConfigError
        The package `tensorboard` is not installed, or no file system answers to the URI.
    """
    require_tensorboard()
    folder = os.fspath(uri)
    if not is_local(folder):
        open_store(sc, folder)

    def make(context: RunContext) -> Observer:
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{context.run.run_id}"
        return TensorBoardWriter(context, folder, partial(Growing, sc, folder, name))

    return make


def event_files(sc: Any, uri: str) -> list[tuple[str, bytes]]:
    """Return names and contents of the event files in a folder, in the order of their names.

    Raises
    ------
    ConfigError
        The folder has none.
    """
    if is_local(uri):
        paths = sorted(p for p in local_path(uri).glob("*") if is_event_file(p.name))
        found = [(path.name, path.read_bytes()) for path in paths]
    else:
        storage = open_store(sc, uri)
        found = [(name, storage.read(name)) for name in storage.list() if is_event_file(name)]
    if not found:
        raise ConfigError(
            f"{uri} has no event files. Expected the folder that a run was started with, "
            "tensorboard=URI; it writes the first one when it begins."
        )
    return found


def read_events(uri: str | os.PathLike[str], *, spark: Any = None) -> pd.DataFrame:
    """Return the scalars in a folder of TensorBoard's event files, also while it is written.

    Parameters
    ----------
    uri : str or path-like
        A Hadoop URI or a local path.
    spark : SparkSession or SparkContext, optional
        Reads files that are not local; `connect`'s by default.

    Returns
    -------
    pandas.DataFrame
        One row per value. Columns: tag, such as ``training/loss``; step, samples trained in event
        files of a run; time, seconds since 1970; value.

    Raises
    ------
    ConfigError
        The folder has no event files, or the package `tensorboard` is not installed.

    Examples
    --------
    >>> curves = tos.read_events("hdfs:///logs/run1")                         # doctest: +SKIP
    >>> curves[curves["tag"] == "training/loss"].plot("step", "value")        # doctest: +SKIP
    """
    require_tensorboard()
    folder = os.fspath(uri)
    sc = None if is_local(folder) else spark_context(connect(spark, warm_up=False))
    return read_scalars(event_files(sc, folder))


def mirror(sc: Any, uri: str, folder: Path) -> None:
    """Append to local copies of event files what was written to them since."""
    for name, content in event_files(sc, uri):
        copy = folder / name
        with copy.open("ab") as file:
            file.write(content[file.tell() :])
