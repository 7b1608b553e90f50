"""What a user chooses over Spark Connect beside a parameter server, in a process without a JVM.

``python -m tests.integration.connect_strategies_program sc://host:port FOLDER [NAME ...]`` prints a
line of JSON: for each choice what was found, and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos
from tests.integration.conftest import classifier, new_counter
from tests.integration.connect_program import COUNTED, ROWS, TOTAL, VALUES
from tests.support.connect_client import main

Found = tuple[list[Any], list[Any]]

EPOCHS = 3

SUM = [EPOCHS * TOTAL, float(EPOCHS * ROWS)]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x / 16)[:ROWS], y[:ROWS]


def trained(spark: Any, **options: Any) -> tuple[tos.Run, Found]:
    """Train a Keras model; return the run, and its state and rows."""
    given = {"batch_size": 10, "epochs": EPOCHS, "verbose": False, "spark": spark} | options
    run = tos.fit(classifier(0.1), digits(), **given)
    rows = [run.state, run.status.samples, int(run.history["samples"].sum())]
    return run, (rows, ["finished", EPOCHS * ROWS, EPOCHS * ROWS])


def allreduce(spark: Any, folder: Path) -> Found:
    """Vectors that workers add up among themselves."""
    return trained(spark, strategy="allreduce")[1]


def treeaggregate(spark: Any, folder: Path) -> Found:
    """A Spark job for each iteration, of half of the rows at once."""
    run, _ = trained(spark, strategy="treeaggregate", epochs=4)
    return [run.state, run.status.epoch], ["finished", 4]


def tensorflow(spark: Any, folder: Path) -> Found:
    """Variables on TensorFlow's own servers: the counter is a graph."""
    with tos.TrainingSession(spark, new_counter(), strategy="tensorflow", batch_size=10) as session:
        run = session.run((VALUES,), epochs=EPOCHS)
    return run.parameters()["total"].tolist(), SUM


def shards(spark: Any, folder: Path) -> Found:
    """Parameters in a task of Spark's, which leaves one slot for a worker."""
    with tos.TrainingSession(spark, new_counter(), **COUNTED, strategy="ps:shards=1") as session:
        run = session.run((VALUES,), epochs=EPOCHS, partitions=1, checkpoint_dir=str(folder))
    resumed = tos.resume(run.uri, (VALUES,), spark=spark, epochs=EPOCHS + 1)
    resumed.wait(120)
    total = [(EPOCHS + 1) * TOTAL, float((EPOCHS + 1) * ROWS)]
    return [*run.parameters()["total"], *resumed.parameters()["total"]], [*SUM, *total]


def federated(spark: Any, folder: Path) -> Found:
    """More clients than slots, half of them in each round."""
    options = tos.federated(4, EPOCHS, 0.5) | {"batch_size": 10, "spark": spark}
    run = tos.fit(classifier(0.1), digits(), verbose=False, **options)
    clients = run.history.groupby("epoch")["partition"].nunique().tolist()
    return [run.state, *clients, run.status.samples], ["finished", 2, 2, 2, EPOCHS * ROWS // 2]


def events(spark: Any, folder: Path) -> Found:
    """Event files for TensorBoard, by this process."""
    run, _ = trained(spark, tensorboard=str(folder / "run"), validation_data=digits())
    curves = tos.read_events(folder / "run")
    last = curves.groupby("tag")["value"].last()
    accuracy = float(run.validation["accuracy"].iloc[-1])
    found = [int(curves["step"].max()), round(float(last["validation/accuracy"]), 5)]
    return found, [EPOCHS * ROWS, round(accuracy, 5)]


def estimator(spark: Any, folder: Path) -> Found:
    """A stage of a pipeline."""
    x, y = digits()
    rows = list(zip(x.tolist(), y.tolist(), strict=True))
    frame = spark.createDataFrame(rows, "features array<double>, label long")
    stage = tos.ml.TensorEstimator(model=classifier(0.1), epochs=EPOCHS, batchSize=10)
    scored = stage.fit(frame).transform(frame)
    return [scored.count(), "prediction" in scored.columns], [ROWS, True]


TRIED: tuple[Callable[[Any, Path], Found], ...] = (
    allreduce,
    shards,
    tensorflow,
    federated,
    treeaggregate,
    events,
    estimator,
)


if __name__ == "__main__":
    main(TRIED)
