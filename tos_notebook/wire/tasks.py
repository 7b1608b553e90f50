"""What a task of Spark is told, and what it returns, where its worker has no connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..common.arrays import Buffer
from .messages import Join, Request
from .settings import WorkerSettings


class Assignment(NamedTuple):
    """One epoch of a run, which workers train without a connection."""

    epoch: int
    layout: int
    """Tells layouts of the data apart."""
    settings_version: int
    settings: WorkerSettings
    own: Mapping[int, WorkerSettings]
    """By partition, for the first attempt: settings that hold chaos."""


class TaskReport(NamedTuple):
    """What the worker of one partition would have said to the server in an epoch."""

    join: Join
    stage: int
    """Spark's, of its task."""
    messages: tuple[Request, ...]
    """Those that follow."""
    spoiled: Buffer | None = None
    """The update of its push, if that is not finite."""


class Total(NamedTuple):
    """What the workers of some partitions bring together."""

    mean: Buffer | None = None
    """The mean over rows of all updates that are finite; None without any."""
    rows: int = 0
    """Of which it is the mean."""
    task_reports: tuple[TaskReport, ...] = ()
