"""What a run is asked for, and what changes by that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .base import Event


@dataclass(slots=True)
class CommandAccepted(Event):
    """A command was found legal; `tos_notebook.steering.actions` says when it takes effect."""

    command: str
    detail: str
    """In words, what was asked for."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """The settings of ``set`` by name, as text."""
    source: str = "Python"
    """Who asked for it; see `tos_notebook.Run.events`."""


@dataclass(slots=True)
class CommandApplied(Event):
    """A command took effect."""

    command: str
    detail: str


@dataclass(slots=True)
class CommandLapsed(Event):
    """A command had no effect: the run ended before, or another command took its place."""

    command: str
    detail: str


@dataclass(slots=True)
class Repartitioned(Event):
    """The data were repartitioned between two epochs."""

    epoch: int
    partitions: int
    seconds: float
    """How long it took."""


@dataclass(slots=True)
class StrategySwapped(Event):
    """Another strategy trains the run, from an epoch on."""

    epoch: int
    strategy: str
    lockstep: bool
    """As in `RunStarted`."""
