"""Asks tasks which GPUs they see, then trains where there is none; prints both as a line of JSON.

python gpus_program.py
"""

import json
import os

import keras
import numpy as np
from pyspark import SparkContext, TaskContext

import tos_notebook as tos
from tos_notebook.cluster.gpus import claim_gpus

JOBS = 6


def see(together):  # type: ignore[no-untyped-def]
    """Return a function that says which GPU a task was given, and which ones its process sees."""

    def seen(_):  # type: ignore[no-untyped-def]
        claim_gpus()
        if together:
            TaskContext.get().barrier()
        yield TaskContext.get().resources()["gpu"].addresses, os.environ["CUDA_VISIBLE_DEVICES"]

    return seen


def train(sc):  # type: ignore[no-untyped-def]
    """Return the error of a run whose workers find no GPU."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    with tos.TrainingSession(sc, model, batch_size=4) as session:
        run = session.start((np.ones((16, 2)), np.ones((16, 1))))
        try:
            run.wait(300)
        except tos.errors.TosError as error:
            return type(error).__name__, str(error)
    return "", ""


if __name__ == "__main__":
    with SparkContext() as context:
        rdd = context.parallelize(range(2), 2)
        at_once = rdd.barrier().mapPartitions(see(True)).collect()
        later = [task for _ in range(JOBS) for task in rdd.mapPartitions(see(False)).collect()]
        error, text = train(context)
    print(json.dumps({"at_once": at_once, "later": later, "error": error, "text": text}))
