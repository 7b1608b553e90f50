"""A run's settings, as a user reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...chaos.rules import Rule
from ...combiners.base import Combiner

OPTIONAL = "combiner", "sync_interval"
"""What some strategies do not have: it is None then, and not shown."""


class _Shown:
    """Shows its fields, in a cell a line for each, without those that do not apply."""

    __slots__ = ()

    def _text(self, between: str) -> str:
        shown: Any = self
        values = {field.name: getattr(self, field.name) for field in fields(shown)}
        for name in OPTIONAL:
            if values[name] is None:
                del values[name]
        texts = (f"{name}={value!r}" for name, value in values.items())
        return f"{type(self).__name__}({between.join(texts)})"

    @property
    def by_name(self) -> dict[str, object]:
        """What a log takes: all that applies, by any names, the strategy's own among them."""
        names = [each.name for each in fields(RunSettings) if hasattr(self, each.name)]
        common: dict[str, object] = {name: getattr(self, name) for name in names}
        own: Any = common.pop("own")
        common.pop("lockstep", None)
        for name in OPTIONAL:
            if common[name] is None:
                del common[name]
        return {**own, **common}

    def __repr__(self) -> str:
        return self._text(", ")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._text(",\n" + " " * (len(type(self).__name__) + 1)))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunSettings(_Shown):
    """What is in force in a run at one moment."""

    strategy: str
    """How workers exchange what they learn."""
    lockstep: bool
    """Whether all workers make each step together: nothing is stale, and the sync mode is fixed."""
    combiner: Combiner | None
    """By which the server merges; None for a strategy that has none."""
    codec: str
    """How updates and replies are encoded."""
    sync: str
    """How far a worker may be ahead of others."""
    sync_interval: int | None
    """Batches between two exchanges; None where workers exchange once in an epoch."""
    learning_rate: float | None
    """None for that of the captured program."""
    batch_size: int
    chaos: tuple[Rule, ...]
    """What goes wrong on purpose."""
    own: Mapping[str, object]
    """The strategy's own settings, besides combiner and codec."""

    @property
    def strategy_text(self) -> str:
        """The strategy and its own settings: ``allreduce (of gradients, algorithm ring)``."""
        own = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.own.items())
        return f"{self.strategy} ({own})" if own else self.strategy


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SavedSettings(_Shown):
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
    max_checkpoints: int
