"""What a user does over Spark Connect, one thing after the other, in a process without a JVM.

``python -m tests.integration.connect_program sc://host:port FOLDER`` prints what it has found as a
line of JSON. It is as if pyspark-client were installed, which is PySpark for such a process alone.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tos_notebook as tos
from tests.integration.conftest import classifier, new_counter
from tests.integration.connect_cells import cells
from tests.support.connect_client import main
from tests.support.watching import Watch
from tos_notebook.events import (
    CommandApplied,
    EpochFinished,
    JobRestarted,
    MilestoneCommitted,
    Repartitioned,
    StrategySwapped,
    WorkerLost,
)
from tos_notebook.steering.machine import Command

ROWS = 300
VALUES = np.arange(1.0, ROWS + 1)
TOTAL = float(VALUES.sum())
PASSES = 8
"""Of a model that learns digits."""

COUNTED: dict[str, Any] = {"combiner": "downpour", "batch_size": 10, "sync_interval": 1}
"""Of a session whose counter ends as the exact sum of its rows."""


def frame_of(spark: Any) -> Any:
    """Return the values as a column of a shuffled DataFrame of three partitions."""
    rows = spark.range(1, ROWS + 1, numPartitions=4).repartition(3, "id")
    return tos.columns(rows.selectExpr("cast(id as double) as number"), "number")


def steered(spark: Any, folder: Path) -> dict[str, Any]:
    """Pause, lay out again, take another rule, stop, and continue from the checkpoint."""
    watch, epochs = Watch(), 6
    with tos.TrainingSession(
        spark, new_counter(), **COUNTED, checkpoint_dir=str(folder / "runs")
    ) as session:
        run = session.start(
            frame_of(spark), epochs=epochs, sinks=[watch], partitions=2, checkpoint_every=4
        )
        run.chaos(tos.chaos.Pause(0.02, any=2))
        mark = watch.until(MilestoneCommitted, count=6)
        run.pause()
        watch.until(CommandApplied, mark, lambda event: event.command == Command.PAUSE)
        paused = run.status.samples
        run.repartition(2)
        run.set(sync="bsp")
        mark = watch.mark()
        run.unpause()
        watch.until(Repartitioned, mark)
        watch.until(EpochFinished, mark, count=2)
        run.stop()
        stopped = run.status.samples
    resumed = tos.resume(run.uri, frame_of(spark), spark=spark)
    resumed.wait(120)
    parameters = resumed.parameters()["total"].tolist()
    return {
        "paused": paused,
        "stopped": stopped,
        "state": resumed.state,
        "uri": run.uri,
        "total": parameters,
        "expected": [epochs * TOTAL, float(epochs * ROWS)],
        "partitions": [event.partitions for event in watch.of(Repartitioned)],
    }


def killed(spark: Any, folder: Path) -> dict[str, Any]:
    """Lose a worker's process in the midst of an epoch."""
    watch = Watch()
    with tos.TrainingSession(
        spark, new_counter(), combiner="downpour", batch_size=5, sync_interval=2
    ) as session:
        run = session.start((VALUES,), epochs=3, sinks=[watch])
        run.chaos(tos.chaos.Kill(worker=0))
        run.wait(120)
    return {
        "total": run.parameters()["total"].tolist(),
        "expected": [3 * TOTAL, 3.0 * ROWS],
        "restarts": len(watch.of(JobRestarted)),
    }


def hung(spark: Any, folder: Path) -> dict[str, Any]:
    """Have a worker that lives, and says nothing any more."""
    watch, stopped = Watch(), list[int]()
    made: list[tos.Run] = []

    def stop_once(event: Any) -> None:
        if isinstance(event, MilestoneCommitted) and event.sequence == 5 and not stopped:
            members = made[0].parts.training.facts(("", 0.0), 2).members
            stopped.extend(m.pid for m in members if m.partition == event.partition)
            os.kill(stopped[0], signal.SIGSTOP)

    with tos.TrainingSession(spark, new_counter(), **COUNTED, sync="bsp") as session:
        run = session.start((VALUES,), epochs=3, worker_timeout=3.0, sinks=[watch])
        made.append(run)
        run.add_sink(stop_once)
        run.wait(120)
    return {
        "total": run.parameters()["total"].tolist(),
        "expected": [3 * TOTAL, 3.0 * ROWS],
        "lost": [event.reason for event in watch.of(WorkerLost)],
        "restarts": [event.reason for event in watch.of(JobRestarted)],
    }


def learned(spark: Any, folder: Path) -> dict[str, Any]:
    """Train on a DataFrame, swap the strategy, validate, predict and evaluate; skip bad rows."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    rows = [(row, int(label)) for row, label in zip((x / 16).tolist(), y, strict=True)]
    rows[7] = ([float("nan")] * 64, 1)
    frame = spark.createDataFrame(rows, "pixels array<double>, digit long")
    train = tos.columns(frame, "pixels", "digit", on_bad="skip")
    with tos.TrainingSession(spark, classifier(), batch_size=32) as session:
        watch = Watch()
        run = session.start(train, epochs=PASSES, validation_data=train, sinks=[watch])
        # Slow enough not to be in its last epoch.
        run.chaos(tos.chaos.Pause(0.05, any=2))
        watch.until(MilestoneCommitted)
        run.pause()
        run.swap_strategy("allreduce")
        run.chaos()
        run.unpause()
        run.wait(120)
        scored = run.predict(tos.columns(frame, "pixels", on_bad="skip"))
        return {
            "samples": run.status.samples,
            "skipped": run.status.rows_skipped,
            "accuracy": float(run.validation["accuracy"].iloc[-1]),
            "columns": scored.columns,
            "predicted": scored.where("size(prediction) = 10").count(),
            "evaluated": float(run.evaluate(train)["accuracy"]),
            "strategies": [event.strategy for event in watch.of(StrategySwapped)],
        }


def other_data(spark: Any, folder: Path) -> dict[str, Any]:
    """Train on TFRecord files, and on a function that makes datasets; an RDD there is not."""
    import tensorflow as tf

    for number in range(3):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for value in VALUES[number::3]:
                writer.write(np.float64(value).tobytes())
    records = tos.tfrecords(
        f"{folder}/*.tfrecord", lambda record: tf.reshape(tf.io.decode_raw(record, tf.float64), [])
    )

    def made(ctx: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices(VALUES[ctx.partition :: ctx.partitions])

    found = {}
    program = new_counter()
    with tos.TrainingSession(spark, program, combiner="downpour", batch_size=10) as session:
        before = np.zeros(2)
        for name, data in (("records", records), ("function", made)):
            total = session.run(data, epochs=1).parameters()["total"]
            found[name] = (total - before).tolist()
            before = total.copy()
    return {**found, "expected": [TOTAL, float(ROWS)]}


UNREACHABLE = "192.0.2.1"
"""An address of documentation (RFC 5737): no host has it."""


def deployed(spark: Any, folder: Path) -> dict[str, Any]:
    """Follow a run whose server is in a Spark task; pause, set, stop, and continue it."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, y = (x[:640] / 16).astype(np.float32), y[:640]
    spark.conf.set("spark.tos.server.host", UNREACHABLE)
    # So many that it still trains when the task hears of the chaos that slows it.
    watch, epochs, model = Watch(), 40, classifier()
    options = {"batch_size": 16, "sync_interval": 1, "checkpoint_dir": str(folder / "runs")}
    try:
        with tos.TrainingSession(spark, model, **options) as session:
            address = session.address
            # As a task has it that came to the same host before.
            with socket.create_server(("", 0)) as other:
                spark.conf.set("spark.tos.server.port", str(other.getsockname()[1]))
                run = session.start((x, y), epochs=epochs, sinks=[watch], checkpoint_every=10)
            run.chaos(tos.chaos.Pause(0.05, any=2))
            mark = watch.until(MilestoneCommitted, count=4)
            run.pause()
            watch.until(CommandApplied, mark, lambda event: event.command == Command.PAUSE)
            parameters = run.parameters()
            refused = ""
            try:
                run.set(sync="none")
            except tos.errors.ConfigError as error:
                refused = str(error)
            run.set(learning_rate=0.25)
            run.unpause()
            watch.until(CommandApplied, mark, lambda event: event.command == Command.SET)
            run.stop()
        resumed = tos.resume(run.uri, program=model, spark=spark)
        resumed.wait(120)
    finally:
        for name in ("host", "port"):
            spark.conf.unset(f"spark.tos.server.{name}")
    kept = sum(resumed.history["samples"])
    return {
        "address": address,
        "states": [run.state, resumed.state],
        "samples": [resumed.status.samples, int(kept)],
        "expected": epochs * len(x),
        "stopped": run.status.samples,
        "told": sum(event.samples for event in watch.of(MilestoneCommitted)),
        "moved": bool(any(np.any(parameters[n] != v) for n, v in resumed.parameters().items())),
        "rate": run.settings.learning_rate,
        "refused": refused,
        "commands": [event["command"] for event in run.events],
        "accuracy": float(resumed.evaluate((x, y))["accuracy"]),
        "model": float(np.mean(np.argmax(model.predict(x, verbose=0), 1) == y)),
    }


TRIED: tuple[Callable[[Any, Path], dict[str, Any]], ...] = (
    steered,
    killed,
    hung,
    learned,
    other_data,
    deployed,
)


def loaded() -> list[str]:
    """Return what of a JVM this process has imported."""
    return [n for n, m in sys.modules.items() if m and n.startswith(("py4j", "pyspark.core"))]


def threads() -> list[str]:
    """Return the threads of ours that are left."""
    return [t.name for t in threading.enumerate() if t.name.startswith("tos-")]


if __name__ == "__main__":
    main(TRIED, cells, loaded=loaded, threads=threads)
