"""Histograms of the center's parameters while a run trains."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ...common.arrays import Array, Buffer
from ...common.histogram import Histogram
from ...common.threads import SerialExecutor
from ...errors import SessionClosed
from ...events import EpochFinished, Event, MilestoneCommitted, WeightsMeasured
from .base import Observer, RunContext

BINS = 30

SAMPLE = 1 << 16
"""Elements of a tensor that are looked at, at most, plus a few."""

PERIOD = 1.0
"""Seconds between two looks, at least; the end of an epoch does not wait for them."""

SHARE = 0.005
"""Of the time goes into looking, at most."""

KEPT = 400
"""Looks that are kept. Beyond, every second one is dropped."""

MEASURING_TIMEOUT = 60.0
"""Seconds that the end of a run waits for the last look."""


class WeightHistograms(Observer):
    """Looks at the center every now and then, and tells of it.

    Attributes
    ----------
    measured : list of WeightsMeasured
    """

    def __init__(self, context: RunContext) -> None:
        self.measured: list[WeightsMeasured] = []
        self._context = context
        self._samples = context.samples
        self._before: Buffer | None = None
        self._due = 0.0
        self._executor = SerialExecutor("tos-distributions", 1)

    def begin(self) -> None:
        """Look at the initial parameters."""
        self._executor.put(partial(self._measure, self._samples))

    def __call__(self, event: Event) -> None:
        """Have a look if it is time."""
        if isinstance(event, MilestoneCommitted):
            self._samples += event.samples
        elif not isinstance(event, EpochFinished):
            return
        if time.perf_counter() >= self._due and not self._executor.full:
            self._executor.put(partial(self._measure, self._samples))

    def finish(self, last: bool) -> None:
        """Look at the final parameters; see `Observer.finish`."""
        self._executor.put(partial(self._measure, self._samples))
        self._executor.end(MEASURING_TIMEOUT)

    def _measure(self, samples: int) -> None:
        began = time.perf_counter()
        layout = self._context.store.layout
        present, _ = self._context.store.read()
        every = layout.tensors(present)
        now = {spec.name: every[spec.name] for spec in layout.of_model.specs}
        updates: dict[str, Histogram] = {}
        if self._before is not None:
            before = layout.tensors(self._before)
            changes = {name: _some(now[name]) - _some(before[name]) for name in now}
            updates = histograms(changes)
        event = WeightsMeasured(time.time(), samples, histograms(now), updates)
        self._before = present
        self.measured.append(event)
        if len(self.measured) > KEPT:
            self.measured = [*self.measured[:-1:2], event]
        ended = time.perf_counter()
        self._due = ended + max(PERIOD, (ended - began) / SHARE)
        # Too late to be told of once the run is closed.
        with suppress(SessionClosed):
            self._context.publish(event)


def histograms(tensors: Mapping[str, Array]) -> dict[str, Histogram]:
    """Return the histogram of each tensor; of one with NaN or infinity, of the rest."""
    return {name: _histogram(_some(tensor)) for name, tensor in tensors.items()}


def _some(tensor: Array) -> Array:
    flat = tensor.reshape(-1)
    return flat[:: max(1, flat.size // SAMPLE)]


def _histogram(values: Array) -> Histogram:
    finite: Any = values[np.isfinite(values)].astype(np.float64)
    counts, edges = np.histogram(finite, BINS)
    return Histogram(counts.astype(np.float64), edges)
