"""spark-tensorflow-distributor trains: TensorFlow's all-reduce in the tasks of a Spark stage."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

from pyspark.sql import SparkSession
from spark_tensorflow_distributor import MirroredStrategyRunner

WORKERS = 2


def main(path: str, batch_size: str) -> None:
    """Train whenever a number of epochs comes."""
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    builder.config("spark.ui.enabled", "false").getOrCreate()
    runner = MirroredStrategyRunner(num_slots=WORKERS, use_gpu=False)
    for line in sys.stdin:
        began = perf_counter()
        options = {"path": path, "epochs": int(line), "batch_size": int(batch_size)}
        accuracy = runner.run(_train, here=str(Path(__file__).parent), **options)
        seconds = perf_counter() - began
        print(json.dumps({"seconds": seconds, "accuracy": accuracy}), flush=True)


def _train(path: str, epochs: int, batch_size: int, here: str) -> float:
    sys.path.insert(0, here)
    from all_reduce import train

    return train(path, epochs, batch_size)


if __name__ == "__main__":
    main(*sys.argv[1:])
