"""Play one case: train, let something happen in mid-epoch, count."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import tos_notebook as tos
from tests.support.watching import Watch
from tos_notebook.events import WorkerJoined

from . import counting
from .clusters import Cluster
from .kinds import PACE, Fault, Scene

BATCH = 1
PATIENCE = 10.0
LIMIT = 240.0
"""Seconds for a run to end once the fault has been."""


@dataclass(frozen=True)
class Case:
    """What happens, where, in which sync mode."""

    fault: Fault
    cluster: str
    sync: str


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Parameters
    ----------
    fault, cluster, sync : str
    expected, got : tuple of float
        Sum of all rows and count of batches.
    seconds : float
    state : str
        The run's.
    error : str
        Empty if none.
    """

    fault: str
    cluster: str
    sync: str
    expected: tuple[float, float]
    got: tuple[float, float]
    seconds: float
    state: str
    error: str

    @property
    def counts(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """What was expected, and what came."""
        return self.expected, self.got

    @property
    def exact(self) -> bool:
        """Whether the run finished, and every batch counts once."""
        return self.expected == self.got and self.state == "finished" and not self.error


@cache
def _captured() -> Any:
    return counting.program()


def program() -> Any:
    """Return the counting program, which has counted nothing yet."""
    found = _captured()
    found.write(found.layout.allocate())
    return found


def play(case: Case, cluster: Cluster) -> Outcome:
    """Play a case; whatever goes wrong is part of its outcome."""
    fault, began = case.fault, perf_counter()
    expected = counting.expected(fault.sizes, BATCH, fault.epochs)
    got, state, error = (0.0, 0.0), "none", ""
    try:
        run, error = _train(case, cluster)
        got, state = counting.counted(run), run.state
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    seconds = perf_counter() - began
    try:
        cluster.heal()
    except Exception as problem:
        error = error or f"the cluster does not heal: {problem}"
    return Outcome(
        fault.name, case.cluster, case.sync, expected, got, round(seconds, 1), state, error
    )


def _train(case: Case, cluster: Cluster) -> tuple[tos.Run, str]:
    """Train through the fault; return the run, which has ended, and what went wrong."""
    fault, watch = case.fault, Watch()
    sc = cluster.connect(fault.config)
    with (
        tempfile.TemporaryDirectory() as folder,
        tos.TrainingSession(
            sc, program(), combiner="delta", batch_size=BATCH, sync_interval=1, sync=case.sync
        ) as session,
    ):
        rows = fault.rows(sc, Path(folder))
        # Not dealt out first: the process that reads a partition's rows is to be the one that
        # trains them.
        run = session.start(
            rows, epochs=fault.epochs, shuffle="partitions", sinks=[watch], patience=PATIENCE
        )
        error = ""
        try:
            # All begin together, slow enough for the fault to come in time; then at full speed.
            run.pause()
            watch.until(WorkerJoined, count=cluster.slots)
            run.chaos(tos.chaos.Pause(PACE, any=len(fault.sizes)))
            run.resume()
            fault.inject(Scene(cluster, run, watch, Path(folder)))
            if run.active:
                run.chaos()
            run.wait(LIMIT)
        except Exception as problem:
            error = _text(problem)
            session.close()
        return run, error


def _text(problem: Any) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
