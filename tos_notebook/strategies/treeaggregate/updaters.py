"""MLlib's updaters: how a mean gradient and a regularization change the weights.

The formulas are those of Spark's `org.apache.spark.mllib.optimization.Updater`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

Rule = Callable[[Vector, Vector, float, float], Vector]
"""Takes weights and their mean gradient, shape (n,), the size of this step, and the regularization
parameter; returns the next weights."""


def simple(weights: Vector, gradient: Vector, step: float, reg_param: float) -> Vector:
    """Return ``w - step * g``: no regularization (`SimpleUpdater`)."""
    return weights - step * gradient


def squared_l2(weights: Vector, gradient: Vector, step: float, reg_param: float) -> Vector:
    """Return ``(1 - step * reg) * w - step * g``: of ``reg/2 * |w|^2`` (`SquaredL2Updater`)."""
    return (1 - step * reg_param) * weights - step * gradient


def l1(weights: Vector, gradient: Vector, step: float, reg_param: float) -> Vector:
    """Return ``w - step * g``, each weight ``step * reg`` nearer to 0 or 0 (`L1Updater`).

    It is the proximal operator of ``reg * |w|_1``, not a subgradient: weights become exactly 0.
    """
    moved = weights - step * gradient
    return np.sign(moved) * np.maximum(np.abs(moved) - step * reg_param, 0)


UPDATERS: Mapping[str, Rule] = {"none": simple, "l2": squared_l2, "l1": l1}
"""By name, as users choose them."""
