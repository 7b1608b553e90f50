"""Programs without TensorFlow, which checks and tests train."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..archive.runner import Advanced, Trained, TrainedRows
from ..archive.spec import FeedSpec, ProgramSpec
from ..blocks.block import Columns
from ..common.arrays import Array, Arrays, Buffer
from ..layout import Layout, ParameterSpec

Tensors = dict[str, Array]
"""Arrays by the names of parameters."""


class NumpyProgram:
    """Trains the batches of a call, one after the other; see `archive.runner.Runner`.

    A subclass has `spec`, `step`, and for strategies that need gradients `gradient` and `apply`.
    It is its own optimizer; see `archive.runner.Updater`.
    """

    spec: ProgramSpec
    scales_loss = False
    gradients = False
    """Whether a call returns mean gradients."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """See `Runner.train`."""
        _, parameters = self._copied(vectors)
        _, found = self._copied([np.zeros_like(vector) for vector in vectors])
        sums, rows = dict.fromkeys(self.spec.outputs, 0.0), len(columns[0])
        for start in range(0, rows, batch_size):
            batch = tuple(column[start : start + batch_size].copy() for column in columns)
            self.before(batch)
            if self.gradients:
                values = self.gradient(parameters, batch, found, len(batch[0]) / rows)
            else:
                values = self.step(parameters, batch)
            for name, value in values.items():
                sums[name] += value * len(batch[0])
        means = {name: value / rows for name, value in sums.items()}
        return Trained(list((found if self.gradients else parameters).values()), means)

    def train_rows(
        self, vectors: Arrays, moved: Sequence[Array | None], columns: Arrays, batch_size: int
    ) -> TrainedRows | None:
        """See `Runner.train_rows`: what has changed is found by comparing."""
        return None

    def _copied(self, vectors: Sequence[Array]) -> tuple[list[Array], Tensors]:
        """Return a copy of vectors, and views of its tensors."""
        buffer: Buffer = self.spec.layout.allocate()
        copies = self.spec.layout.vectors(buffer)
        for mine, given in zip(copies, vectors, strict=True):
            mine[...] = given
        return copies, self.spec.layout.tensors(buffer)

    def before(self, batch: Columns) -> None:
        """Take note of a batch that is about to be trained; it may wait, or raise."""

    def step(self, parameters: Tensors, batch: Columns) -> dict[str, float]:
        """Train on one batch, in place; return the means of the outputs."""
        raise NotImplementedError

    def gradient(
        self, parameters: Tensors, batch: Columns, found: Tensors, share: float
    ) -> dict[str, float]:
        """Add a batch's share of the mean gradient to `found`; return the means of the outputs."""
        raise NotImplementedError

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        """Make a step by mean gradients, in place."""
        raise NotImplementedError

    def update(self, vectors: Sequence[Array], means: Sequence[Array]) -> Sequence[Array]:
        """See `Updater.update`."""
        _, parameters = self._copied(vectors)
        self.apply(parameters, self._copied(means)[1])
        return list(parameters.values())

    def advance(self, vectors: Arrays, means: Arrays, columns: Arrays, batch_size: int) -> Advanced:
        """See `Runner.advance`."""
        layout = self.spec.layout
        parameters = layout.vectors(layout.pack(self.update(vectors, means)))
        trained = self.train(parameters, columns, batch_size)
        gradients = layout.vectors(layout.pack(trained.parameters))
        return Advanced(parameters, gradients, trained.values)

    def updater(self) -> NumpyProgram:
        """See `Runner.updater`."""
        return self

    def state(self) -> list[Array]:
        """See `Updater.state`."""
        return []

    def restore(self, state: Sequence[Array]) -> None:
        """See `Updater.restore`."""

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`."""

    def reset(self) -> None:
        """See `Runner.reset`."""

    def reset_optimizer_state(self) -> None:
        """See `Runner.reset_optimizer_state`."""

    def reset_non_finite_state(self) -> None:
        """See `Runner.reset_non_finite_state`."""

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

    def step(self, parameters: Tensors, batch: Columns) -> dict[str, float]:
        """Go down the gradient once."""
        found = {name: np.zeros_like(value) for name, value in parameters.items()}
        values = self.gradient(parameters, batch, found, 1.0)
        self.apply(parameters, found)
        return values

    def gradient(
        self, parameters: Tensors, batch: Columns, found: Tensors, share: float
    ) -> dict[str, float]:
        """See `NumpyProgram.gradient`."""
        x, y = batch
        logits = x @ parameters["W"] + parameters["b"]
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(error[rows, y]).mean()
        error[rows, y] -= 1
        found["W"] += share * (x.T @ error) / len(y)
        found["b"] += share * error.mean(axis=0)
        return {"loss": float(loss)}

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        """See `NumpyProgram.apply`."""
        for name, value in parameters.items():
            value -= self.rate * gradients[name]


class Counting(NumpyProgram):
    """Adds up the rows it is fed, in float64, and counts them, in int64.

    Whole numbers are added exactly. Where changes add up, a batch that was lost, or applied twice,
    shows in the parameters. By gradients it adds up the mean row of each step, and counts steps.
    """

    def __init__(self) -> None:
        specs = ParameterSpec("total", (), "float64"), ParameterSpec("rows", (), "int64")
        feeds = (FeedSpec("row", "float64", ()),)
        self.spec = ProgramSpec("numpy", feeds, Layout(specs), ("loss",), False)

    def step(self, parameters: Tensors, batch: Columns) -> dict[str, float]:
        """Add up."""
        parameters["total"] += batch[0].sum()
        parameters["rows"] += len(batch[0])
        return {"loss": float(batch[0].mean())}

    def gradient(
        self, parameters: Tensors, batch: Columns, found: Tensors, share: float
    ) -> dict[str, float]:
        """See `NumpyProgram.gradient`."""
        found["total"] += share * batch[0].mean()
        found["rows"][...] = 1
        return {"loss": float(batch[0].mean())}

    def apply(self, parameters: Tensors, gradients: Tensors) -> None:
        """See `NumpyProgram.apply`."""
        for name, value in parameters.items():
            value += gradients[name]
