"""What Spark may do to the tasks of a TensorFlow cluster, on the Spark of ``spark-defaults.conf``.

    python feeding_program.py

It starts a second attempt of what seems slow, and loses an executor. See `trying.try_all`.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext

from tests.clusters.standalone import parent
from tests.clusters.trying import (
    Tried,
    add_up,
    added_up,
    nodes_of,
    square,
    start,
    try_all,
    wait_for,
)
from tos_notebook.tensorflowonspark import TFCluster


def attempt() -> int:
    """Return which attempt of its task this is, from 0."""
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def slow(folder: Path) -> Callable[[int, Iterator[int]], Iterator[int]]:
    """Return what makes rows, and of the last partition only once there are two attempts."""

    def made(number: int, part: Iterator[int], first: bool) -> Iterator[int]:
        for count, row in enumerate(part):
            if number == 3 and first and count == 500:
                wait_for(Path(folder, "3-1").exists)
            yield row

    def rows(number: int, part: Iterator[int]) -> Iterator[int]:
        # Noted before the first row is asked for.
        Path(folder, f"{number}-{attempt()}").touch()
        return made(number, part, attempt() == 0)

    return rows


def fed(sc: SparkContext, rows: Any, nodes: int = 2) -> dict[str, Any]:
    """Feed rows for two epochs; return how many were taken, and their sum."""
    cluster = start(sc, add_up, nodes=nodes)
    cluster.train(rows(cluster), 2)
    cluster.shutdown(timeout=120)
    return added_up(cluster)


def feed_twice(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Spark starts a second attempt of a task that feeds."""
    rows = sc.parallelize(range(4000), 4).mapPartitionsWithIndex(slow(folder))
    found = fed(sc, lambda _: rows)
    return {**found, "attempts": len(list(folder.glob("3-*")))}


def infer_twice(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Spark starts a second attempt of a task that fetches results."""
    cluster = start(sc, square)
    rows = sc.parallelize(range(4000), 4).mapPartitionsWithIndex(slow(folder))
    found = cluster.inference(rows).collect()
    cluster.shutdown(timeout=120)
    right = found == [row * row for row in range(4000)]
    return {"right": right, "attempts": len(list(folder.glob("3-*")))}


def lose_executor(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """An executor that feeds the node of another one is killed."""

    def rows_for(cluster: Any) -> Any:
        own = int(cluster.cluster_info[0]["executor"].rpartition("/")[2])

        def rows(number: int, part: Iterator[int]) -> Iterator[int]:
            for count, row in enumerate(part):
                if count == 500 and os.getppid() != own and not Path(folder, "lost").exists():
                    Path(folder, "lost").touch()
                    os.kill(parent(os.getppid()), signal.SIGKILL)
                    wait_for(lambda: False)
                yield row

        return sc.parallelize(range(4000), 4).mapPartitionsWithIndex(rows)

    found = fed(sc, rows_for, nodes=1)
    return {**found, "lost": Path(folder, "lost").exists()}


def start_twice(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Spark starts a second attempt of a task that keeps a node."""

    def main(args: str, ctx: Any) -> None:
        print("began")
        if ctx.task_index:
            wait_for(Path(args, "two").exists)

    cluster = TFCluster.run(sc, main, str(folder), 2, 0)
    tracker = sc.statusTracker()

    def two() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(
            stage is not None and stage.numCompletedTasks == 1 and stage.numActiveTasks == 2
            for stage in stages
        )

    wait_for(two)
    seen = two()
    # The second one has come to the driver, or will.
    time.sleep(2)
    Path(folder, "two").touch()
    cluster.shutdown(timeout=120)
    return {"seen": seen, "said": [[node.state, *node.lines] for node in nodes_of(cluster)]}


TRIED: tuple[Tried, ...] = (feed_twice, infer_twice, start_twice, lose_executor)


if __name__ == "__main__":
    try_all(TRIED)
