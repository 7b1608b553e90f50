"""What programs share that try one thing after the other on a Spark: see `try_all`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from tos_notebook.tensorflowonspark import TFCluster, TFNode

SPARK = TFCluster.InputMode.SPARK

Tried = Callable[[SparkContext, Path], dict[str, Any]]


def try_all(tried: tuple[Tried, ...]) -> None:
    """Try all of it with one Spark, started as any program would start it.

    Prints a line of JSON for each thing that is tried: its name, and what was found.

    Parameters
    ----------
    tried : tuple of callable
        Each takes the Spark context and a folder of its own.
    """
    sc = SparkContext()
    for each in tried:
        folder = Path(each.__name__).absolute()
        folder.mkdir()
        try:
            found = each(sc, folder)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps({"tried": each.__name__, **found}) + "\n")
        sys.stdout.flush()
    sc.stop()


def found_in(lines: list[str]) -> dict[str, dict[str, Any]]:
    """Return what a program has found, by what it tried."""
    made = [json.loads(line) for line in lines if line.startswith('{"tried"')]
    return {each.pop("tried"): each for each in made}


def start(sc: SparkContext, main: Any, args: Any = None, nodes: int = 2, **given: Any) -> Any:
    """Start a cluster that Spark feeds."""
    return TFCluster.run(sc, main, args, nodes, 0, input_mode=SPARK, **given)


def nodes_of(cluster: Any) -> list[Any]:
    """Return what the driver knows of the nodes, in their order."""
    return [node for _, node in sorted(cluster._cluster.roster.nodes.items())]


def square(args: Any, ctx: Any) -> None:
    """Give back the square of each row."""
    feed = TFNode.DataFeed(ctx.mgr, train_mode=False)
    while not feed.should_stop():
        feed.batch_results([row * row for row in feed.next_batch(7)])


def add_up(args: Any, ctx: Any) -> None:
    """Take all rows, and print how many they are, and their sum."""
    feed, rows = ctx.get_data_feed(), []
    while not feed.should_stop():
        rows += feed.next_batch(10)
    sys.stdout.write(f"{len(rows)} {sum(rows)}\n")


def added_up(cluster: Any) -> dict[str, int]:
    """Return how many rows the nodes have taken, and their sum; see `add_up`."""
    said = [list(map(int, node.lines[-1].split())) for node in nodes_of(cluster)]
    return {"rows": sum(count for count, _ in said), "total": sum(total for _, total in said)}


def wait_for(found: Callable[[], Any], seconds: float = 120.0) -> None:
    """Wait for something, not without an end."""
    deadline = time.monotonic() + seconds
    while not found() and time.monotonic() < deadline:
        time.sleep(0.02)
