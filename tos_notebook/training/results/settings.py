"""A run's settings, as a user reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pprint import pformat
from typing import Any

from ...chaos.rules import Rule
from ...combiners.base import Combiner


def _by_line(shown: Any, printer: Any, cycle: bool) -> None:
    """Show settings in a cell, a line for each."""
    printer.text(pformat(shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What is in force in a run at one moment."""

    strategy: str
    """How workers exchange what they learn."""
    combiner: Combiner | None
    """By which the server merges; None for a strategy that has none."""
    codec: str
    """How updates and replies travel."""
    sync: str
    """How far a worker may be ahead of others."""
    sync_interval: int
    """Batches between two exchanges."""
    learning_rate: float | None
    """None for that of the captured program."""
    batch_size: int
    chaos: tuple[Rule, ...]
    """What goes wrong on purpose."""
    own: Mapping[str, object]
    """What the strategy has of its own, besides combiner and codec."""

    _repr_pretty_ = _by_line

    @property
    def by_name(self) -> dict[str, object]:
        """All, the strategy's own among them, for a log that takes any names."""
        common = {each.name: getattr(self, each.name) for each in fields(self)}
        del common["own"]
        return {**self.own, **common}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSettings:
    """What was in force when a checkpoint was written, and what the run was asked to do.

    The names are those of `RunSettings`, of `TrainingSession` and of its `start`. The combiner's
    name stands for it.
    """

    strategy: str
    combiner: str | None
    codec: str
    sync: str
    sync_interval: int
    learning_rate: float | None
    batch_size: int
    own: Mapping[str, object]
    epochs: int
    shuffle: bool
    seed: int
    repartition_every: int | None
    optimizer_state: str
    checkpoint_every: str
    keep: int

    _repr_pretty_ = _by_line
