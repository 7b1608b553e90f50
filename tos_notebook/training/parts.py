"""What a run is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..blocks.source import DataSource
from ..coordination.coordinator import Coordinator
from ..coordination.snapshots import BEGINNING, RunPosition
from ..events import Event
from ..strategies.base import Strategy
from ..telemetry.bus import EventBus
from ..telemetry.history import History
from .checkpoint.contents import Checkpoint
from .checkpoint.writer import CheckpointWriter
from .limits import Limits
from .options import SessionOptions
from .results.view import RunView
from .run_plan import RunPlan
from .swaps import Method

if TYPE_CHECKING:
    from ..program.export.base import Program
    from ..worker.task import Task


@dataclass(frozen=True, slots=True)
class Resumed:
    """From where a run continues."""

    number: int
    """The checkpoint's."""
    checkpoint: Checkpoint
    past: Sequence[Event]
    """What happened until then."""
    notes: tuple[str, ...] = ()
    """What the user is to know of the checkpoint."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run is made of."""

    number: int
    """Counts the runs of this process from 1."""
    sc: Any
    program: Program
    strategy: Strategy
    """That it begins with, as it does with program and task."""
    training: Coordinator
    task: Task
    source: DataSource
    """In the first layout."""
    plan: RunPlan
    bus: EventBus
    """Its sinks so far are those that a resumed run does not tell of its past."""
    history: History
    cancel: Callable[[], object]
    """Cancels the run's Spark job."""
    on_end: Callable[[], None]
    """Called when the run has left nothing behind."""
    reached: RunPosition = BEGINNING
    """Where to begin."""
    checkpointer: CheckpointWriter | None = None
    resumed: Resumed | None = None
    session: SessionOptions = field(default_factory=SessionOptions)
    """Checked."""
    method: Callable[[Strategy, int], Method] | None = None
    """Takes another strategy, and a number that no swap of the run had before. Returns how the run
    is trained by it."""
    others: Callable[[], Mapping[str, int]] = dict
    """Returns how many workers train for each other active run on `sc`; see `watchdog.held`."""
    look: Callable[[RunView], object] = lambda run: None
    """Looks at the executors before the first job, where that was not done."""

    @property
    def run_id(self) -> str:
        """That of the run as it was first started."""
        resumed = self.resumed
        return self.training.run_id if resumed is None else resumed.checkpoint.origin.run_id

    @property
    def name(self) -> str | None:
        """What it is called; None without a name."""
        return self.plan.options.name

    @property
    def master(self) -> str:
        """Spark's master."""
        return str(self.sc.master)

    @property
    def optimizer_state(self) -> str:
        """What becomes of a worker's optimizer state when it adopts parameters."""
        return self.task.plan.optimizer_state

    @property
    def limits(self) -> Limits:
        """How long the run waits for others."""
        return self.plan.limits

    @property
    def state(self) -> str:
        """See `Run.state`."""
        return str(self.training.machine.state)

    def saved_otherwise(self) -> tuple[str, ...]:
        """Say what is not as expected of its checkpoints, though they are written."""
        saved = None if self.checkpointer is None else self.checkpointer.status
        return (saved.note,) if saved is not None and saved.note else ()

    def unsaved(self) -> tuple[str, ...]:
        """Say what is missing of its checkpoints."""
        saved = None if self.checkpointer is None else self.checkpointer.status
        return (str(saved),) if saved is not None and saved.error else ()
