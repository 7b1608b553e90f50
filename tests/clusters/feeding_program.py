"""What Spark may do to the tasks of a TensorFlow cluster, on the Spark of ``spark-defaults.conf``.

    python feeding_program.py

It starts a second attempt of what seems slow, and loses an executor. Prints a line of JSON for each
thing that is tried: its name, and what was found.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext

from tests.clusters.standalone import parent
from tos_notebook.tensorflowonspark import TFCluster

SPARK = TFCluster.InputMode.SPARK


def wait_for(found: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for something, not without an end."""
    deadline = time.monotonic() + seconds
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)


def add_up(args: Any, ctx: Any) -> None:
    """Take all rows, and print how many they are, and their sum."""
    feed, rows = ctx.get_data_feed(), []
    while not feed.should_stop():
        rows += feed.next_batch(10)
    print(len(rows), sum(rows))


def square(args: Any, ctx: Any) -> None:
    """Give back the square of each row."""
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        feed.batch_results([row * row for row in feed.next_batch(7)])


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


def fed(sc: SparkContext, rows: Any, args: Any = None, nodes: int = 2) -> dict[str, Any]:
    """Feed rows for two epochs; return how many were taken, and their sum."""
    cluster = TFCluster.run(sc, add_up, args, nodes, 0, input_mode=SPARK)
    cluster.train(rows(cluster), 2)
    cluster.shutdown(timeout=120)
    roster = cluster._cluster.roster
    said = [list(map(int, node.lines[-1].split())) for node in roster.nodes.values()]
    return {"rows": sum(count for count, _ in said), "total": sum(total for _, total in said)}


def feed_twice(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Spark starts a second attempt of a task that feeds."""
    rows = sc.parallelize(range(4000), 4).mapPartitionsWithIndex(slow(folder))
    found = fed(sc, lambda _: rows)
    return {**found, "attempts": len(list(folder.glob("3-*")))}


def infer_twice(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Spark starts a second attempt of a task that fetches results."""
    cluster = TFCluster.run(sc, square, None, 2, 0, input_mode=SPARK)
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
    nodes = cluster._cluster.roster.nodes.values()
    return {"seen": seen, "said": [[node.state, *node.lines] for node in nodes]}


TRIED: tuple[Callable[[SparkContext, Path], dict[str, Any]], ...] = (
    *(feed_twice, infer_twice, start_twice, lose_executor),
)


def main() -> None:
    """Try all of it with one Spark."""
    sc = SparkContext()
    for tried in TRIED:
        folder = Path(tried.__name__).absolute()
        folder.mkdir()
        try:
            found = tried(sc, folder)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"tried": tried.__name__, **found}), flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
