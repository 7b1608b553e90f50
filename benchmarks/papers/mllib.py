"""Gradient aggregation beside model averaging on Spark, for a linear model.

Zhang et al. 2019, "MLlib*: Fast Training of GLMs Using Spark MLlib", ICDE: MLlib sends gradients,
and the driver makes one step for each exchange. Where workers make many steps between two means of
their models, far fewer exchanges reach the same loss. Here both see the same rows between two
exchanges: one batch of 1000 rows of each worker, or ten of 100. MLlib itself trains beside them.

Logistic regression without intercept: whether a digit of MNIST is 5 or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import tos_notebook as tos
from tos_notebook.common.arrays import Array
from tos_notebook.strategies import AllReduce

from ..lib import ours
from ..lib.data import mnist
from ..lib.harness import Row
from .fedavg import crossing
from .report import Options, row, say

ROWS = 20_000
LARGE, SMALL = 1000, 100
"""Rows of a batch: of gradients, and of models between two means."""
WORKERS = 2
EXCHANGES = ROWS // (LARGE * WORKERS)
"""Of an epoch."""
EPOCHS = 10
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The grid of learning rates; each way is shown at its best one."""
FEWER = 5.0
"""How many times fewer exchanges model averaging must need."""

Data = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Outcome:
    """One training.

    Parameters
    ----------
    losses : tuple of float
        Over all rows: at the beginning, and after each epoch of `EXCHANGES` exchanges.
    seconds : float
        Of the training.
    nbytes : int
        Between driver and workers, both ways; 0 where it is not counted.
    rate : float
        The learning rate.
    """

    losses: tuple[float, ...]
    seconds: float
    nbytes: int
    rate: float


def binary(data: tuple[Array, Array]) -> Data:
    """Return pixels from 0 to 1, and 1.0 for digits from 5 on."""
    images, labels = data[0][:ROWS], data[1][:ROWS]
    return images.astype(np.float32) / np.float32(255), (labels >= 5).astype(np.float32)


def loss(weights: Array, data: Data) -> float:
    """Return the mean log loss of a linear model."""
    margins = (2 * data[1].astype(np.float64) - 1) * (data[0] @ weights.ravel())
    return float(np.logaddexp(0, -margins).mean())


def train(spark: Any, data: Data, way: AllReduce, batch_size: int, rate: float) -> Outcome:
    """Train with our workers, and note the loss after each epoch."""
    import keras

    inputs = data[0].shape[1]
    model = keras.Sequential(
        [
            keras.Input((inputs,)),
            keras.layers.Dense(1, "sigmoid", use_bias=False, kernel_initializer="zeros"),
            keras.layers.Reshape(()),
        ]
    )
    model.compile(keras.optimizers.SGD(rate), "binary_crossentropy")
    session = tos.TrainingSession(spark, tos.capture(model), strategy=way, batch_size=batch_size)
    run = session.run(data, EPOCHS, seed=0, validation_data=data)
    history, begun = run.history, loss(np.zeros(inputs), data)
    return Outcome(
        (begun, *run.validation["loss"]),
        float(history["time"].max() - history["time"].min()),
        int(history[["bytes_up", "bytes_down"]].to_numpy().sum()),
        rate,
    )


def mllib(data: Any, rows: Data, rate: float, iterations: int) -> Outcome:
    """Train with MLlib itself; each iteration takes a tenth of the rows, as above."""
    from pyspark.mllib.classification import LogisticRegressionWithSGD

    began = perf_counter()
    model = LogisticRegressionWithSGD.train(
        data,
        iterations=iterations,
        step=rate,
        miniBatchFraction=1 / EXCHANGES,
        regParam=0.0,
        regType=None,
        convergenceTol=0.0,
    )
    seconds = perf_counter() - began
    weights = np.asarray(model.weights.toArray())
    return Outcome((loss(np.zeros_like(weights), rows), loss(weights, rows)), seconds, 0, rate)


def best(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the one with the least loss at its end."""
    return min(outcomes, key=lambda o: o.losses[-1] if np.isfinite(o.losses[-1]) else np.inf)


def fewer(gradients: Outcome, models: Outcome) -> float:
    """Return how many times fewer exchanges models need for the loss that gradients end with."""
    target = gradients.losses[-1]
    needed = crossing([-value for value in models.losses], -target)
    return float("nan") if needed is None else (len(gradients.losses) - 1) / needed


def rows_of(found: Mapping[str, Outcome]) -> list[Row]:
    """Return the loss of each way, and how many exchanges model averaging saves."""
    rows = [
        row(
            f"logistic regression, {name}: loss after {EPOCHS * EXCHANGES} exchanges",
            o.losses[-1],
            "",
            published="",
            setup=f"best rate of the grid: {o.rate:g}, {o.seconds:.2f} s"
            + (f", {o.nbytes / 1e6:.2f} MB both ways" if o.nbytes else ""),
        )
        for name, o in found.items()
    ]
    saved = fewer(found["gradients"], found["models"])
    return [
        *rows,
        row(
            "logistic regression: exchanges of gradients / of models, to the same loss",
            saved,
            "x",
            published="fewer exchanges",
            setup=f"loss {found['gradients'].losses[-1]:.4f}, interpolated between epochs",
            goal=f">= {FEWER:g}",
            within=saved >= FEWER,
        ),
    ]


def measure(options: Options) -> Iterator[Row]:
    """Train each way at every learning rate."""
    data = binary(mnist()[0])
    ways = {
        "gradients": (AllReduce(), LARGE, 10.0),
        "models": (AllReduce(of="parameters", every=LARGE // SMALL), SMALL, 1.0),
    }
    found = {}
    with ours.spark(f"local[{WORKERS}]") as spark:
        for name, (way, size, scale) in ways.items():
            # A larger batch stands a larger rate.
            tried = [train(spark, data, way, size, scale * rate) for rate in RATES]
            found[name] = best(tried)
            say(f"mllib {name}: {[(o.rate, o.losses[-1]) for o in tried]}")
        found["MLlib"] = _best_of_mllib(spark, data, RATES[-1:] if options.quick else RATES)
    yield from rows_of(found)


def _best_of_mllib(spark: Any, rows: Data, rates: Sequence[float]) -> Outcome:
    from pyspark.mllib.regression import LabeledPoint

    points = [LabeledPoint(float(y), x.astype(float)) for x, y in zip(*rows, strict=True)]
    data = spark.sparkContext.parallelize(points, WORKERS).cache()
    data.count()
    # Its rate falls with the root of the iteration.
    tried = [mllib(data, rows, 10 * rate, EPOCHS * EXCHANGES) for rate in rates]
    say(f"mllib MLlib: {[(o.rate, o.losses[-1], o.seconds) for o in tried]}")
    return best(tried)
