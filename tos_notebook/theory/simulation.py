"""Asynchronous descent on a quadratic, simulated, and the momentum that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..common.checks import at_least_one, not_negative, positive
from ..errors import ConfigError


class Fit(NamedTuple):
    """Momentum and step of the descent that fits a trajectory best."""

    momentum: float
    """μ, the share of a move that the next one repeats."""
    step: float
    """Learning rate times curvature, as if nothing were stale."""


def fit_momentum(trajectory: npt.ArrayLike) -> Fit:
    """Fit x_{t+1} - x_t = μ (x_t - x_{t-1}) - s x_t to a trajectory by least squares.

    Parameters
    ----------
    trajectory : array_like, shape (steps + 1,)
        Distance to the optimum of a quadratic along one eigenvector after each step. For a random
        process, the mean over many runs, since noise biases the fit of a single run.

    Returns
    -------
    Fit
        Of asynchronous descent by n workers about (1 - 1/n, ηh/n). The very first step is left
        out: no worker is stale there yet.

    Raises
    ------
    ConfigError
        Another shape, fewer than 5 values, or one that is not finite.
    """
    x = np.asarray(trajectory, np.float64)
    if x.ndim != 1 or len(x) < 5 or not np.isfinite(x).all():
        raise ConfigError(
            "trajectory: expected at least 5 finite values in one dimension, got shape "
            f"{x.shape}. Average runs first, and keep to a stable learning rate."
        )
    moves = np.diff(x)
    known = np.column_stack([moves[:-1], -x[1:-1]])
    (momentum, step), _, rank, _ = np.linalg.lstsq(known, moves[1:], rcond=None)
    if rank < 2:
        # Each move is the same part of the place: descent without momentum explains all.
        momentum, step = 0.0, np.linalg.lstsq(known[:, 1:], moves[1:], rcond=None)[0].item()
    return Fit(float(momentum), float(step))


@dataclass(frozen=True, slots=True)
class Simulation:
    """Runs of asynchronous descent on a quadratic."""

    parameter: npt.NDArray[np.float64]
    """Its distance to the optimum, 1 at first; shape (steps + 1, runs)."""
    staleness: npt.NDArray[np.int64]
    """Of each step, in versions; shape (steps, runs)."""


def simulate(
    workers: int,
    steps: int = 100,
    rate: float = 0.2,
    curvature: float = 1.0,
    seed: int = 0,
    runs: int = 4000,
) -> Simulation:
    """Simulate asynchronous gradient descent with exponential service times.

    Such times have no memory: each worker is as likely as any other to push next.

    Parameters
    ----------
    workers : int
        At least 1.
    steps : int
        Pushes, of all workers together; at least 1.
    rate, curvature : float
        Learning rate and the quadratic's second derivative, above 0.
    seed : int
        At least 0.
    runs : int
        Independent ones, at least 1.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    n, count = at_least_one("workers", workers), at_least_one("runs", runs)
    move = positive("rate", rate) * positive("curvature", curvature)
    random = np.random.default_rng(not_negative("seed", seed))
    parameter = np.ones((at_least_one("steps", steps) + 1, count))
    staleness = np.empty((steps, count), np.int64)
    pulled = np.ones((count, n))
    version = np.zeros((count, n), np.int64)
    every = np.arange(count)
    for t in range(steps):
        who = every, random.integers(n, size=count)
        staleness[t] = t - version[who]
        parameter[t + 1] = parameter[t] - move * pulled[who]
        pulled[who], version[who] = parameter[t + 1], t + 1
    return Simulation(parameter, staleness)
