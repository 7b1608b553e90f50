"""Programs without TensorFlow: softmax regression, and one that counts what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tos_notebook.archive.spec import FeedSpec, ProgramSpec, Trained
from tos_notebook.common.arrays import Array
from tos_notebook.layout import Layout, ParameterSpec


class NumpyProgram:
    """What both programs share: batches of a call, one after the other.

    `on_batch` is called before each batch, and may raise or wait.
    """

    spec: ProgramSpec

    def __init__(self) -> None:
        self.learning_rates: list[float] = []
        self.calls: list[int] = []
        """Batches of each training call."""
        self.batches: list[tuple[Array, ...]] = []
        """Copies of every batch, in the order they were trained."""
        self.momentum: Array = np.zeros(0)
        self.loaded = 0
        self.on_batch: Callable[[int], object] = lambda number: None

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        buffer = self.spec.layout.allocate()
        new = self.spec.layout.vectors(buffer)
        for mine, given in zip(new, vectors, strict=True):
            mine[...] = given
        parameters = self.spec.layout.tensors(buffer)
        sums, rows = dict.fromkeys(self.spec.outputs, 0.0), len(columns[0])
        starts = range(0, rows, batch_size)
        for start in starts:
            self.on_batch(len(self.batches))
            batch = tuple(column[start : start + batch_size].copy() for column in columns)
            self.batches.append(batch)
            for name, value in self.step(parameters, batch).items():
                sums[name] += value * len(batch[0])
        self.calls.append(len(starts))
        return Trained(
            list(parameters.values()), {name: value / rows for name, value in sums.items()}
        )

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        """Train on one batch, in place; return the means of the outputs."""
        raise NotImplementedError

    def set_learning_rate(self, value: float) -> None:
        self.learning_rates.append(value)

    def reset(self) -> None:
        self.learning_rates.clear()

    def reset_optimizer_state(self) -> None:
        self.momentum[:] = 0

    def load(self) -> None:
        self.loaded += 1

    def explain(self, error: BaseException) -> None:
        return None


class SoftmaxRegression(NumpyProgram):
    """Multinomial logistic regression by gradient descent on the mean cross entropy."""

    def __init__(
        self, features: int = 4, classes: int = 3, dtype: str = "float64", rate: float = 0.5
    ) -> None:
        super().__init__()
        layout = Layout(
            [ParameterSpec("W", (features, classes), dtype), ParameterSpec("b", (classes,), dtype)]
        )
        feeds = (FeedSpec("x", dtype, (features,)), FeedSpec("y", "int64", ()))
        self.spec = ProgramSpec("numpy", feeds, layout, ("loss", "accuracy"), True)
        self.rate = rate

    def set_learning_rate(self, value: float) -> None:
        super().set_learning_rate(value)
        self.rate = value

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        x, y = batch
        weights, bias = parameters["W"], parameters["b"]
        logits = x @ weights + bias
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = odds / odds.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(error[rows, y]).mean()
        accuracy = (error.argmax(axis=1) == y).mean()
        error[rows, y] -= 1
        weights -= self.rate * (x.T @ error) / len(y)
        bias -= self.rate * error.mean(axis=0)
        return {"loss": float(loss), "accuracy": float(accuracy)}


class Counting(NumpyProgram):
    """Adds up the rows it is fed, in float64, and counts them, in int64.

    Whole numbers are added exactly. With a combiner that adds changes, a batch that was
    lost, or applied twice, shows in the center.
    """

    def __init__(self) -> None:
        super().__init__()
        layout = Layout([ParameterSpec("total", (), "float64"), ParameterSpec("rows", (), "int64")])
        self.spec = ProgramSpec(
            "numpy", (FeedSpec("row", "float64", ()),), layout, ("loss",), False
        )

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        parameters["total"] += batch[0].sum()
        parameters["rows"] += len(batch[0])
        return {"loss": float(batch[0].mean())}


class Momentum(NumpyProgram):
    """Adds up its momentum: ``m = m / 2 + the batch's mean``, its state, in float64.

    Attributes
    ----------
    begun : list of float
        The momentum that each training call began with.
    """

    def __init__(self) -> None:
        super().__init__()
        total = Layout([ParameterSpec("total", (), "float64")])
        feeds = (FeedSpec("row", "float64", ()),)
        self.spec = ProgramSpec("numpy", feeds, total, ("loss",), False, ("m",))
        self.momentum = np.zeros(1)
        self.begun: list[float] = []

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        self.begun.append(float(self.momentum[0]))
        return super().train(vectors, columns, batch_size)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        self.momentum[:] = self.momentum / 2 + batch[0].mean()
        parameters["total"] += self.momentum[0]
        return {"loss": float(batch[0].mean())}


def digits(rows: int, features: int = 4, classes: int = 3, seed: int = 0) -> tuple[Array, Array]:
    """Return rows around one center per class, shape (rows, features), and their classes."""
    random: Any = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    centers = random.normal(size=(classes, features)) * 2
    return centers[labels] + random.normal(size=(rows, features)), labels
