"""A run that is about to be made."""

from __future__ import annotations

from dataclasses import dataclass

from ..blocks.source import DataSource
from ..coordination.settings import Settings
from ..coordination.snapshots import RunPosition
from ..telemetry.bus import Sink
from .checkpoint.writer import CheckpointWriter
from .parts import Resumed
from .run_plan import RunPlan


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run about to be made."""

    run_id: str
    """Of its Spark jobs and its workers: another one each time that a run is resumed."""
    plan: RunPlan
    settings: Settings
    first: DataSource
    """The data in the first layout, on which all others build."""
    reached: RunPosition
    sinks: tuple[Sink, ...]
    checkpointer: CheckpointWriter | None = None
    resumed: Resumed | None = None
    came_in: int | None = None
    """Partitions that the rows came in before they were dealt; None for the first layout's."""

    @property
    def partitions(self) -> int:
        """How many partitions it begins with."""
        layout = self.reached.layout
        return self.first.partitions if layout is None else layout.partitions

    @property
    def as_they_come(self) -> bool:
        """Whether the rows are trained in the partitions in which they come."""
        return self.came_in is None and self.reached.layout is None
