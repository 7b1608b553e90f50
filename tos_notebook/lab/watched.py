"""A run, as pages look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..widgets.control import Steering
from ..widgets.facts import RunFacts
from ..widgets.model import RunModel


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A run, as pages look at it.

    Parameters
    ----------
    model : RunModel
    facts : RunFacts
    steering : Steering
    cell : str or None
        The cell whose execution started it.
    """

    model: RunModel
    facts: RunFacts
    steering: Steering
    cell: str | None

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.model.ended or not self.facts.active

    def row(self, now: float) -> dict[str, Any]:
        """Return it in short."""
        return self.model.row(now, self.facts()) | {"cell": self.cell}
