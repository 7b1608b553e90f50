"""How long a run waits for others."""

from __future__ import annotations

from dataclasses import dataclass

from ..coordination.watchdog import INTERVAL, WATCHDOG_TIMEOUT
from ..data.dealing import RELEASE_TIMEOUT
from .checkpoint.writer import CHECKPOINT_TIMEOUT


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a run waits, at most."""

    evaluation: float = 600.0
    """At its end, for an evaluation of its model under way."""
    flush: float = 10.0
    """For the sinks to take what was published."""
    sinks: float = 10.0
    """At its end, for the users' sinks."""
    stop_grace: float = 1.0
    """For workers to end their milestone, before it cancels the Spark job."""
    job_look: float = 1.0
    """Between two looks at whether it continues, while its job does."""
    give_up: float = 60.0
    """For a job to end after the run was stopped or has failed."""
    release: float = RELEASE_TIMEOUT
    """For Spark to release data."""
    stall_look: float = INTERVAL
    """Between two looks at what it waits for."""
    watchdog: float = WATCHDOG_TIMEOUT
    """At its end, for such a look under way."""
    checkpoint: float = CHECKPOINT_TIMEOUT
    """At its end, for its last checkpoint."""
