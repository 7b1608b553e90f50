"""Play one case: train, let something happen in mid-epoch, count."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import tos_notebook as tos
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.cluster.executors import slots
from tos_notebook.events import WorkerJoined

from . import counting
from .clusters import Cluster
from .kinds import PACE, Fault, Scene

BATCH = 1
PATIENCE = 10.0
LIMIT = 240.0
"""Seconds for a run to end once the fault has been."""

PATIENT = 60.0
"""Seconds for executors to be back."""

SEED = 1
LONGER, FEWER = 10, 4
"""Times the rows, and of how many epochs one, where workers make many steps in each milestone."""


@dataclass(frozen=True)
class Case:
    """What happens, where, in which mode; see `matrix.MODES`."""

    fault: Fault
    cluster: str
    mode: str

    @property
    def together(self) -> bool:
        """Whether all workers make each step together."""
        return self.mode.startswith("allreduce")

    @property
    def meshed(self) -> bool:
        """Whether they do so among themselves, many times between two reports to the driver."""
        return self.together and self.mode != "allreduce:star"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each partition."""
        return tuple(size * (LONGER if self.meshed else 1) for size in self.fault.sizes)

    @property
    def epochs(self) -> int:
        """How many to train."""
        return self.fault.epochs // (FEWER if self.meshed else 1)

    @property
    def expected(self) -> tuple[float, float]:
        """What is to be counted."""
        count = counting.expected_together if self.together else counting.expected
        return count(self.sizes, BATCH, self.epochs)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of a session."""
        if self.together:
            return {"strategy": self.mode}
        return {"combiner": "delta", "sync": self.mode}


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Parameters
    ----------
    fault, cluster, mode : str
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
    mode: str
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
    got, state, error = (0.0, 0.0), "none", ""
    try:
        alone = _undisturbed(case, cluster) if case.together else None
        run, error = _train(case, cluster)
        got, state = counting.counted(run), run.state
        if alone is not None:
            error = error or _differences(case, run, alone)
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    seconds = perf_counter() - began
    try:
        cluster.heal()
    except Exception as problem:
        error = error or f"the cluster does not heal: {problem}"
    return Outcome(
        fault.name, case.cluster, case.mode, case.expected, got, round(seconds, 1), state, error
    )


def _differences(case: Case, run: tos.Run, alone: dict[str, bytes]) -> str:
    """Return what tells a run from one to which nothing has happened; empty for nothing."""
    due = case.epochs * sum(case.sizes)
    if run.status.samples != due:
        return f"expected {due} rows to be trained, got {run.status.samples}"
    off = [name for name, found in _bits(run).items() if found != alone[name]]
    return f"other bits in {', '.join(off)}" if off else ""


def _bits(run: tos.Run) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in run.parameters().items()}


def _undisturbed(case: Case, cluster: Cluster) -> dict[str, bytes]:
    """Return the bits of the parameters that a run has to which nothing happens."""
    sc = cluster.connect(case.fault.config)
    # What the case before has killed may not be back yet, and all partitions are trained at once.
    until(lambda: slots(sc) >= cluster.slots, PATIENT)
    whole = replace(case, fault=replace(case.fault, prepare=None))
    with tempfile.TemporaryDirectory() as folder, _session(case, sc) as session:
        return _bits(_start(whole, session, sc, Path(folder)).wait(LIMIT))


def _session(case: Case, sc: Any) -> tos.TrainingSession:
    return tos.TrainingSession(sc, program(), batch_size=BATCH, sync_interval=1, **case.options)


def _start(
    case: Case, session: tos.TrainingSession, sc: Any, folder: Path, *sinks: Watch
) -> tos.Run:
    # Not dealt out first: the process that reads a partition's rows is to be the one that trains
    # them.
    return session.start(
        case.fault.rows(sc, case.sizes, folder),
        epochs=case.epochs,
        shuffle="partitions",
        seed=SEED,
        sinks=sinks,
        patience=PATIENCE,
    )


def _train(case: Case, cluster: Cluster) -> tuple[tos.Run, str]:
    """Train through the fault; return the run, which has ended, and what went wrong."""
    fault, watch = case.fault, Watch()
    sc = cluster.connect(fault.config)
    with tempfile.TemporaryDirectory() as folder, _session(case, sc) as session:
        run = _start(case, session, sc, Path(folder), watch)
        error = ""
        try:
            # All begin together, slow enough for the fault to come in time; then at full speed.
            run.pause()
            watch.until(WorkerJoined, count=cluster.slots)
            if not case.meshed:
                run.chaos(tos.chaos.Pause(PACE, any=len(fault.sizes)))
            run.resume()
            fault.inject(Scene(cluster, run, watch, Path(folder), case.together))
            if run.active:
                run.chaos()
            run.wait(LIMIT)
        except Exception as problem:
            error = _text(problem)
            session.close()
        return run, error


def _text(problem: Any) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
