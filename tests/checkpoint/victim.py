"""A run with checkpoints in a process of its own, for a test to kill: ``victim FOLDER JSON``.

It trains a graph that adds up every row it is fed, so that the parameters tell exactly which
batches are in them. Prints the run's folder; after the run's end, the sums.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import tos_notebook as tos

ROWS = 1_200
DATA = np.arange(1.0, ROWS + 1)


def rdd(sc: Any) -> Any:
    return sc.parallelize([(value,) for value in DATA], 3)


def start(sc: Any, folder: str, options: dict[str, Any]) -> tos.Run:
    from tests.integration.conftest import counter

    settings = {"combiner": "downpour", "batch_size": 5, "sync_interval": 2}
    session = tos.TrainingSession(
        sc, counter(), directory=folder, **(settings | options["session"])
    )
    if options.get("slowmo"):
        # Four pushes make a step of four times their mean: every change in full, and exactly. All
        # pushes of a run make whole rounds, unless one was lost, or its round was, or came twice.
        session.combiner = tos.combiners.get("slowmo", k=4, lr=4.0, momentum=0.0)
    data = rdd(sc) if options["rdd"] else (DATA,)
    return session.start(
        data, checkpoint_every="20 milestones", **({"epochs": 3} | options["start"])
    )


def main() -> None:
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    sc = tos.connect("local[2,4]", warm_up=False).sparkContext
    if "resume" in options:
        run = tos.resume(options["resume"], rdd(sc) if options["rdd"] else None, spark=sc)
        resumed_at = run.status.milestones
        run.wait()
        history = run.history
        told = {
            "total": run.parameters()["total"].tolist(), "state": run.state, "from": resumed_at,
            "versions": history["version"].tolist(),
            "samples": int(history["samples"].sum()),
        }  # fmt: skip
        sys.stdout.write(json.dumps(told))
    else:
        run = start(sc, folder, options)
        sys.stdout.write(f"{run.uri}\n")
        sys.stdout.flush()
        run.wait()
    sc.stop()


if __name__ == "__main__":
    main()
