"""Training over Spark Connect against training by a session with a JVM, on the same cluster.

Each client is a process of its own, as a notebook is. They train in turns. A second row is the
time from `connect` to the first milestone, in new processes.

    python -m benchmarks.throughput.connect [--quick]
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from tests.clusters.standalone import Standalone
from tests.support.connect_server import ConnectServer

from ..lib.data import mnist
from ..lib.harness import Row, milliseconds, program, rate
from ..lib.models import TWO_NN, name_of, network
from ..lib.ours import BATCH_SIZE, Measured, measure

GOAL, START_GOAL = 0.9, 1.5
INTERVAL = 10
EPOCHS = 10
CORES = 2
"""Of each application's executors."""

SETTINGS = {
    "spark.cores.max": str(CORES),
    "spark.executor.memory": "1g",
    # As the server, so that neither speaks TLS.
    "spark.driver.host": "127.0.0.1",
}


def client(master: str, config: dict[str, str], pipe: Any) -> None:
    """Connect, train as often as the pipe says, and report each time."""
    import tos_notebook as tos

    os.environ.pop("SPARK_CONNECT_MODE", None)
    began = time.time()
    spark = tos.connect(master, config=config)
    data, _ = mnist()
    session = tos.TrainingSession(
        spark, tos.capture(network(TWO_NN)), sync_interval=INTERVAL, batch_size=BATCH_SIZE
    )
    first = session.run(data, 1)
    pipe.send(first.history["time"].iloc[0] - began)
    while (epochs := pipe.recv()) is not None:
        pipe.send(measure(session, data, epochs))
    session.close()
    spark.stop()


class Client:
    """A process that trains when it is told.

    Parameters
    ----------
    master : str
    config : dict of str
        Of the Spark that it starts; empty for a server that runs.
    """

    def __init__(self, master: str, config: dict[str, str]) -> None:
        context = get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=client, args=(master, config, end), daemon=True)
        self._process.start()
        self.start: float = self._pipe.recv()

    def run(self, epochs: int) -> Measured:
        """Train; return what was measured."""
        self._pipe.send(epochs)
        found: Measured = self._pipe.recv()
        return found

    def stop(self) -> None:
        """Disconnect."""
        self._pipe.send(None)
        self._process.join()


def run(quick: bool) -> list[Row]:
    """Measure both in turns."""
    epochs, rounds, starts = (4, 3, 1) if quick else (EPOCHS, 9, 3)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tos-benchmark-")))
        cluster = stack.enter_context(Standalone(folder / "cluster", 2, cores=CORES, memory="2g"))
        server = stack.enter_context(ConnectServer(folder / "connect", cluster.master, SETTINGS))
        ways = {"Connect": (server.address, {}), "classic": (cluster.master, SETTINGS)}
        began: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(starts):
            for name, way in ways.items():
                each = Client(*way)
                began[name].append(each.start)
                each.stop()
        clients = {name: Client(*way) for name, way in ways.items()}
        found: dict[str, list[Measured]] = {name: [] for name in ways}
        for number in range(rounds):
            # The first one has the processors cooler.
            for name in list(ways)[:: 1 if number % 2 else -1]:
                found[name].append(clients[name].run(epochs))
        for each in clients.values():
            each.stop()
    pairs = list(zip(*found.values(), strict=True))
    ratios = [connect.steady / classic.steady for connect, classic in pairs]
    parts = {name: rate(median(m.steady for m in ours)) for name, ours in found.items()}
    parts["ratio of each pair"] = " ".join(f"{ratio:.3f}" for ratio in ratios)
    for name, ours in found.items():
        parts[f"exchange per milestone, {name}"] = milliseconds(median(m.exchange for m in ours))
        parts[f"until the first milestone, {name}"] = milliseconds(
            median(m.until_first for m in ours)
        )
    what = f"{name_of(TWO_NN)}, exchange every {INTERVAL}: Spark Connect / classic"
    waits = {name: " ".join(f"{s:.2f} s" for s in each) for name, each in began.items()}
    slower = median(began["Connect"]) / median(began["classic"])
    return [
        Row(what, median(ratios), "x", f">= {GOAL}", parts, rounds),
        Row("connect to first milestone: the same", slower, "x", f"<= {START_GOAL}", waits, starts),
    ]


if __name__ == "__main__":
    program(run, __doc__)
