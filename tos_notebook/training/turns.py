"""Partitions that take turns, where shards of the parameters have the slots of workers."""

from __future__ import annotations

from ..readable import counted
from ..strategies.base import Strategy
from .epochs import Epochs
from .parts import RunParts


def notes_of_jobs(parts: RunParts, epochs: Epochs, strategy: Strategy) -> tuple[str, ...]:
    """Return what a user should know of a run's Spark jobs, by the strategy that trains it now."""
    # The plan is made for the strategy that the run began with.
    slots = parts.plan.slots + parts.strategy.tasks
    turns = in_turns(strategy.tasks, epochs.source.partitions, slots)
    return *turns, *epochs.recovered.notes, *epochs.notes, *epochs.swaps.notes


def in_turns(shards: int, partitions: int, slots: int) -> tuple[str, ...]:
    """Return what it costs if shards take slots that workers need; nothing if they do not.

    Parameters
    ----------
    shards : int
        Tasks beside the workers.
    partitions : int
    slots : int
        Tasks that Spark runs at once.
    """
    free = max(1, slots - shards)
    if not shards or partitions <= free:
        return ()
    fits = f"num_workers={free}"
    if slots > partitions:
        fits += f" or {counted(slots - partitions, 'shard')}"
    takes = "takes" if shards == 1 else "take"
    return (
        f"Spark runs {slots} tasks at once, of which {counted(shards, 'shard')} {takes} {shards}: "
        f"{free} of {partitions} workers can train at a time, and the others wait for their turn. "
        f"All train at once with {fits}.",
    )
