"""Data in the order of their labels: accuracy beside `keras.fit` with as many epochs.

Iris as scikit-learn gives it, all of which is evaluated, and its digits sorted by label, of which
a fifth is kept for testing; both as arrays, DataFrame, RDD and through `TensorEstimator`, and as
Parquet that was written by ``partitionBy("label")``. With the defaults, on two workers: the same
rows in a step of all workers, so that each has half of `fit`'s batch, and then `fit`'s batch for
each worker, which takes half as many steps.

python -m benchmarks.accuracy.sorted_data [--quick]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.data import Labelled, digits
from ..lib.harness import Row, program
from ..lib.models import name_of
from ..lib.ours import spark

SEEDS = (0, 1, 2)

WORKERS = 2

ALLOWED = 0.02
"""How far below `fit` the mean accuracy may be."""

Train = Callable[[Any, int], Any]
"""Trains a model with a seed, and returns it."""


@dataclass(frozen=True)
class Task:
    """What is learned, and how.

    Parameters
    ----------
    name : str
    train, test : tuple of ndarray
        The former sorted by label.
    sizes : tuple of int
        Of the network's layers.
    rate : float
        Of Adam.
    batch_size, epochs : int
        The former of `fit`.
    """

    name: str
    train: Labelled
    test: Labelled
    sizes: tuple[int, ...]
    rate: float
    batch_size: int
    epochs: int

    def model(self, seed: int) -> Any:
        """Return a compiled network, whose weights depend on the seed."""
        import keras

        keras.utils.set_random_seed(seed)
        *hidden, classes = self.sizes[1:]
        layers = [keras.layers.Dense(size, "relu") for size in hidden]
        output = keras.layers.Dense(classes, "softmax")
        model = keras.Sequential([keras.Input((self.sizes[0],)), *layers, output])
        rule = keras.optimizers.Adam(self.rate)
        model.compile(rule, "sparse_categorical_crossentropy", metrics=["accuracy"])
        return model

    def accuracy(self, train: Train, seed: int) -> float:
        """Return the accuracy of a model that was trained with a seed."""
        model = train(self.model(seed), seed)
        return float(model.evaluate(*self.test, verbose=0, return_dict=True)["accuracy"])

    def fit(self, model: Any, seed: int) -> Any:
        """Train by Keras."""
        model.fit(*self.train, self.batch_size, self.epochs, verbose=0)
        return model


def iris() -> Task:
    """Return scikit-learn's 150 flowers, which are sorted by species."""
    from sklearn.datasets import load_iris

    x, y = load_iris(return_X_y=True)
    data = x.astype(np.float32), y
    return Task("iris", data, data, (4, 16, 3), 0.01, 16, 30)


def sorted_digits() -> Task:
    """Return scikit-learn's digits, sorted by label."""
    (x, y), test = digits()
    order = np.argsort(y, kind="stable")
    return Task("digits", (x[order], y[order]), test, (64, 32, 10), 0.001, 32, 20)


def doors(session: Any, task: Task, folder: Path) -> Iterator[tuple[str, Train]]:
    """Yield the ways in which a task's rows can be given, and what trains on them.

    Parameters
    ----------
    session : SparkSession
    task : Task
        With each worker's batch size.
    folder : Path
        An empty one.
    """
    x, y = task.train
    frame = frame_of(session, x, y)
    yield "arrays", trainer(session, task, (x, y))
    yield "DataFrame", trainer(session, task, tos.columns(frame, "features", "label"))
    rows = list(zip(x, y, strict=True))
    yield "RDD", trainer(session, task, session.sparkContext.parallelize(rows, WORKERS))
    path = str(folder / "parquet")
    frame.write.partitionBy("label").parquet(path)
    written = session.read.parquet(path)
    yield "Parquet", trainer(session, task, tos.columns(written, "features", "label"))
    yield "TensorEstimator", estimator(task, frame)
    yield "TensorEstimator, Parquet", estimator(task, written)


def frame_of(session: Any, x: Any, y: Any) -> Any:
    """Return the rows in their order, in two partitions."""
    rows = list(zip(x.tolist(), y.tolist(), strict=True))
    rdd = session.sparkContext.parallelize(rows, WORKERS)
    return session.createDataFrame(rdd, "features array<float>, label long")


def trainer(session: Any, task: Task, data: Any) -> Train:
    """Return what trains on data by a session with the defaults."""

    def train(model: Any, seed: int) -> Any:
        with tos.TrainingSession(session, model, batch_size=task.batch_size) as training:
            training.run(data, task.epochs, seed=seed)
        return model

    return train


def estimator(task: Task, frame: Any) -> Train:
    """Return what fits the stage of a pipeline to a DataFrame."""

    def train(model: Any, seed: int) -> Any:
        stage = tos.ml.TensorEstimator(
            model=model, epochs=task.epochs, batchSize=task.batch_size, seed=seed
        )
        return stage.fit(frame).model

    return train


def run(quick: bool) -> list[Row]:
    """Compare every way with `fit`, seed by seed."""
    seeds = SEEDS[:1] if quick else SEEDS
    with spark() as session:
        return [row for task in (iris(), sorted_digits()) for row in compare(session, task, seeds)]


def compare(session: Any, task: Task, seeds: tuple[int, ...]) -> Iterator[Row]:
    """Yield the accuracy of `fit`, and how far from it each way is."""
    fitted = [task.accuracy(task.fit, seed) for seed in seeds]
    name = f"{task.name} {name_of(task.sizes)}, {task.epochs} epochs"
    parts = {"batch": str(task.batch_size), "each": text(fitted)}
    yield Row(f"{name}: keras.fit", mean(fitted), "", "", parts, len(fitted))
    for size in (task.batch_size // WORKERS, task.batch_size):
        with TemporaryDirectory() as folder:
            for way, train in doors(session, replace(task, batch_size=size), Path(folder)):
                found = [task.accuracy(train, seed) for seed in seeds]
                less = f"{mean(found) - mean(fitted):+.4f}"
                parts = {"each": text(found), "mean less that of fit": less}
                goal = f">= {mean(fitted) - ALLOWED:.3f}"
                what = f"{name}: {way}, {WORKERS} x {size} rows"
                yield Row(what, mean(found), "", goal, parts, len(found))


def text(values: list[float]) -> str:
    """Return accuracies as text."""
    return " ".join(f"{value:.4f}" for value in values)


if __name__ == "__main__":
    program(run, __doc__)
