"""Returns a run to its last copy when shards of its parameters were lost, and tells of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from ..coordination.coordinator import Coordinator
from ..coordination.job_span import JobSpan
from ..coordination.watchdog import Phase
from ..errors import ClusterUnreachable, WaitTimeout
from ..events import Event, JobRestarted, ParametersRestored
from ..steering.machine import ONWARD
from ..steering.restarts import FRUITLESS, Recoveries
from .parts import RunParts

logger = logging.getLogger(__name__)

LOST = "a shard of its parameters"


def trained_after(parts: RunParts, version: int) -> tuple[int, int, int]:
    """Return how many milestones, rows and steps of a run are of later versions."""
    with suppress(WaitTimeout):
        parts.bus.flush(parts.limits.flush)
    return parts.history.after(version)


class Recovered:
    """Returns a run to its copy in memory.

    Parameters
    ----------
    training : Coordinator
    phase : Phase
        What the run is busy with.
    publish : callable
        Takes an event.

    Attributes
    ----------
    trained_after : callable
        Takes a version; returns how many milestones, rows and steps are of later ones.
    """

    def __init__(
        self, training: Coordinator, phase: Phase, publish: Callable[[Event], None]
    ) -> None:
        self.trained_after: Callable[[int], tuple[int, int, int]] = lambda version: (0, 0, 0)
        self._training, self._phase, self._publish = training, phase, publish
        self._recoveries = Recoveries()
        self._note: str | None = None
        self._version = 0

    def in_job(self, span: JobSpan, keep: bool) -> bool:
        """Return to the copy if shards were lost in a job that is over; return whether they were.

        Parameters
        ----------
        span : JobSpan
        keep : bool
            See `Recovery.recover`.

        Raises
        ------
        ClusterUnreachable
            There is no copy, or it happened too often with nothing trained between.
        """
        while self._training.machine.state in ONWARD:
            if self._training.lost is not None:
                self._phase.enter("the shards of the parameters, which start again")
            try:
                reason = self._training.recover(span, keep)
            except ClusterUnreachable as error:
                if self._training.lost is None:
                    raise
                # Lost again before they had started.
                reason = str(error)
            if reason is None:
                return False
            self._tell(reason)
            if self._training.lost is None:
                return True
        return True

    def between_jobs(self) -> None:
        """Return to the copy if shards were lost after a job that trained all that it had to.

        Raises
        ------
        ClusterUnreachable
            See `in_job`.
        """
        if (reason := self._training.bring_back()) is not None:
            self._tell(reason)

    def _tell(self, reason: str) -> None:
        self._version = version = self._training.parameters.version
        row, lost = self._recoveries.count(reason, version), self.trained_after(version)
        self._note = (
            f"The run has lost {LOST}, and continues from its last copy in memory. {reason}"
        )
        logger.warning("Run %s: %s", self._training.run_id, self._note)
        self._publish(ParametersRestored(time.time(), version, *lost, reason))
        self._publish(JobRestarted(time.time(), row, FRUITLESS, 0.0, reason, LOST))

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened, until the run trains again."""
        if self._note is not None and self._training.parameters.version > self._version:
            self._note = None
        return () if self._note is None else (self._note,)
