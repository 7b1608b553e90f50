"""What theory predicts of training: staleness, momentum, stability, and what exchanges cost.

`cost` compares the ways of training: who exchanges what with whom, and how fast that is. `scaling`
simulates how they scale, up to thousands of workers.

The other predictions are of asynchronous training, for plain gradient steps on a quadratic with
curvature h, one step to a milestone, added as they are (`downpour`), by n workers that take equally
long on average. A combiner that damps stale pushes (`dynsgd`) or a local optimizer with a state of
its own keeps to them in kind, not in number.
"""

from __future__ import annotations

from .cost import cost
from .exchanges import AMONG_WORKERS, BANDWIDTH, LATENCY, Cost, Costs
from .predictions import (
    Gauge,
    effective_rate,
    gauges,
    implicit_momentum,
    local_sgd_factor,
    mean_staleness,
    stability_bound,
)
from .scaling import Curve, Point, Scaling, scaling
from .simulation import Fit, Simulation, fit_momentum, simulate

__all__ = [
    "AMONG_WORKERS",
    "BANDWIDTH",
    "LATENCY",
    "Cost",
    "Costs",
    "Curve",
    "Fit",
    "Gauge",
    "Point",
    "Scaling",
    "Simulation",
    "cost",
    "effective_rate",
    "fit_momentum",
    "gauges",
    "implicit_momentum",
    "local_sgd_factor",
    "mean_staleness",
    "scaling",
    "simulate",
    "stability_bound",
]
