"""Workers that were lost and have not come back, and what a run does about it."""

from __future__ import annotations

from collections.abc import Iterable

from ..events import WorkerLost
from ..readable import counted

MOST = 3
"""Partitions that are named; with a host, many are lost at once."""


def lost_workers(lost: Iterable[WorkerLost], lockstep: bool, continues: bool) -> tuple[str, ...]:
    """Return for people who was lost, and what comes of it.

    Parameters
    ----------
    lost : iterable of WorkerLost
        Of partitions that no worker trains since then.
    lockstep : bool
        Whether all workers make each step together.
    continues : bool
        Whether they do so without a lost one, after a while.
    """
    events = list(lost)
    if not events:
        return ()
    named = [
        f"Partition {event.partition} lost its worker on executor {event.executor} "
        f"({event.host}): {event.reason.rstrip('.')}."
        for event in events[:MOST]
    ]
    if len(events) > MOST:
        named.append(f"So did {counted(len(events) - MOST, 'more partition')}.")
    then = "The other workers continue, and Spark starts it again."
    if lockstep:
        then = "The other workers wait until Spark has started it again; no step is lost."
    if lockstep and continues:
        then = "The other workers wait for it for a while, then continue without its rows."
    return *named[:-1], f"{named[-1]} {then}"
