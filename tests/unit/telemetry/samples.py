"""Events to feed sinks with."""

from __future__ import annotations

from typing import Any

from tos_notebook.events import MilestoneCommitted, RunStarted, WorkerJoined, WorkerLost


def milestone(time: float = 1.0, **changes: Any) -> MilestoneCommitted:
    """Return a plausible milestone; name the fields that matter to the test."""
    fields: dict[str, Any] = {
        "epoch": 0,
        "partition": 0,
        "executor": "1",
        "host": "node",
        "attempt": 0,
        "sequence": 0,
        "steps": 10,
        "samples": 100,
        "loss": 0.5,
        "staleness": 1,
        "version": 1,
        "compute": 0.3,
        "wait": 0.0,
        "exchange": 0.1,
        "bytes_up": 8,
        "bytes_down": 16,
        "workers": 2,
    }
    fields |= changes
    return MilestoneCommitted(time=time, **{"optimizer_steps": fields["steps"], **fields})


def started(
    time: float = 0.0, epochs: int = 5, samples: int | None = 1000, lockstep: bool = False
) -> RunStarted:
    """Return the start of a run over two partitions."""
    return RunStarted(time, "r", epochs, 2, samples, lockstep)


def joined(time: float = 0.0, partition: int = 0, attempt: int = 0) -> WorkerJoined:
    """Return the arrival of a worker on executor 1."""
    return WorkerJoined(time, partition, attempt, "1", "node", epoch=0, resumed_at=0)


def lost(time: float = 2.0, partition: int = 0, attempt: int = 0) -> WorkerLost:
    """Return the loss of a worker on executor 1."""
    return WorkerLost(time, partition, attempt, "1", "node", "connection reset")
