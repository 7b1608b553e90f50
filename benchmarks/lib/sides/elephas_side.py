"""Elephas trains, in an environment of its own."""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
from elephas.spark_model import SparkModel
from elephas.utils.rdd_utils import to_simple_rdd
from network import network
from pyspark import SparkConf, SparkContext

WORKERS = 2


def main(path: str, mode: str, batch_size: str) -> None:
    """Train whenever a number of epochs comes."""
    data: Any = np.load(path)
    one_hot = np.eye(10, dtype=np.float32)
    conf = SparkConf().setMaster(f"local[{WORKERS}]").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf)
    rows = to_simple_rdd(sc, data["x"], one_hot[data["y"]]).repartition(WORKERS).cache()
    rows.count()
    for line in sys.stdin:
        model = network("categorical_crossentropy")
        began = perf_counter()
        trained = SparkModel(model, mode=mode, num_workers=WORKERS)
        options = {"epochs": int(line), "batch_size": int(batch_size), "verbose": 0}
        trained.fit(rows, validation_split=0.0, **options)
        seconds = perf_counter() - began
        found = trained.master_network.evaluate(
            data["x_test"], one_hot[data["y_test"]], verbose=0, return_dict=True
        )
        print(json.dumps({"seconds": seconds, "accuracy": found["accuracy"]}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
