"""A run's curves and the latest of its milestones, as a chart draws them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..events import EpochFinished, MilestoneCommitted, RunStarted, Validated
from ..telemetry.best import Best, updated
from .journal import Journal
from .numbers import short
from .series import ROWS, Series
from .workers import Row

MAX_LANES = 1500
"""Milestones that are kept for the lanes; a snapshot holds them all."""

SPARK = 40
"""Points of a loss that is drawn as wide as a word or two."""

NEWS = 400
"""Milestones in one delta at most: a lane has room for no more in its fifth of a second."""

WORK = "work"
"""The split of what the work itself was like."""

Split = tuple[str, str]
"""Name of a series, and training, validation or `WORK`."""


class Curves:
    """Loss and metrics over time, samples and epochs.

    Attributes
    ----------
    series : dict
        In the order in which they appeared.
    size : int or None
        Samples of one epoch, once known.
    best : dict of Best
        By metric, of the evaluations so far.
    """

    def __init__(self) -> None:
        self.series: dict[Split, Series] = {}
        self.size: int | None = None
        self.best: dict[str, Best] = {}
        self._samples = 0
        self._lockstep = False
        self._validated: dict[str, float | None] = {}

    def start(self, event: RunStarted) -> None:
        """Learn what the run trains on."""
        self._lockstep = event.lockstep
        self.size = event.samples

    def expect(self, names: Iterable[str]) -> None:
        """Make place for what a step gives, so that nothing moves when it comes."""
        if not self.series:
            for name in ("loss", *names):
                self._of(name, "training")

    @property
    def metrics(self) -> list[str]:
        """The names of what a step gives beside its loss, as far as they are known."""
        return [n for n, split in self.series if split == "training" and n != "loss"]

    def milestone(self, event: MilestoneCommitted, time: float, rate: float | None) -> None:
        """Add a milestone's loss and metrics, at a time, and the learning rate if it was set."""
        self._samples += event.samples
        epoch = self._samples / self.size if self.size else float(event.epoch)
        place = (time, self._samples, epoch)
        weight = event.samples or 1
        self._of("loss", "training").add(*place, event.loss, weight)
        for name, value in event.metrics.items():
            self._of(name, "training").add(*place, value, weight)
        bytes_ = event.bytes_up + event.bytes_down
        self._of("bytes per sample", WORK).add(*place, bytes_ / weight, weight)
        if rate is not None:
            self._of("learning rate", WORK).add(*place, rate, weight)
        if event.staleness is not None and not self._lockstep:
            self._of("staleness", WORK).add(*place, event.staleness, weight)

    def epoch_finished(self, event: EpochFinished) -> None:
        """Learn how large the data is, where the start did not say."""
        self.size = self.size or event.samples or None

    def validated(self, event: Validated, time: float) -> None:
        """Add an evaluation at a time, where the training was when the center was read."""
        epoch = event.samples / self.size if self.size else event.epoch + 1.0
        place = (time, event.samples, epoch)
        for name, value in event.values.items():
            self._of(name, "validation").add(*place, value, 1)
        self._validated = {name: short(value, 3) for name, value in event.values.items()}
        self.best = updated(self.best, event)

    def latest_validation(self) -> dict[str, float | None]:
        """Return the latest evaluation, the loss last."""
        return dict(sorted(self._validated.items(), key=lambda item: item[0] == "loss"))

    def spark(self) -> list[float | None]:
        """Return the training loss over time in few points, for a chart of a line's height."""
        series = self.series.get(("loss", "training"))
        if series is None or not len(series):
            return []
        values = series.points()[ROWS.index("value")]
        places = np.linspace(0, len(values) - 1, min(len(values), SPARK)).round().astype(int)
        return [short(float(value)) for value in values[places]]

    def close(self) -> None:
        """Show the last values, although they are too few for a point."""
        for series in self.series.values():
            series.close_point()

    @property
    def generation(self) -> int:
        """Counts the times that any series was merged again."""
        return sum(series.generation for series in self.series.values())

    def _of(self, name: str, split: str) -> Series:
        found = self.series.get((name, split))
        if found is None:
            found = self.series[name, split] = Series()
        return found


class Lanes(Journal[tuple[Row, float, MilestoneCommitted]]):
    """The latest milestones of all workers, with the seconds after the run's start at their end."""

    def __init__(self) -> None:
        super().__init__(MAX_LANES)

    def packed(self, serial: int = 0, most: int = MAX_LANES) -> tuple[int, bytes]:
        """Return those after a number, at most so many: how many, and their columns as float32.

        Worker, end, compute, wait, exchange, staleness.
        """
        table = [
            (row.index, time, e.compute, e.wait, e.exchange, e.staleness or 0)
            for row, time, e in self.added_since(serial, most)
            if row.index >= 0
        ]
        columns = np.array(table, "<f4").reshape(len(table), 6).T
        return len(table), columns.tobytes()
