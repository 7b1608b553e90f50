"""Start a run together with its view."""

from __future__ import annotations

from typing import Any

from ..run import Run, Sinks
from ..session import TrainingSession
from .model import RunModel
from .view import RunView


def start(
    session: TrainingSession, data: Any, epochs: int = 1, *, sinks: Sinks = (), **options: Any
) -> tuple[Run, RunView]:
    """Begin to train, and return the run and a view that is fed until it ends.

    Parameters
    ----------
    session : TrainingSession
    data, epochs, sinks, **options
        As `TrainingSession.start` takes them, and its errors.

    Examples
    --------
    >>> run, view = start(session, (x, y), epochs=10)  # doctest: +SKIP
    >>> view.show()  # doctest: +SKIP
    """
    model = RunModel()
    run = session.start(data, epochs, sinks=[model, *sinks], **options)
    return run, RunView(run, model)
