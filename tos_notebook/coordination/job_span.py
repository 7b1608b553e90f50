"""The epochs that one Spark job trains, and the layout of the data in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..blocks.partitioners import AnyPartitioner
from ..blocks.source import DataSource


class DataLayout(NamedTuple):
    """A layout of the data: a function of the first layout and these fields."""

    partitions: int
    partitioner: AnyPartitioner
    epoch: int


@dataclass(slots=True)
class JobSpan:
    """The epochs that one Spark job trains, over one layout of the data."""

    source: DataSource
    first_epoch: int
    last_epoch: int
    layout: DataLayout | None = None
    """None for the first layout."""
    ended: str | None = None
    """Why its workers end in the midst of it, so that another strategy continues."""
    started: int = field(init=False)
    """The latest epoch that a worker has begun."""

    def __post_init__(self) -> None:
        self.started = self.first_epoch
