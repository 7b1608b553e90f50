"""Lose an executor in the midst of a run over Spark Connect, and continue from its checkpoint.

``python -m tests.clusters.spark_connect_program sc://host:port FOLDER [PID...]``, with the pids of
the worker nodes, prints what it has found as a line of JSON. Without any, no executor is lost.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import tos_notebook as tos
from tests.clusters.standalone import EXECUTOR, command_line, descendants
from tests.integration.conftest import new_counter
from tests.integration.connect_program import COUNTED, ROWS, TOTAL, frame_of
from tests.support.watching import Watch
from tos_notebook.events import MilestoneCommitted

EPOCHS = 4


def executors(nodes: list[int]) -> list[int]:
    """Return the pids of the executors on some nodes."""
    below = [pid for node in nodes for pid in descendants(node)]
    return [pid for pid in below if EXECUTOR in command_line(pid)]


def main() -> None:
    """Train, kill an executor, stop, and resume."""
    address, folder, *pids = sys.argv[1:]
    events = f"{folder}-events"
    watch = Watch()
    spark = tos.connect(address)
    with tos.TrainingSession(spark, new_counter(), **COUNTED, checkpoint_dir=folder) as session:
        run = session.start(
            frame_of(spark), epochs=EPOCHS, sinks=[watch], checkpoint_every=4, tensorboard=events
        )
        run.chaos(tos.chaos.Pause(0.02, any=2))
        mark = watch.until(MilestoneCommitted, count=6)
        for killed in executors(list(map(int, pids)))[:1]:
            os.kill(killed, signal.SIGKILL)
        watch.until(MilestoneCommitted, mark, count=12)
        run.stop()
    resumed = tos.resume(run.uri, frame_of(spark), spark=spark)
    resumed.wait(120)
    found: dict[str, Any] = {
        "total": resumed.parameters()["total"].tolist(),
        "expected": [EPOCHS * TOTAL, float(EPOCHS * ROWS)],
        "stopped": run.status.samples,
        "uri": run.uri,
        "saved": [saved.uri for saved in tos.runs(folder, spark=spark)],
        "told": int(tos.read_events(events, spark=spark)["step"].max()),
    }
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
