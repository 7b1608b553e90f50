"""The linear models of Spark's MLlib as programs in NumPy, with its losses, in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.blocks.block import Columns
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.testing.programs import NumpyProgram, Tensors

Vector = npt.NDArray[np.float64]

Loss = Callable[[Vector, Vector], tuple[Vector, Vector]]
"""Takes x @ w and labels; returns each row's loss, and what to multiply its features by."""


def squared(found: Vector, label: Vector) -> tuple[Vector, Vector]:
    """Half of the squared error."""
    off = found - label
    return off**2 / 2, off


def logistic(found: Vector, label: Vector) -> tuple[Vector, Vector]:
    """Log loss of labels 0 and 1."""
    odds = np.exp(-found)
    return np.log1p(odds) + (1 - label) * found, 1 / (1 + odds) - label


def hinge(found: Vector, label: Vector) -> tuple[Vector, Vector]:
    """Hinge loss of labels 0 and 1."""
    sign = 2 * label - 1
    inside = sign * found < 1
    return np.where(inside, 1 - sign * found, 0), np.where(inside, -sign, 0)


LOSSES: Mapping[str, Loss] = {"squared": squared, "logistic": logistic, "hinge": hinge}


class Linear(NumpyProgram):
    """A linear model.

    Parameters
    ----------
    loss : str
        A key of `LOSSES`.
    features : int
    intercept : bool
    """

    def __init__(self, loss: str, features: int, intercept: bool = False) -> None:
        specs = [ParameterSpec("w", (features,), "float64")]
        if intercept:
            specs.append(ParameterSpec("b", (), "float64"))
        feeds = (FeedSpec("x", "float64", (features,)), FeedSpec("y", "float64", ()))
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), True)
        self._loss = LOSSES[loss]

    def gradient(
        self, parameters: Tensors, batch: Columns, found: Tensors, share: float
    ) -> dict[str, float]:
        """See `NumpyProgram.gradient`."""
        x, y = batch
        losses, factors = self._loss(x @ parameters["w"] + parameters.get("b", 0.0), y)
        found["w"] += share * (factors @ x) / len(y)
        if "b" in found:
            found["b"] += share * factors.mean()
        return {"loss": float(losses.mean())}
