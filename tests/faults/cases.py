"""Play one case: train, let something happen in mid-epoch, count."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import tos_notebook as tos
from tests.support.watching import Watch
from tests.unit.worker.support import until
from tos_notebook.cluster.executors import slots
from tos_notebook.events import MilestoneCommitted, WorkerJoined

from . import counting, moments
from .clusters import Cluster
from .kinds import PACE, SLOWER, Fault, Scene
from .modes import Mode

BATCH = 1
LIMIT = 240.0
"""Seconds for a run to end once the fault has been."""

PATIENT = 60.0
"""Seconds for executors to be back."""

SEED = 1
LONGER, FEWER = 10, 4
"""Times the rows, and of how many epochs one, where workers make many steps in each milestone."""


@dataclass(frozen=True)
class Case:
    """What happens, where, in which mode."""

    fault: Fault
    cluster: str
    mode: Mode

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each partition."""
        return tuple(size * (LONGER if self.mode.meshed else 1) for size in self.fault.sizes)

    @property
    def epochs(self) -> int:
        """How many to train."""
        return self.fault.epochs // (FEWER if self.mode.meshed else 1)

    @property
    def known(self) -> tuple[float, float] | None:
        """What is to be counted; None where that depends on the run."""
        if self.fault.loses or self.mode.counts == "run":
            return None
        count = counting.expected_together if self.mode.together else counting.expected
        return count(self.sizes, BATCH, self.epochs)

    @property
    def patience(self) -> float:
        """Seconds; see `Fault.patience`."""
        waits = self.fault.loses or not self.mode.continues
        return self.fault.patience if waits else PATIENT

    @property
    def bits(self) -> tuple[str, ...]:
        """The parameters that have the bits of a run to which nothing happens."""
        return () if self.fault.loses else self.mode.bits


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
    away : float
        Seconds until the run trained again when a shard was lost, the most; 0 if none was.
    """

    fault: str
    cluster: str
    mode: str
    expected: tuple[float, float]
    got: tuple[float, float]
    seconds: float
    state: str
    error: str
    away: float = 0.0

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
    got, expected, state, error = (0.0, 0.0), case.known or (0.0, 0.0), "none", ""
    away = list[float]()
    try:
        alone = None
        if case.bits or case.mode.counts == "run":
            alone = _undisturbed(case, cluster)
            expected = case.known or counting.counted(alone)
        run, watch, error = _train(case, cluster, away)
        got, state = counting.counted(run), run.state
        if fault.loses:
            expected, error = _without(case, run, watch, error)
        elif alone is not None:
            error = error or _differences(case, run, alone)
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}".splitlines()[0]
    seconds = perf_counter() - began
    try:
        cluster.heal()
    except Exception as problem:
        error = error or f"the cluster does not heal: {problem}"
    return Outcome(
        *(fault.name, case.cluster, case.mode.name, expected, got),
        *(round(seconds, 1), state, error, round(max(away, default=0.0), 1)),
    )


def _differences(case: Case, run: tos.Run, alone: tos.Run) -> str:
    """Return what tells a run from one to which nothing has happened; empty for nothing."""
    due = case.epochs * sum(case.sizes)
    if run.status.samples != due:
        return f"expected {due} rows to be trained, got {run.status.samples}"
    found, known = _bits(run), _bits(alone)
    off = [name for name in case.bits if found[name] != known[name]]
    return f"other bits in {', '.join(off)}" if off else ""


def _bits(run: tos.Run) -> dict[str, bytes]:
    return {name.split(":")[0]: value.tobytes() for name, value in run.parameters().items()}


def _without(case: Case, run: tos.Run, watch: Watch, error: str) -> tuple[tuple[float, float], str]:
    """Return what a run must have counted that has lost rows, and what it says of that wrongly."""
    trained = [dict[int, int]() for _ in range(case.epochs)]
    for event in watch.of(MilestoneCommitted):
        rows = trained[event.epoch]
        rows[event.partition] = rows.get(event.partition, 0) + event.samples
    count = sum(sum(rows.values()) for rows in trained)
    lost = case.epochs * sum(case.sizes) - count
    if run.status.samples != count:
        error = error or f"expected {count} rows to be trained, got {run.status.samples}"
    if not lost or not any(f": {lost:,} of its rows" in note for note in run.status.notes):
        error = error or f"expected a note of {lost} rows, got {run.status.notes}"
    return counting.expected_without(case.sizes, trained), error


def _undisturbed(case: Case, cluster: Cluster) -> tos.Run:
    """Return a run to which nothing happens."""
    sc = cluster.connect(case.fault.config, case.mode.shards)
    # What the case before has killed may not be back yet, and all partitions are trained at once.
    until(lambda: slots(sc) >= cluster.slots + case.mode.shards, PATIENT)
    whole = replace(case, fault=replace(case.fault, prepare=None))
    with tempfile.TemporaryDirectory() as folder, _session(case, sc) as session:
        return _start(whole, session, sc, Path(folder)).wait(LIMIT)


def _session(case: Case, sc: Any) -> tos.TrainingSession:
    return tos.TrainingSession(
        sc, program(), batch_size=BATCH, sync_interval=1, **case.mode.options
    )


def _start(
    case: Case, session: tos.TrainingSession, sc: Any, folder: Path, *sinks: Watch
) -> tos.Run:
    # Not dealt out first: the process that reads a partition's rows is to be the one that trains
    # them.
    return session.start(
        case.fault.rows(sc, case.sizes, folder),
        epochs=case.epochs,
        # What is lost is known by its place.
        shuffle=False if case.fault.loses else "partitions",
        seed=SEED,
        sinks=sinks,
        stall_timeout=case.patience,
    )


def _train(case: Case, cluster: Cluster, away: list[float]) -> tuple[tos.Run, Watch, str]:
    """Train through the fault; return the run, which has ended, and what went wrong."""
    fault, watch = case.fault, Watch()
    sc = cluster.connect(fault.config, case.mode.shards)
    with (
        tempfile.TemporaryDirectory() as folder,
        moments.ending_shard(fault.ends, Path(folder)) if fault.ends else nullcontext(),
        _session(case, sc) as session,
    ):
        run = _start(case, session, sc, Path(folder), watch)
        error = ""
        try:
            # All begin together, slow enough for the fault to come in time; then at full speed.
            if not case.mode.jobs:
                run.pause()
                watch.until(WorkerJoined, count=cluster.slots)
            if not case.mode.meshed:
                pace = SLOWER * PACE if case.mode.jobs else PACE
                run.chaos(tos.chaos.Pause(pace, any=len(fault.sizes)))
            if not case.mode.jobs:
                run.unpause()
            fault.inject(Scene(cluster, run, watch, Path(folder), case.mode, away))
            if run.active:
                run.chaos()
            run.wait(LIMIT)
        except Exception as problem:
            error = _text(problem)
            session.close()
        return run, watch, error


def _text(problem: Any) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
