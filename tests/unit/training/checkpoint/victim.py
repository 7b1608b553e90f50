"""A run with checkpoints in a process of its own, for a test to kill.

    python -m tests.unit.training.checkpoint.victim FOLDER

It trains a graph that adds up every row it is fed, so that the parameters tell exactly which
batches are in them. Prints the run's folder.
"""

from __future__ import annotations

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


def main(folder: str) -> None:
    from tests.integration.conftest import counter

    sc = tos.connect("local[2,4]", warm_up=False).sparkContext
    settings: dict[str, Any] = {"combiner": "downpour", "batch_size": 5, "sync_interval": 2}
    session = tos.TrainingSession(sc, counter(), checkpoint_dir=folder, sync="bsp", **settings)
    run = session.start(rdd(sc), ENDLESS, checkpoint_every="20 milestones", repartition_every=1)
    sys.stdout.write(f"{run.uri}\n")
    sys.stdout.flush()
    run.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
