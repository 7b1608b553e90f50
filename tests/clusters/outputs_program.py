"""Reads a table from HDFS, trains on it, and keeps in HDFS everything that a run can leave behind.

    python outputs_program.py DIRECTORY

Prints what it read back as one line of JSON. Master and settings are those of
``spark-defaults.conf`` in ``SPARK_CONF_DIR``.
"""

import json
import sys
import time
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import pandas as pd
from pyspark.ml import PipelineModel
from sklearn.datasets import load_digits

import tos_notebook as tos

EPOCHS = 4
PATIENCE = 60.0
FORMATS = {"digits.keras": None, "saved": "savedmodel"}


def digits_model() -> Any:
    """Return a compiled classifier of 64 pixels."""
    layers = [keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((64,)), *layers])
    optimizer = keras.optimizers.Adam(0.005)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def digits_table(spark: Any, uri: str) -> Any:
    """Return the digits as a DataFrame that was written to a URI and is read from there."""
    images, labels = load_digits(return_X_y=True)
    rows = pd.DataFrame({"features": list((images / 16).astype(np.float32)), "label": labels})
    spark.createDataFrame(rows).repartition(2).write.parquet(uri)
    return spark.read.parquet(uri)


def scored(model: Any, table: Any) -> Any:
    """Return what a model predicts of each row, on the executors."""
    return np.array([row.prediction for row in model.predict(table, "features").collect()])


def first_curve(run: Any, uri: str) -> int:
    """Wait for the loss of a run in its event files; return how many points there are."""
    end = time.monotonic() + PATIENCE
    while run.active and time.monotonic() < end:
        with suppress(tos.errors.ConfigError):  # There are none yet.
            curves = tos.read_events(uri)
            if points := int((curves["tag"] == "training/loss").sum()):
                return points
        time.sleep(0.2)
    raise TimeoutError(f"No loss in the event files of {uri} after {PATIENCE} s: {run.status}")


def trained(spark: Any, table: Any, directory: str) -> dict[str, Any]:
    """Train while the curves are read from HDFS; keep the model there, and read it again."""
    data = tos.columns(table, "features", "label")
    with tos.TrainingSession(spark, digits_model(), batch_size=32, sync_interval=2) as session:
        run = session.start(data, epochs=100_000, tensorboard=f"{directory}/logs")
        live = first_curve(run, f"{directory}/logs")
        run.stop()
        own = scored(run, table)
        same = {}
        for name, kind in FORMATS.items():
            uri = run.save(f"{directory}/{name}", kind)
            same[name] = bool(np.allclose(scored(tos.load_model(uri), table), own, atol=1e-6))
        curves = tos.read_events(f"{directory}/logs")
        steps = curves[curves["tag"] == "training/loss"]["step"]
        return {
            "live": live,
            "samples": [int(steps.max()), int(run.history["samples"].sum())],
            "same": same,
            "accuracy": run.evaluate(data)["accuracy"],
        }


def piped(table: Any, uri: str) -> bool:
    """Return whether a pipeline's model that was kept in HDFS predicts as before."""
    estimator = tos.ml.TensorEstimator(model=digits_model(), epochs=EPOCHS, batchSize=32)
    fitted = PipelineModel([estimator.fit(table)])
    fitted.write().overwrite().save(uri)
    found = [m.transform(table).select("prediction") for m in (fitted, PipelineModel.load(uri))]
    return found[0].collect() == found[1].collect()


def main(directory: str) -> None:
    """Do all that, and print what came of it."""
    spark = tos.connect()
    table = digits_table(spark, f"{directory}/table")
    found = trained(spark, table, directory)
    print(json.dumps(found | {"pipeline": piped(table, f"{directory}/pipeline")}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
