"""A run with checkpoints in a process of its own, for a test to kill.

    python -m tests.checkpoint.victim start FOLDER
    python -m tests.checkpoint.victim resume URI

It trains a graph that adds up every row it is fed, so that the parameters tell exactly which
batches are in them. Prints the run's folder; a resumed run ends with the epoch after the one that
it was killed in, and then the sums are printed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import tos_notebook as tos

ROWS = 1_200
ENDLESS = 1_000
"""Epochs, so that a run is killed in its midst however long the disk takes."""
DATA = np.arange(1.0, ROWS + 1)


def rdd(sc: Any) -> Any:
    return sc.parallelize([(value,) for value in DATA], 3)


def start(sc: Any, folder: str) -> None:
    from tests.integration.conftest import counter

    settings: dict[str, Any] = {"combiner": "downpour", "batch_size": 5, "sync_interval": 2}
    session = tos.TrainingSession(sc, counter(), directory=folder, sync="bsp", **settings)
    run = session.start(rdd(sc), ENDLESS, checkpoint_every="20 milestones", repartition_every=1)
    sys.stdout.write(f"{run.uri}\n")
    sys.stdout.flush()
    run.wait()


def resume(sc: Any, uri: str) -> None:
    (saved,) = tos.runs(uri, spark=sc)
    epochs = saved.epoch + 1
    run = tos.resume(uri, rdd(sc), spark=sc, epochs=epochs)
    resumed_at = run.status.milestones
    run.wait()
    history = run.history
    told = {
        "epochs": epochs, "state": run.state, "total": run.parameters()["total"].tolist(),
        "from": resumed_at, "versions": history["version"].tolist(),
        "samples": int(history["samples"].sum()),
    }  # fmt: skip
    sys.stdout.write(json.dumps(told))


def main(command: str, place: str) -> None:
    sc = tos.connect("local[2,4]", warm_up=False).sparkContext
    {"start": start, "resume": resume}[command](sc, place)
    sc.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
