"""What a run begins with: its first event, and what observers and checkpoints know of it."""

from __future__ import annotations

import time
from functools import partial

from ..blocks.source import DataSource
from ..events import Event, MilestoneCommitted, RunResumed, RunStarted
from .checkpoint.writer import Subject
from .epochs import Epochs
from .observers.base import RunContext
from .parts import RunParts
from .results.held_model import HeldModel
from .results.view import RunView


def beginning(parts: RunParts, source: DataSource) -> Event:
    """Return the event that says how much there is to train.

    Parameters
    ----------
    parts : RunParts
    source : DataSource
        In its present layout.
    """
    sampling, options = parts.strategy.sampling, parts.plan.options
    # How many rows samples have is not known before they are drawn.
    drawn = sampling is not None and not sampling.whole
    drawn = drawn or (options.participation or 1) < 1
    rows = None if drawn else source.samples
    size = options.epochs, source.partitions, rows, parts.training.settings.strategy.lockstep
    if parts.resumed is None:
        return RunStarted(time.time(), parts.run_id, *size)
    return RunResumed(time.time(), parts.resumed.number, *size)


def context_of(parts: RunParts, run: RunView, model: HeldModel, epochs: Epochs) -> RunContext:
    """Return what an observer has of its run."""
    totals = parts.history.totals()
    return RunContext(
        run,
        model,
        parts.training.parameters,
        parts.bus.publish,
        parts.training.fail,
        range(epochs.first_epoch, parts.plan.options.epochs),
        totals.samples,
        totals.steps,
        parts.checkpointer,
        parts.history.paces,
    )


def subject_of(parts: RunParts, epochs: Epochs) -> Subject:
    """Return what checkpoints are written of."""
    training, bus = parts.training, parts.bus
    past = () if parts.resumed is None else parts.resumed.past
    return Subject(
        partial(training.snapshot, apart=True),
        lambda: epochs.asked,
        parts.history.totals,
        bus.publish,
        bus.flush,
        lambda: training.proven,
        lambda: training.spoiled,
        sum(isinstance(event, MilestoneCommitted) for event in past),
        lambda: epochs.swaps.asked,
    )
