"""A run, and a TensorFlow cluster, as pages look at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from ..nodes.runs import ClusterRun
from ..widgets import cluster_picture, picture
from ..widgets.control import Steering
from ..widgets.facts import RunFacts
from ..widgets.model import RunModel
from ..widgets.news import Plain


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

    def picture(self) -> Mapping[str, Any]:
        """Return it as a saved notebook shows it, by MIME types."""
        return picture.bundle(self.model, self.facts)

    def row(self, now: float) -> Plain:
        """Return it in short."""
        return {**self.model.row(now, self.facts()), "cell": self.cell}


class ClusterRow(TypedDict):
    """A TensorFlow cluster in short."""

    id: str
    number: int
    state: str
    active: bool
    """Whether some of it still runs."""
    running: int
    """Nodes whose function runs."""
    nodes: int
    error: str | None
    cell: str | None


@dataclass(frozen=True, slots=True, eq=False)
class WatchedCluster:
    """A TensorFlow cluster, as pages look at it.

    Parameters
    ----------
    run : ClusterRun
    cell : str or None
        The cell whose execution started it.
    """

    run: ClusterRun
    cell: str | None

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it."""
        return not self.run.active

    def picture(self) -> Mapping[str, Any]:
        """Return it as a saved notebook shows it, by MIME types."""
        return cluster_picture.bundle(cluster_picture.news(self.run))

    def row(self) -> ClusterRow:
        """Return it in short."""
        over, state = self.over, self.run.snapshot()
        error = state["error"]
        return {
            "id": state["id"],
            "number": state["number"],
            "state": state["state"],
            "active": not over,
            "running": sum(node["state"] == "running" for node in state["nodes"]),
            "nodes": len(state["nodes"]),
            "error": error and error["message"].partition("\n")[0],
            "cell": self.cell,
        }
