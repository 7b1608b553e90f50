"""Asynchrony begets momentum (Mitliagkas et al. 2016, arXiv:1605.09774), on a quadratic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tos_notebook.archive.runner import Trained
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.combiners import Downpour
from tos_notebook.common.arrays import Array
from tos_notebook.events import MilestoneCommitted
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.theory import fit_momentum

from ..lib.harness import Row
from .asynchronous import mean_staleness
from .report import Options, row, say
from .simulation import Simulation
from .turns import by_service_time, generator

WORKERS: Mapping[int, float] = {2: 0.4998, 4: 0.7508, 8: 0.8750, 16: 0.9378}
"""The momentum that was fitted to a simulation without this server."""
RUNS = 1200
STEPS = 60
"""Runs whose mean is fitted, and pushes of each: about 0.002 of noise in the momentum."""
LONG = 4000
"""Pushes of the run whose staleness is measured."""
MOMENTUM = 0.01
STALENESS = 0.02
"""How far momentum, and staleness as a share of n - 1, may be off."""


class Quadratic:
    """Gradient descent on x²/2, a batch a step; see `tos_notebook.archive.runner.Runner`.

    Parameters
    ----------
    rate : float
    """

    def __init__(self, rate: float) -> None:
        layout = Layout([ParameterSpec("x", (), "float64")])
        self.spec = ProgramSpec("quadratic", (FeedSpec("row", "u1", ()),), layout, ("loss",), False)
        self._rate = rate

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        (x,) = vectors
        steps = -(-len(columns[0]) // batch_size)
        return Trained([(x * (1 - self._rate) ** steps).reshape(())], {"loss": x.item() ** 2 / 2})

    def set_learning_rate(self, value: float) -> None:
        self._rate = value

    def reset(self) -> None: ...

    def load(self) -> None: ...

    def explain(self, error: BaseException) -> None: ...


def descend(
    workers: int, rate: float, pushes: int, seed: int
) -> tuple[list[float], list[MilestoneCommitted]]:
    """Descend from x = 1, a step a push, in the order of exponential service times.

    Returns
    -------
    list of float
        x before the first push, and after each.
    list of MilestoneCommitted
        The pushes.
    """
    runner = Quadratic(rate)
    layout = runner.spec.layout
    path: list[float] = []
    with Simulation(layout, layout.pack({"x": np.float64(1)}), Downpour(), 1, 1, 0) as run:
        x = layout.tensors(run.store.center)["x"]

        def enough() -> bool:
            path.append(x.item())
            return len(path) > pushes

        run.work(
            [runner] * workers,
            [(np.zeros(pushes, np.uint8),)] * workers,
            (0, 0),
            by_service_time(workers, generator(seed, workers)),
            enough,
        )
        return path, run.pushes


def momentum_row(workers: int, runs: int) -> Row:
    """Return the momentum fitted to the mean of many runs."""
    # As large as the implicit momentum allows without drowning the mean in noise.
    rate = 1 / workers
    paths = [descend(workers, rate, STEPS, seed)[0] for seed in range(runs)]
    momentum, step = fit_momentum(np.mean(paths, axis=0))
    theory = 1 - 1 / workers
    return row(
        f"quadratic, n={workers}: implicit momentum",
        momentum,
        "",
        published=f"{theory} (1 - 1/n)",
        setup=f"ηh {rate:g}, H=1, {runs} runs of {STEPS} pushes; step fitted {step:.4f}, "
        f"η h/n is {rate / workers:.4f}; numpy alone: {WORKERS[workers]:.4f}",
        goal=f"{theory} ± {MOMENTUM}",
        within=abs(momentum - theory) <= MOMENTUM,
    )


def staleness_row(workers: int) -> Row:
    """Return the mean staleness of one long run."""
    _, pushes = descend(workers, 1 / workers, LONG, seed=0)
    staleness = mean_staleness(pushes, workers)
    return row(
        f"quadratic, n={workers}: mean staleness",
        staleness,
        "",
        published=f"{workers - 1} (n - 1)",
        setup=f"exponential service times, one run of {LONG} pushes",
        goal=f"{workers - 1} ± {STALENESS:.0%}",
        within=abs(staleness - (workers - 1)) <= STALENESS * (workers - 1),
    )


def measure(options: Options) -> Iterator[Row]:
    """Fit the momentum and measure the staleness for each number of workers."""
    for workers in WORKERS:
        yield momentum_row(workers, RUNS // 10 if options.quick else RUNS)
        yield staleness_row(workers)
        say(f"theory {workers}")
