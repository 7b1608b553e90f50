"""How long a run waits for others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, each at most.

    Parameters
    ----------
    evaluation : float
        The end of a run waits for an evaluation of its model under way.
    flush : float
        The sinks have for what was published.
    sinks : float
        The end of a run waits for the users' sinks.
    stop_grace : float
        Workers have to end their milestone before the Spark job is cancelled.
    job_look : float
        Between two looks at whether the run goes on, while its job does.
    give_up : float
        A job has to end after the run was stopped or has failed.
    """

    evaluation: float = 600.0
    flush: float = 10.0
    sinks: float = 10.0
    stop_grace: float = 1.0
    job_look: float = 1.0
    give_up: float = 60.0
