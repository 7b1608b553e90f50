"""Events: facts about a run that have already happened, published to sinks.

Commands (see `tos_notebook.steering.machine`) are imperative, events are in the past tense. What
several events have:

- `epoch`, `partition`: their numbers, from 0; `epochs`, `partitions`: how many the run has.
- `samples`: rows that were trained.
- `attempt`: which try of Spark's at the partition it is, from 0.
- `executor`, `host`: Spark's id of the worker's executor, and where that runs.
- `sequence`: which push of the partition in the epoch it is, from 0.
- `command`: the name, as in `tos_notebook.steering.machine.Command`.
- `detail`, `message`, `reason`: what was asked for, what happened, and why, if that is known.

Events are not changed. To freeze them would cost three times as much, at every milestone.
"""

from __future__ import annotations

from .base import DRIVER, SLOTS, Event, WorkerEvent
from .faults import JobRestarted, ParametersRestored, Stalled, StallEnded, WorkerFailed, WorkerLost
from .life import (
    CheckpointFailed,
    CheckpointWritten,
    RunFinished,
    RunResumed,
    RunStarted,
    StateChanged,
)
from .steering import CommandAccepted, CommandApplied, CommandLapsed, Repartitioned, StrategySwapped
from .training import (
    CallbackFailed,
    EpochFinished,
    LabelsSkewed,
    MilestoneCommitted,
    PartitionFinished,
    RowsSkipped,
    UpdateSkipped,
    Validated,
    ValidationFailed,
    WeightsMeasured,
    WorkerJoined,
)

__all__ = [  # noqa: RUF022 - the order of the reference
    "DRIVER",
    "SLOTS",
    "Event",
    "RunStarted",
    "WorkerEvent",
    "WorkerJoined",
    "MilestoneCommitted",
    "UpdateSkipped",
    "RowsSkipped",
    "PartitionFinished",
    "EpochFinished",
    "Validated",
    "ValidationFailed",
    "CallbackFailed",
    "WeightsMeasured",
    "Repartitioned",
    "StrategySwapped",
    "WorkerLost",
    "WorkerFailed",
    "Stalled",
    "StallEnded",
    "LabelsSkewed",
    "JobRestarted",
    "ParametersRestored",
    "CommandAccepted",
    "CommandApplied",
    "CommandLapsed",
    "StateChanged",
    "RunResumed",
    "CheckpointWritten",
    "CheckpointFailed",
    "RunFinished",
]
