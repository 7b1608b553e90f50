"""What a run tells when shards of its parameters were lost, and it returned to a copy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from ..coordination.coordinator import Coordinator
from ..errors import WaitTimeout
from ..events import Event, JobRestarted, ParametersRestored
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
    """Tells of returns to a copy in memory.

    Parameters
    ----------
    training : Coordinator
    publish : callable
        Takes an event.

    Attributes
    ----------
    trained_after : callable
        Takes a version; returns how many milestones, rows and steps are of later ones.
    """

    def __init__(self, training: Coordinator, publish: Callable[[Event], None]) -> None:
        self.trained_after: Callable[[int], tuple[int, int, int]] = lambda version: (0, 0, 0)
        self._training, self._publish = training, publish
        self._recoveries = Recoveries()
        self._note: str | None = None
        self._version = 0

    def tell(self, reason: str) -> None:
        """Say that the run has returned to a copy, and why.

        Raises
        ------
        ClusterUnreachable
            It has done so too often, with nothing trained between.
        """
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
