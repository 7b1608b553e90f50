"""What a run is doing, and under which settings."""

from __future__ import annotations

import time

from ..codecs.pair import PLAIN
from ..coordination.watchdog import is_queued
from ..readable import counted
from ..steering.machine import Command
from ..steering.status import RunStatus, waits_for_epoch
from ..telemetry.losses import lost_workers
from .lifecycle import Lifecycle
from .results.settings import RunSettings


def state_of(run: Lifecycle) -> str:
    """Return the state of a run: that of its machine, or queued."""
    causes = (stall.cause for stall in run.watchdog.stalls)
    return "queued" if is_queued(run.parts.state, causes) else run.parts.state


def run_status(run: Lifecycle) -> RunStatus:
    """Return state and totals of a run, now."""
    parts = run.parts
    totals, validated = parts.history.totals(), parts.history.validated
    stalls = run.watchdog.stalls
    epochs, own = parts.plan.options.epochs, parts.training.settings.strategy
    # A run that is paused or stalled tells nothing. What a resumed run has of its past ended
    # before this process began it.
    quiet = max(0.0, time.time() - max(totals.latest, run.made))
    if totals.queued or not run.active:
        quiet = 0.0
    return RunStatus(
        parts.run_id,
        state_of(run),
        min(totals.epoch + 1, epochs),
        epochs,
        totals.milestones,
        totals.samples,
        totals.samples_per_second,
        totals.loss,
        totals.staleness_mean,
        totals.elapsed + quiet,
        tuple(f"{stall.message} {stall.look}" for stall in stalls),
        run.notes,
        sum(skipped.rows for skipped in run.epochs.source.skipped),
        totals.steps,
        totals.metrics,
        validated[-1].values if validated else {},
        len(validated),
        parts.training.reason,
        None if parts.checkpointer is None else parts.checkpointer.status,
        _pending(run),
        lost_workers(parts.history.lost, own.lockstep, own.continues),
        parts.history.links(),
        run.advisor.advice(run.strategy, run.epochs.source),
        tuple(parts.training.shards) if run.active else (),
        run.left_out,
    )


def _pending(run: Lifecycle) -> tuple[str, ...]:
    swap, layout = run.epochs.swaps.asked, run.epochs.asked
    found = [] if swap is None else [waits_for_epoch(Command.SWAP_STRATEGY, swap.detail)]
    if layout is not None:
        found.append(waits_for_epoch(Command.REPARTITION, counted(layout[0], "partition")))
    return tuple(found) if run.active else ()


def settings_now(run: Lifecycle) -> RunSettings:
    """Return what is in force; see `Run.settings`."""
    parts = run.parts
    settings = parts.training.gone_by
    own = dict(settings.strategy.shown())
    if chosen := parts.training.algorithm:
        own |= {"algorithm": chosen, "chosen_by": own["algorithm"]}
    return RunSettings(
        strategy=run.strategy.name,
        lockstep=settings.strategy.lockstep,
        # A strategy may have neither.
        combiner=own.pop("combiner", None),
        codec=own.pop("codec", str(PLAIN)),
        sync=str(settings.sync),
        sync_interval=None if run.strategy.sampling else settings.sync_interval,
        learning_rate=settings.learning_rate,
        batch_size=parts.task.plan.batch_size,
        chaos=parts.training.chaos,
        own=own,
    )
