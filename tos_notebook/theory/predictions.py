"""What theory predicts of n workers, and gauges that compare it with measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..common.checks import at_least_one, at_least_zero, positive
from ..errors import ConfigError


def mean_staleness(workers: float) -> float:
    """Return the mean staleness of asynchronous workers, n - 1.

    Between a worker's pull and its push each of the others pushes once on average. That is
    counting, and holds whatever the service times are.

    Parameters
    ----------
    workers : float
        How many train at once, on average; at least 1.

    Returns
    -------
    float
        Versions.

    Raises
    ------
    ConfigError
        `workers` is below 1.
    """
    return _workers(workers) - 1


def implicit_momentum(workers: float) -> float:
    """Return the momentum that asynchrony adds by itself, 1 - 1/n.

    In expectation, asynchronous gradient descent with exponential service times moves as
    synchronous descent with this momentum and the step `effective_rate`. Mitliagkas, Zhang,
    Hadjis and Ré, "Asynchrony begets momentum", arXiv:1605.09774.

    Parameters
    ----------
    workers : float
        See `mean_staleness`.

    Returns
    -------
    float
        In [0, 1).

    Raises
    ------
    ConfigError
        `workers` is below 1.
    """
    return 1 - 1 / _workers(workers)


def effective_rate(rate: float, workers: float) -> float:
    """Return the step that goes with the implicit momentum, η/n; arXiv:1605.09774.

    Parameters
    ----------
    rate : float
        The workers' learning rate η, above 0.
    workers : float
        How many train at once, on average; at least 1.

    Returns
    -------
    float
        The step that synchronous descent would take.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    return positive("rate", rate) / _workers(workers)


def stability_bound(staleness: float) -> float:
    """Return the bound of ηh below which descent with delayed gradients is stable.

    On a quadratic, c_{t+1} = c_t - ηh c_{t-τ} comes to rest if and only if
    ηh < 2 sin(π / (2 (2τ + 1))). Levin and May, "A note on difference-delay equations",
    Theoretical Population Biology 9 (1976).

    Parameters
    ----------
    staleness : float
        τ, versions, at least 0; between whole numbers the formula interpolates.

    Returns
    -------
    float
        Learning rate times curvature: 2 at τ = 0, about π / (2τ + 1) when τ is large.

    Raises
    ------
    ConfigError
        `staleness` is below 0 or not finite.
    """
    staleness = at_least_zero("staleness", staleness)
    return 2 * math.sin(math.pi / (2 * (2 * staleness + 1)))


def local_sgd_factor(rate: float, curvature: float, steps: int) -> float:
    """Return what a round of local steps multiplies the error by, (1 - ηh)^H.

    On a quadratic each step multiplies it by 1 - ηh. All workers begin the round at the same
    parameters.

    Parameters
    ----------
    rate : float
        Learning rate η, above 0.
    curvature : float
        h, above 0.
    steps : int
        H, the steps between two averages (`sync_interval`), at least 1.

    Returns
    -------
    float
        Below 1 in size where the steps are stable.

    Raises
    ------
    ConfigError
        A value out of range.
    """
    base = 1 - positive("rate", rate) * positive("curvature", curvature)
    return float(base ** at_least_one("steps", steps))


@dataclass(frozen=True, slots=True)
class Gauge:
    """A prediction and its measurement; NaN if nothing is known yet."""

    name: str
    """Of what is predicted."""
    predicted: float
    """For as many workers as train."""
    measured: float
    """Of the run, or what follows from its staleness."""
    meaning: str
    """What it is, in a few words."""


def gauges(workers: float, staleness: float, rate: float | None = None) -> tuple[Gauge, ...]:
    """Return what theory predicts of a run, with what follows from its staleness.

    The staleness is measured; what stands as measured for the others is derived from it.

    Parameters
    ----------
    workers : float
        How many train at once, on average; NaN if unknown.
    staleness : float
        The measured mean, versions; NaN if unknown.
    rate : float, optional
        The learning rate, for the last gauge.

    Returns
    -------
    tuple of Gauge
        Mean staleness; implicit momentum; the largest stable learning rate as a share of that of
        one worker alone; and, given `rate`, the largest curvature at which it is stable.

    Raises
    ------
    ConfigError
        A value out of range.
    """

    def gauge(name: str, formula: Callable[[float], float], meaning: str) -> Gauge:
        predicted, measured = (
            math.nan if math.isnan(stale) else formula(stale) for stale in (workers - 1, staleness)
        )
        return Gauge(name, predicted, measured, meaning)

    found = [
        gauge(
            "mean staleness",
            float,
            "versions pushed by others between a worker's pull and its push: n - 1",
        ),
        gauge(
            "implicit momentum",
            lambda stale: implicit_momentum(stale + 1),
            "momentum that asynchrony adds by itself: 1 - 1/n",
        ),
        gauge(
            "stable learning rate",
            lambda stale: stability_bound(stale) / stability_bound(0),
            "the largest stable learning rate, as a share of that of one worker alone",
        ),
    ]
    if rate is not None:
        known = positive("rate", rate)
        meaning = f"the largest curvature at which the learning rate {known:g} is stable"
        found.append(
            gauge("stable curvature", lambda stale: stability_bound(stale) / known, meaning)
        )
    return tuple(found)


def _workers(value: float) -> float:
    if not 1 <= value < math.inf:
        raise ConfigError(f"workers: expected a finite number of at least 1, got {value!r}.")
    return value
