"""What users of TensorFlowOnSpark suffer from, tried on the Spark of ``spark-defaults.conf``.

    python tensorflowonspark_program.py

Spark runs as any program would start it, without this package's own settings. See `trying.try_all`.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

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
from tests.support.served import port_keeper
from tos_notebook.errors import TosError, WorkerError
from tos_notebook.nodes.cluster import NodeCluster
from tos_notebook.nodes.hub import RowQueue
from tos_notebook.nodes.plan import ClusterOptions, ServerAddress
from tos_notebook.nodes.talk import open_talk
from tos_notebook.tensorflowonspark import TFCluster
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.sockets import Timeouts


def endless(folder: Path) -> Callable[[int, Any], Iterator[list[float]]]:
    """Return what yields more rows than anyone takes, and notes when it is given up."""

    def rows(number: int, _: Any) -> Iterator[list[float]]:
        began = time.time()
        try:
            for _ in range(10**7):
                yield [0.0] * 1000
        finally:
            Path(folder, f"given-up-{number}").write_text(f"{began} {time.time()}")

    return rows


def times(folder: Path, what: str) -> list[list[float]]:
    """Return the times that were noted of something."""
    return [[*map(float, path.read_text().split())] for path in folder.glob(f"{what}-*")]


def leave_early(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """A consumer returns, or wants no more, in the middle of a feed that would not end."""

    def main(args: str, ctx: Any) -> None:
        feed = ctx.get_data_feed()
        feed.next_batch(10)
        Path(args, f"left-{ctx.task_index}").write_text(str(time.time()))
        if ctx.task_index:
            feed.terminate()

    cluster = start(sc, main, str(folder))
    cluster.train(sc.parallelize(range(4), 4).mapPartitionsWithIndex(endless(folder)), 1)
    released = time.time()
    cluster.shutdown()
    states = [node.state for node in nodes_of(cluster)]
    (left,) = max(times(folder, "left"))
    return {"states": states, "seconds": round(released - left, 2)}


def raise_error(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """The user's function raises, while it is fed and while it is not."""

    def main(args: str, ctx: Any) -> None:
        if args:
            ctx.get_data_feed().next_batch(10)
        Path(folder, f"raised{args}-{ctx.task_index}").write_text(str(time.time()))
        raise ValueError("mine")

    said = []
    for when in ("", "fed"):
        cluster = start(sc, main, when)
        try:
            rows = sc.parallelize(range(4), 4).mapPartitionsWithIndex(endless(folder))
            cluster.train(rows, 1)
            cluster.shutdown()
        except WorkerError as error:
            came = time.time()
            cluster._cluster.stop()
            (raised,) = min(times(folder, f"raised{when}"))
            said.append([error.message, error.frames[0], error.executor, round(came - raised, 2)])
    return {"said": said, "sum": sc.parallelize(range(10)).sum()}


def kill_node(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """A node's process is killed: an error that names it, or another start."""

    def main(args: str, ctx: Any) -> None:
        if Path(args).exists():
            print("again")
            return
        if ctx.task_index == 1:
            Path(args).touch()
            os.kill(os.getpid(), 9)
        threading.Event().wait()

    def run(restarts: int) -> list[Any]:
        mark = folder / f"mark-{restarts}"
        options = ClusterOptions({"worker": [0, 1]}, restarts=restarts)
        with NodeCluster(sc, main, str(mark), options) as cluster:
            try:
                cluster.wait(120)
            except WorkerError as error:
                return [error.message, error.executor]
            return [list(node.lines) for node in cluster.roster.nodes.values()]

    return {"without": run(0), "with": run(1), "sum": sc.parallelize(range(10)).sum()}


def feed_unevenly(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """One partition has nearly all rows, others have none."""

    def main(args: Any, ctx: Any) -> None:
        feed, total = ctx.get_data_feed(), 0
        while not feed.should_stop():
            total += sum(feed.next_batch(64))
        print(total)

    def deal(number: int, rows: Any) -> Any:
        return iter([range(1000), range(1000, 1001), (), ()][number])

    cluster = start(sc, main)
    cluster.train(sc.parallelize(range(4), 4).mapPartitionsWithIndex(deal), 2)
    cluster.shutdown()
    nodes = nodes_of(cluster)
    total = sum(int(node.lines[-1]) for node in nodes)
    return {"rows": sum(node.rows for node in nodes), "total": total}


def share_executors(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """More nodes than slots; two clusters at once; Python workers are not used again."""

    def main(args: Any, ctx: Any) -> None:
        print(ctx.executor_id, ctx.job_name, ctx.task_index, Path("executor_id").exists())
        square(args, ctx)

    one, two = start(sc, main, nodes=3), start(sc, main, nodes=1, master_node="chief")
    rows = sc.parallelize(range(100), 5)
    found = [cluster.inference(rows).sum() for cluster in (one, two)]
    for cluster in (one, two):
        cluster.shutdown()
    said = [node.lines[0] for cluster in (one, two) for node in nodes_of(cluster)]
    return {"said": said, "found": found, "expected": sum(n * n for n in range(100))}


def keep_port(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """No other program gets a node's port before TensorFlow's server has it."""

    cluster = TFCluster.run(sc, port_keeper(), None, 2, 0)
    cluster.shutdown()
    # TensorFlow says more.
    said = [[line for line in node.lines if " " not in line] for node in nodes_of(cluster)]
    return {"said": said}


def send_blocks(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """Rows come in blocks, not one by one."""

    def main(args: Any, ctx: Any) -> None:
        blocks, put = [0], RowQueue.put_rows

        def count(*given: Any) -> bool:
            blocks[0] += 1
            return put(*given)

        RowQueue.put_rows = count  # type: ignore[method-assign]
        feed = ctx.get_data_feed()
        while not feed.should_stop():
            feed.next_batch(1000)
        print(blocks[0])

    cluster = start(sc, main)
    began = time.time()
    cluster.train(sc.parallelize(range(200_000), 4).map(lambda n: [float(n)] * 10), 1)
    seconds = time.time() - began
    cluster.shutdown()
    nodes = nodes_of(cluster)
    blocks = sum(int(node.lines[-1]) for node in nodes)
    rows = sum(node.rows for node in nodes)
    return {"rows": rows, "blocks": blocks, "rows_per_s": round(rows / seconds)}


def ask_who_it_is(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """The driver's server and the nodes' own let no client in without the cluster's secret."""
    cluster = start(sc, square)
    server = cluster.server.address
    places = [(*server, server.fingerprint)] + [
        (*node["inbox"], bytes.fromhex(node["fingerprint"]) or None)
        for node in cluster.cluster_info
    ]
    refused = 0
    for host, port, fingerprint in places:
        guess = ServerAddress.of(host, port, new_secret(), fingerprint)
        try:
            open_talk(guess, guess.secret, fingerprint, Timeouts()).close()
        except TosError:
            refused += 1
    found = cluster.inference(sc.parallelize([3], 1)).collect()
    cluster.shutdown()
    return {"places": len(places), "refused": refused, "found": found}


def interrupt(sc: SparkContext, folder: Path) -> dict[str, Any]:
    """An interrupt ends what waits here, a feed or a pause, and no node."""

    def interrupted(call: Callable[[], Any], begun: Callable[[], bool]) -> bool:
        def send() -> None:
            wait_for(begun)
            os.kill(os.getpid(), signal.SIGINT)

        sender = threading.Thread(target=send)
        try:
            sender.start()
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sender.join()
        return False

    def slow(rows: Iterator[int]) -> Iterator[int]:
        Path(folder, "begun").touch()
        time.sleep(600)
        yield from rows

    def main(args: str, ctx: Any) -> None:
        wait_for(Path(args, "go").exists)
        print("went")

    # Spark's own handler, which cancels all of its jobs.
    handler = signal.getsignal(signal.SIGINT)
    fed, rows = start(sc, add_up), sc.parallelize(range(1000), 4)
    first = interrupted(
        lambda: fed.train(rows.mapPartitions(slow), 1), Path(folder, "begun").exists
    )
    fed.train(rows, 1)
    fed.shutdown(timeout=120)
    signal.signal(signal.SIGINT, handler)
    own = TFCluster.run(sc, main, str(folder), 2, 0)
    second = interrupted(
        lambda: threading.Event().wait(120),
        lambda: all(node.state == "running" for node in nodes_of(own)),
    )
    Path(folder, "go").touch()
    own.shutdown(timeout=120)
    states = [[node.state, *node.lines] for node in nodes_of(own)]
    return {"interrupted": [first, second], **added_up(fed), "own": states}


TRIED: tuple[Tried, ...] = (
    *(leave_early, raise_error, kill_node, feed_unevenly, interrupt),
    *(share_executors, keep_port, send_blocks, ask_who_it_is),
)


if __name__ == "__main__":
    try_all(TRIED)
