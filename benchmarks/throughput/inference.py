"""Distributed predictions against two bare processes: the same rows of MNIST, the same model.

A bare process has one TensorFlow thread, its half of the rows decoded in memory, and calls the same
function in batches of the same size. Ours takes a DataFrame of raw bytes from Spark's memory, and
Spark throws the column away that it gets back. How much of that Spark itself takes, to bring rows
to Python and a column back, is measured by a function that predicts nothing.

python -m benchmarks.throughput.inference [--quick]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos

from ..lib.data import mnist
from ..lib.harness import Row, program, rate
from ..lib.models import TWO_NN, network
from ..lib.ours import spark
from ..lib.peers import Peer
from .dataframes import frame

PROCESSES = 2
ROWS_AT_ONCE = 1000
CONVOLUTIONS = {"Keras' example (32, 64 filters)": (32, 64), "16, 32 filters": (16, 32)}
"""Of networks as in keras.io/examples/vision/mnist_convnet: two convolutions, each with pooling."""
TWO_NN_NAME = "784-200-200-10"
TIMES = {**dict.fromkeys(CONVOLUTIONS, 3), TWO_NN_NAME: 8}
"""How often all rows are predicted in one measurement, so that it takes seconds."""


def model_of(name: str) -> Any:
    """Return one of the networks, with the same weights in every process."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import keras

    keras.utils.set_random_seed(0)
    if name == TWO_NN_NAME:
        return network(TWO_NN)
    layers, (first, second) = keras.layers, CONVOLUTIONS[name]
    return keras.Sequential(
        [
            keras.Input((784,), dtype="uint8"),
            layers.Rescaling(1 / 255),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(first, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(second, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def bare_predictions(number: int) -> Callable[[str], tuple[float, float]]:
    """Return the function that one of the bare processes runs; it returns begin and end."""
    from tos_notebook.runtime.runner import configure_threads

    configure_threads(1)
    import tensorflow as tf

    x = mnist()[0][0][number::PROCESSES].copy()
    functions: dict[str, Any] = {}

    def predict(name: str) -> tuple[float, float]:
        if name not in functions:
            model = model_of(name)
            spec = tf.TensorSpec([None, 784], tf.uint8)
            functions[name] = tf.function(
                lambda x: model(x, training=False), input_signature=[spec], autograph=False
            )
            functions[name](tf.constant(x[:ROWS_AT_ONCE]))
        began = perf_counter()
        for _ in range(TIMES[name]):
            starts = range(0, len(x), ROWS_AT_ONCE)
            parts = [functions[name](tf.constant(x[s : s + ROWS_AT_ONCE])).numpy() for s in starts]
            np.concatenate(parts)
        return began, perf_counter()

    return predict


def unpredicted(df: Any) -> Any:
    """Return a column of ten numbers for each row, which nothing is computed for."""
    import pyarrow as pa
    from pyspark.sql import functions

    def nothing(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            zeros = pa.array(np.zeros(len(batch) * 10, np.float32))
            yield pa.FixedSizeListArray.from_arrays(zeros, 10).cast(pa.list_(pa.float32()))

    # As types: Spark goes by them, and cannot see what is imported in here.
    nothing.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return df.select(functions.arrow_udf(nothing, "array<float>")(df.pixels))


def seconds(df: Any) -> float:
    """Return how long Spark takes for a DataFrame that it throws away."""
    began = perf_counter()
    df.write.format("noop").mode("overwrite").save()
    return perf_counter() - began


def compared(session: Any, peers: list[Peer], name: str, rounds: int) -> Row:
    """Predict in turns; return the ratio of the rates."""
    data, _ = mnist()
    rows = TIMES[name] * len(data[0])
    one = frame(session, data, pixels=True)
    df = one
    for _ in range(TIMES[name] - 1):
        df = df.union(one)
    df = df.coalesce(PROCESSES)
    columns = tos.columns(df, "pixels", shapes={"pixels": (784,)})
    scored = tos.load_model(model_of(name)).predict(columns, batch_size=ROWS_AT_ONCE)
    scored = scored.select("prediction")
    empty = unpredicted(df)
    bare, ours, spark_alone = [], [], []
    for turn in range(rounds + 1):
        for peer in peers:
            peer.start(name)
        ends = [peer.result() for peer in peers]
        took, floor = seconds(scored), seconds(empty)
        if turn:
            bare.append(rows / (max(e for _, e in ends) - min(b for b, _ in ends)))
            ours.append(rows / took)
            spark_alone.append(rows / floor)
    one.unpersist()
    ratio = median(a / b for a, b in zip(ours, bare, strict=True))
    both = [1 / (1 / a + 1 / b) for a, b in zip(bare, spark_alone, strict=True)]
    reached = median(a / b for a, b in zip(ours, both, strict=True))
    parts = {
        "predict": rate(median(ours)),
        "two bare processes": rate(median(bare)),
        "Spark without predictions": rate(median(spark_alone)),
        "of what both take together": f"{reached:.3f}",
    }
    return Row(f"predict, {name}, DataFrame / bare processes", ratio, "x", ">= 0.9", parts, rounds)


def run(quick: bool) -> list[Row]:
    """Measure all networks."""
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(bare_predictions, n)) for n in range(PROCESSES)]
        session = stack.enter_context(spark())
        return [compared(session, peers, name, 2 if quick else 7) for name in TIMES]


if __name__ == "__main__":
    program(run, __doc__)
