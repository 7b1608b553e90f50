"""Programs without TensorFlow, which checks and tests train."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..archive.spec import FeedSpec, ProgramSpec, Trained
from ..common.arrays import Array, Buffer
from ..layout import Layout, ParameterSpec


class NumpyProgram:
    """Trains the batches of a call, one after the other; see `archive.spec.Runner`.

    A subclass has `spec`, and `step`.
    """

    spec: ProgramSpec

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Runner.train`."""
        buffer: Buffer = self.spec.layout.allocate()
        for mine, given in zip(self.spec.layout.vectors(buffer), vectors, strict=True):
            mine[...] = given
        parameters = self.spec.layout.tensors(buffer)
        sums, rows = dict.fromkeys(self.spec.outputs, 0.0), len(columns[0])
        for start in range(0, rows, batch_size):
            batch = tuple(column[start : start + batch_size].copy() for column in columns)
            self.before(batch)
            for name, value in self.step(parameters, batch).items():
                sums[name] += value * len(batch[0])
        means = {name: value / rows for name, value in sums.items()}
        return Trained(list(parameters.values()), means)

    def before(self, batch: tuple[Array, ...]) -> None:
        """Take note of a batch that is about to be trained; it may wait, or raise."""

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        """Train on one batch, in place; return the means of the outputs."""
        raise NotImplementedError

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""

    def reset(self) -> None:
        """See `Runner.reset`."""

    def reset_optimizer_state(self) -> None:
        """See `Runner.reset_optimizer_state`."""

    def load(self) -> None:
        """See `Runner.load`."""

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        """See `Runner.explain`."""
        return None


class SoftmaxRegression(NumpyProgram):
    """Multinomial logistic regression by gradient descent on the mean cross entropy.

    Parameters
    ----------
    features, classes : int
    rate : float
        The learning rate.
    """

    def __init__(self, features: int = 4, classes: int = 3, rate: float = 0.5) -> None:
        specs = (
            ParameterSpec("W", (features, classes), "float64"),
            ParameterSpec("b", (classes,), "float64"),
        )
        feeds = (FeedSpec("x", "float64", (features,)), FeedSpec("y", "int64", ()))
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), True)
        self.rate = rate

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""
        self.rate = value

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        """Go down the gradient once."""
        x, y = batch
        weights, bias = parameters["W"], parameters["b"]
        logits = x @ weights + bias
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(error[rows, y]).mean()
        error[rows, y] -= 1
        weights -= self.rate * (x.T @ error) / len(y)
        bias -= self.rate * error.mean(axis=0)
        return {"loss": float(loss)}


class Counting(NumpyProgram):
    """Adds up the rows it is fed, in float64, and counts them, in int64.

    Whole numbers are added exactly. Where changes add up, a batch that was lost, or applied twice,
    shows in the parameters.
    """

    def __init__(self) -> None:
        specs = ParameterSpec("total", (), "float64"), ParameterSpec("rows", (), "int64")
        feeds = (FeedSpec("row", "float64", ()),)
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), False)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        """Add up."""
        parameters["total"] += batch[0].sum()
        parameters["rows"] += len(batch[0])
        return {"loss": float(batch[0].mean())}
