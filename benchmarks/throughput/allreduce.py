"""All-reduce among two workers, against bare processes that train and reduce, and other ways.

- gradients at every step: against two bare processes that have the same compiled functions, and a
  bare ring between them
- parameters at every tenth step: against a parameter server whose workers wait for each other
- the way from the last worker's join to the first step
- gradients at every step of a small network: against `MultiWorkerMirroredStrategy`, by `RING`

    python -m benchmarks.throughput.allreduce [--quick]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import tos_notebook as tos
from tos_notebook.blocks.block import describe
from tos_notebook.events import Event, MilestoneCommitted, WorkerJoined
from tos_notebook.strategies import AllReduce

from ..lib.data import Labelled, digits, mnist
from ..lib.harness import Row, milliseconds, program
from ..lib.mirrored import Mirrored
from ..lib.models import TWO_NN, name_of, network
from ..lib.ours import BATCH_SIZE, Measured, measure, spark
from ..lib.ring_ceiling import RingCeiling

CASES = {1000: (0.9, 20, 5), 100: (0.85, 10, 2)}
"""By the rows of a worker's batch: the goal, the epochs, and those of a quick measurement."""

ALGORITHMS = ("ring", "auto")
EVERY = 10
SMALL, SMALL_BATCH = (64, 64, 10), 32
STEPS = 200
"""Of TensorFlow's loop, which takes 20 ms for one."""

JOIN_GOAL, MIRRORED_GOAL = 50, 8

Rate = Callable[[], float]


def in_turns(rounds: int, *sides: Rate) -> list[list[float]]:
    """Return the rates of each side; all have met the same machine in a round."""
    found: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        # The first one is not always the same.
        for index in list(range(len(sides)))[:: 1 if number % 2 else -1]:
            found[index].append(sides[index]())
    return found


def compared(
    what: str, goal: float, unit: str, name: str, ours: Sequence[float], other: Sequence[float]
) -> Row:
    """Return the ratio of two sides' rates."""
    ratios = [a / b for a, b in zip(ours, other, strict=True)]
    parts = {
        "ours": f"{median(ours):,.0f} {unit}",
        name: f"{median(other):,.0f} {unit}",
        "range of the ratio": f"{min(ratios):.3f} to {max(ratios):.3f}",
    }
    return Row(what, median(ratios), "x", f">= {goal}", parts, len(ratios))


def by_gradients(
    cluster: Any, ceiling: RingCeiling, data: Labelled, batch_size: int, quick: bool
) -> list[Row]:
    """Compare gradients at every step with bare processes that do the same."""
    goal, whole, short = CASES[batch_size]
    epochs, model = short if quick else whole, tos.capture(network(TWO_NN))
    made = model.for_gradients()
    archive = made.export([(c.dtype, c.shape) for c in describe(data)])
    found: list[Measured] = []

    def bare() -> float:
        return ceiling.rate(archive, made.read(), batch_size, epochs)

    def trained(session: tos.TrainingSession) -> Rate:
        def ours() -> float:
            found.append(measure(session, data, epochs))
            return found[-1].steady

        return ours

    with ExitStack() as stack:
        sides = [bare]
        for algorithm in ALGORITHMS:
            session = tos.TrainingSession(
                cluster, model, strategy=f"allreduce:{algorithm}", batch_size=batch_size
            )
            sides.append(trained(stack.enter_context(session)))
        in_turns(1, *sides)
        found.clear()
        others, *ours = in_turns(3 if quick else 9, *sides)
    rows = [
        compared(
            f"{name_of(TWO_NN)}, batch {batch_size}: {algorithm} / bare ring",
            goal,
            "samples/s",
            "bare",
            rates,
            others,
        )
        for algorithm, rates in zip(ALGORITHMS, ours, strict=True)
    ]
    for name in ("compute", "exchange", "wait", "rest"):
        value = milliseconds(median(getattr(m, name) for m in found))
        rows[-1].parts[f"{name} per milestone, all of ours"] = value
    return rows


def by_parameters(cluster: Any, data: Labelled, quick: bool) -> Row:
    """Compare local SGD with a parameter server whose workers wait for each other."""
    model, epochs = tos.capture(network(TWO_NN)), 2 if quick else 10
    same = {"batch_size": BATCH_SIZE, "sync_interval": EVERY}
    parameters = AllReduce(of="parameters", every=EVERY)
    with (
        tos.TrainingSession(cluster, model, strategy=parameters, **same) as ours,
        tos.TrainingSession(cluster, model, strategy="ps", sync="bsp", **same) as server,
    ):
        sides = [lambda: measure(ours, data, epochs).steady]
        sides.append(lambda: measure(server, data, epochs).steady)
        in_turns(1, *sides)
        found = in_turns(3 if quick else 9, *sides)
    what = f"{name_of(TWO_NN)}, parameters every {EVERY}: all-reduce / ps of bsp"
    return compared(what, 1, "samples/s", "parameter server", *found)


class Beginning:
    """A sink that notes the way from the last worker's join to the first step of a run."""

    def __init__(self) -> None:
        self._joined = 0.0
        self.seconds: float | None = None

    def __call__(self, event: Event) -> None:
        """Take one event into account."""
        if isinstance(event, WorkerJoined):
            self._joined = event.time
        elif isinstance(event, MilestoneCommitted) and self.seconds is None:
            self.seconds = event.time - self._joined - event.compute


def joining(session: tos.TrainingSession, data: Labelled, rounds: int) -> Row:
    """Return the time from the last join to the first step, without computing it."""
    times = []
    for _ in range(rounds):
        beginning = Beginning()
        session.run(data, 1, sinks=[beginning])
        times.append(1e3 * float(beginning.seconds or "nan"))
    parts = {"each": " ".join(f"{each:.0f}" for each in times)}
    what = f"digits, {name_of(SMALL)}: last join to first step"
    return Row(what, median(times), "ms", f"<= {JOIN_GOAL}", parts, rounds)


def small(cluster: Any, quick: bool) -> list[Row]:
    """Compare steps of a small network with those of TensorFlow's strategy."""
    (data, _), epochs = digits(), 20 if quick else 50
    model = tos.capture(network(SMALL, pixels=False))
    rows_of_step = 2 * SMALL_BATCH
    with (
        tos.TrainingSession(cluster, model, strategy="allreduce", batch_size=SMALL_BATCH) as ours,
        Mirrored(SMALL, SMALL_BATCH) as mirrored,
    ):
        sides = [lambda: measure(ours, data, epochs).steady / rows_of_step]
        sides.append(lambda: mirrored.rate(STEPS))
        in_turns(1, *sides)
        found = in_turns(3 if quick else 9, *sides)
        joined = joining(ours, data, 5 if quick else 15)
    what = f"digits, {name_of(SMALL)}: all-reduce / MultiWorkerMirroredStrategy"
    return [compared(what, MIRRORED_GOAL, "steps/s", "TensorFlow", *found), joined]


def run(quick: bool) -> list[Row]:
    """Compare one after the other, on one Spark."""
    data, _ = mnist()
    with spark() as cluster:
        with RingCeiling() as ceiling:
            rows = [
                row
                for batch_size in CASES
                for row in by_gradients(cluster, ceiling, data, batch_size, quick)
            ]
        return [*rows, by_parameters(cluster, data, quick), *small(cluster, quick)]


if __name__ == "__main__":
    program(run, __doc__)
