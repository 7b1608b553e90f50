"""Programs without TensorFlow: softmax regression, and one that counts what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tos_notebook.archive.runner import Trained
from tos_notebook.archive.spec import FeedSpec, ProgramSpec
from tos_notebook.common.arrays import Array
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.testing import programs


class NumpyProgram(programs.NumpyProgram):
    """Keeps what it was fed.

    `on_batch` is called before each batch, and may raise or wait.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.learning_rates: list[float] = []
        self.calls: list[int] = []
        """Batches of each training call."""
        self.batches: list[tuple[Array, ...]] = []
        """Copies of every batch, in the order they were trained."""
        self.momentum: Array = np.zeros(0)
        self.loaded = 0
        self.on_batch: Callable[[int], object] = lambda number: None

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        trained = super().train(vectors, columns, batch_size)
        self.calls.append(-(-len(columns[0]) // batch_size))
        return trained

    def before(self, batch: tuple[Array, ...]) -> None:
        self.on_batch(len(self.batches))
        self.batches.append(batch)

    def set_learning_rate(self, value: float) -> None:
        super().set_learning_rate(value)
        self.learning_rates.append(value)

    def reset(self) -> None:
        self.learning_rates.clear()

    def reset_optimizer_state(self) -> None:
        self.momentum[:] = 0

    def reset_non_finite_state(self) -> None:
        if not np.isfinite(self.momentum).all():
            self.reset_optimizer_state()

    def load(self) -> None:
        self.loaded += 1


class SoftmaxRegression(NumpyProgram, programs.SoftmaxRegression):
    """Measures its accuracy, too, and may have parameters of another type."""

    def __init__(
        self, features: int = 4, classes: int = 3, dtype: str = "float64", rate: float = 0.5
    ) -> None:
        super().__init__(features=features, classes=classes, rate=rate)
        layout = Layout([replace(parameter, dtype=dtype) for parameter in self.spec.layout.specs])
        feeds = (FeedSpec("x", dtype, (features,)), FeedSpec("y", "int64", ()))
        outputs = ("loss", "accuracy")
        self.spec = replace(self.spec, feeds=feeds, layout=layout, outputs=outputs)

    def step(self, parameters: dict[str, Array], batch: tuple[Array, ...]) -> dict[str, float]:
        x, y = batch
        found = (x @ parameters["W"] + parameters["b"]).argmax(axis=1)
        return super().step(parameters, batch) | {"accuracy": float((found == y).mean())}


class Counting(NumpyProgram, programs.Counting):
    """With a combiner that adds changes, a batch that was lost or came twice shows there."""


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
