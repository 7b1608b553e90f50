"""Wait until so much of a run is trained."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..common.checks import positive
from ..errors import WaitTimeout
from ..steering.status import Goal
from .lifecycle import Lifecycle

LOOK = 0.02
"""Seconds between two looks at what a caller waits for."""


def wait_for(
    run: Lifecycle, wanted: Mapping[str, int | None], each: bool, timeout: float | None
) -> None:
    """Wait for a goal, or for the run's end; see `Run.wait_for`.

    Parameters
    ----------
    run : Lifecycle
    wanted : mapping
        As `Goal` takes it.
    each : bool
        Whether each partition is to reach it.
    timeout : float or None
        Seconds; None for ever.
    """
    goal = Goal(wanted, each, run.progress)
    end = None if timeout is None else time.monotonic() + positive("timeout", timeout)
    while not goal.reached(run.progress):
        if run.ended(LOOK):
            run.wait()
            return
        if end is not None and time.monotonic() > end:
            raise WaitTimeout(
                f"Run {run.parts.run_id} is {run.parts.state}, and {goal} did not come within "
                f"{timeout:g} s. It continues: unpause() it if it is paused, wait longer, or "
                "stop() it."
            )
