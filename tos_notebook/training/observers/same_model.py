"""Says that another run trains the same model at this moment."""

from __future__ import annotations

from collections.abc import Sequence

from ...events import Event
from ...program.export.base import Program
from ...readable import numbered
from ..results.view import RunView
from .base import Observer, RunContext


def trains(run: RunView, program: Program) -> bool:
    """Return whether a run trains the model of a program."""
    return run.program is program or (
        program.model is not None and run.program.model is program.model
    )


class SameModel(Observer):
    """Notes once that a run begins with what another one has trained so far.

    Parameters
    ----------
    context : RunContext
    others : sequence of RunView
        Runs that train the same model.
    """

    def __init__(self, context: RunContext, others: Sequence[RunView]) -> None:
        names = " and ".join(numbered(run.number, run.name) for run in others)
        self._note(
            f"Run {names} trains the same model at this moment: this run begins with the weights "
            "that the model has now, and both write theirs into it. To compare runs, make a "
            "new model for each."
        )

    def __call__(self, event: Event) -> None:
        """See `Observer.__call__`; there is nothing to follow."""

    def finish(self, last: bool) -> None:
        """See `Observer.finish`; there is no thread."""
