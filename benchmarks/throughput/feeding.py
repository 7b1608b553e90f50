"""Rows of MNIST from an RDD to the nodes of a TensorFlow cluster, against other ways to them.

Two nodes call `next_batch(100)` until the feed ends. They do nothing else, or make arrays of
float32 of each batch, as for training. A row is a tuple of the 784 pixels and the label: the pixels
a list of numbers, or an array of NumPy. Rates are of all rows over the whole call of
`TFCluster.train`.

- In process: two bare processes hold MNIST as arrays, make the same batches of the same Python rows
  of them, and do the same with each. On ``local[2]``.
- TensorFlowOnSpark 2.2.5: the same function in its nodes, the same RDD, the same Spark. It wants an
  executor for each node, so this is on ``local-cluster[2,1,1024]``, for both.

How fast Spark's own Python tasks read the rows, and do nothing with them, is among the parts.

    python -m benchmarks.throughput.feeding [--quick] [--tensorflowonspark DIR]

For TensorFlowOnSpark, a folder with it and with the last setuptools that it works with::

    pip install --no-deps --target DIR tensorflowonspark==2.2.5 'setuptools<81'
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from tos_notebook.errors import ConfigError
from tos_notebook.tensorflowonspark import TFCluster

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.ours import spark
from ..lib.peers import Peer

NODES = 2
BATCH_SIZE = 100
KINDS: dict[str, Callable[[Any], list[Any]]] = {
    "lists of numbers": lambda images: images.tolist(),
    "arrays of NumPy": list,
}
"""How images become the pixels of rows."""
EPOCHS = {"lists of numbers": 3, "arrays of NumPy": 12}
"""How often all rows are fed in one measurement, so that it takes seconds."""
EXECUTORS = f"local-cluster[{NODES},1,1024]"


def rows_of(kind: str, images: Any, labels: Any) -> list[tuple[Any, int]]:
    """Return images and labels as rows."""
    return list(zip(KINDS[kind](images), labels.tolist(), strict=True))


def use(batch: list[tuple[Any, int]], arrays: bool) -> None:
    """Make arrays of a batch, if asked to."""
    if arrays:
        np.array([image for image, _ in batch], np.float32)
        np.array([label for _, label in batch])


def read(args: Any, ctx: Any) -> None:
    """Take all rows: what runs in a node, of both."""
    feed = ctx.get_data_feed()
    while not feed.should_stop():
        use(feed.next_batch(BATCH_SIZE), args.arrays)


def in_process(number: int) -> Callable[[str, bool], tuple[float, float]]:
    """Return the function that one of the bare processes runs; it returns begin and end."""
    images, labels = (column[number::NODES] for column in mnist()[0])

    def batches(kind: str, arrays: bool) -> tuple[float, float]:
        began = perf_counter()
        for _ in range(EPOCHS[kind]):
            for start in range(0, len(labels), BATCH_SIZE):
                part = slice(start, start + BATCH_SIZE)
                use(rows_of(kind, images[part], labels[part]), arrays)
        return began, perf_counter()

    return batches


@contextmanager
def rdd(sc: Any, kind: str, data: Labelled) -> Iterator[Any]:
    """Make an RDD of the rows, in the executors' memory and with a partition for each node."""
    images, labels = data
    bounds = itertools.pairwise([*range(0, len(labels), 1000), len(labels)])
    blocks = sc.parallelize([(images[a:b], labels[a:b]) for a, b in bounds], NODES)
    rows = blocks.flatMap(lambda block: rows_of(kind, *block)).cache()
    rows.count()
    yield rows
    rows.unpersist()


@contextmanager
def nodes(module: Any, sc: Any, arrays: bool = False) -> Iterator[tuple[Any, float]]:
    """Run a cluster of ours or theirs; give it, and the seconds until its nodes were ready."""
    began = perf_counter()
    args, mode = argparse.Namespace(arrays=arrays), module.InputMode.SPARK
    cluster = module.run(sc, read, args, NODES, 0, input_mode=mode)
    took = perf_counter() - began
    yield cluster, took
    cluster.shutdown()


def fed(cluster: Any, rows: Any, count: int, epochs: int) -> float:
    """Feed all rows so often; return rows a second."""
    began = perf_counter()
    cluster.train(rows, epochs)
    return epochs * count / (perf_counter() - began)


def _of_spark(rows: Any, count: int, epochs: int) -> float:
    """Let Spark's own tasks read all rows so often; return rows a second."""

    def nothing(part: Iterable[Any]) -> None:
        for _ in part:
            pass

    began = perf_counter()
    rows.context.union([rows] * epochs).foreachPartition(nothing)
    return epochs * count / (perf_counter() - began)


def _bare(peers: list[Peer], kind: str, arrays: bool, count: int) -> float:
    """Let the bare processes read all rows; return rows a second."""
    for peer in peers:
        peer.start(kind, arrays)
    ends = [peer.result() for peer in peers]
    took = max(end for _, end in ends) - min(begin for begin, _ in ends)
    return float(EPOCHS[kind] * count / took)


def in_turns(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return what each side measures in each round but the first."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name in list(sides)[:: 1 if number % 2 else -1]:
            value = sides[name]()
            if number:
                found[name].append(value)
    return found


def _row(what: str, goal: str, found: dict[str, list[float]], other: str) -> Row:
    ratios = [a / b for a, b in zip(found["ours"], found[other], strict=True)]
    parts = {name: rate(median(rates)) for name, rates in found.items()}
    parts["range of the ratio"] = f"{min(ratios):.3g} to {max(ratios):.3g}"
    return Row(f"{what}: ours / {other}", median(ratios), "x", goal, parts, len(ratios))


def against_processes(kind: str, arrays: bool, session: Any, peers: list[Peer], rounds: int) -> Row:
    """Compare with bare processes."""
    sc, data, epochs = session.sparkContext, mnist()[0], EPOCHS[kind]
    count = len(data[1])
    with rdd(sc, kind, data) as rows, nodes(TFCluster, sc, arrays) as (cluster, _):
        sides = {
            "ours": lambda: fed(cluster, rows, count, epochs),
            "in process": lambda: _bare(peers, kind, arrays, count),
            "Spark's own tasks": lambda: _of_spark(rows, count, epochs),
        }
        found = in_turns(sides, rounds)
    what = f"rows of {kind}{', made arrays' if arrays else ''}"
    # Arrays in process are views, and cost next to nothing.
    return _row(what, ">= 0.5" if "list" in kind else "", found, "in process")


def against_theirs(kind: str, session: Any, theirs: Any, rounds: int) -> Row:
    """Compare with TensorFlowOnSpark."""
    sc, data, epochs = session.sparkContext, mnist()[0], EPOCHS[kind]
    count = len(data[1])
    with (
        rdd(sc, kind, data) as rows,
        nodes(TFCluster, sc) as (cluster, _),
        nodes(theirs, sc) as (other, _),
    ):
        sides = {
            "ours": lambda: fed(cluster, rows, count, epochs),
            "TensorFlowOnSpark": lambda: fed(other, rows, count, 1),
        }
        found = in_turns(sides, rounds)
    return _row(f"rows of {kind}", ">= 20", found, "TensorFlowOnSpark")


def until_ready(session: Any, times: int) -> Row:
    """Start clusters on executors that are warm; return the median of the times."""
    took = []
    for _ in range(times + 1):
        with nodes(TFCluster, session.sparkContext) as (_, seconds):
            took.append(seconds)
    parts = {"the slowest": milliseconds(max(took[1:]))}
    return Row("run to all nodes ready", median(took[1:]) * 1e3, "ms", "<= 3000", parts, times)


def _theirs(folder: Path) -> Any:
    if not (folder / "tensorflowonspark").is_dir():
        raise ConfigError(f"--tensorflowonspark: expected a folder with that package: {folder}")
    sys.path.insert(0, str(folder))
    return importlib.import_module("tensorflowonspark.TFCluster")


def run(quick: bool, tensorflowonspark: Path | None) -> list[Row]:
    """Measure all."""
    rounds = 2 if quick else 7
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(in_process, number)) for number in range(NODES)]
        session = stack.enter_context(spark())
        ways = [(kind, arrays) for kind in KINDS for arrays in (False, True)]
        rows = [against_processes(*way, session, peers, rounds) for way in ways]
        rows.append(until_ready(session, 5 if quick else 20))
    if tensorflowonspark is None:
        print("TensorFlowOnSpark is left out: name its folder with --tensorflowonspark DIR.")
        return rows
    folder = tensorflowonspark.resolve()
    theirs = _theirs(folder)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    with spark(EXECUTORS, {"spark.executorEnv.PYTHONPATH": path}) as session:
        few = 1 if quick else 3
        return [*rows, *(against_theirs(kind, session, theirs, few) for kind in KINDS)]


if __name__ == "__main__":
    about = "a folder with TensorFlowOnSpark 2.2.5, and a setuptools older than 81"
    program(run, __doc__, folder=("tensorflowonspark", about))
