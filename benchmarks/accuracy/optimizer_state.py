"""What becomes of Adam's state at an exchange: accuracy by policy, and what it costs.

Workers in threads of this process, with the real server and the real program.

python -m benchmarks.accuracy.optimizer_state [--quick]
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

import tos_notebook as tos
from tos_notebook.blocks.block import describe
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import WorkerHandler
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.program.export.base import Program
from tos_notebook.steering.sync import as_sync
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.exchange import exchange
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.transport.auth import new_secret
from tos_notebook.transport.inproc import InprocListener, connect_inproc
from tos_notebook.wire.messages import Join
from tos_notebook.worker.exchange import WorkerContext
from tos_notebook.worker.loop import Worker
from tos_notebook.worker.optimizer_state import POLICIES
from tos_notebook.worker.plan import Plan

from ..lib.data import Labelled, mnist
from ..lib.harness import Row, program
from ..lib.models import TWO_NN, network

EPOCHS, SYNC_INTERVAL, BATCH_SIZE = 2, 10, 100
SYNCS = ("asp", "bsp")
TIMES = 200
"""Repetitions of what is timed."""


def captured(seed: int) -> Program:
    """Return the 2NN with Adam."""
    import keras

    keras.utils.set_random_seed(seed)
    return tos.capture(network(TWO_NN, optimizer="Adam", metrics=["accuracy"]))


def runners(archive: Path, count: int) -> list[Any]:
    """Load a program several times."""
    from tos_notebook.runtime.runner import TensorFlowRunner, configure_threads

    configure_threads(1)
    return [TensorFlowRunner(archive) for _ in range(count)]


class Served:
    """A run behind a listener of this process.

    Parameters
    ----------
    training : Coordinator
    """

    def __init__(self, training: Coordinator) -> None:
        self.listener = InprocListener(lambda peer: WorkerHandler(lambda: training))
        self.listener.start()


def train(
    model: Program, loaded: Sequence[Any], data: Labelled, sync: str, policy: str, seed: int
) -> np.ndarray[Any, Any]:
    """Train with a worker for each runner; return the parameters, packed."""
    workers, mode = len(loaded), as_sync(sync)
    combiner = ParameterServer().default_combiner(mode)
    settings = Settings(ServerSettings(combiner), SYNC_INTERVAL, mode)
    training = Coordinator(
        "run",
        ParameterServer().trainer(TrainerSetup(model.layout, model.read(), settings)),
        settings,
        publish=lambda event: None,
        locate=lambda task: ("driver", "here"),
        on_failure=lambda: None,
    )
    training.begin_span(ArraySource(data, workers), 0, EPOCHS - 1)
    served = Served(training)
    plan = Plan("run", seed, True, BATCH_SIZE, len(data), policy)

    def work(number: int, runner: Any) -> None:
        runner.reset()
        connection = connect_inproc(served.listener)
        try:
            join = Join("run", number, 0, number, "here", number, segment="", metrics=[])
            moves = exchange(connection, model.layout, WorkerContext(join, new_secret()))
            Worker(connection, moves, runner, plan, join).run([])
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(loaded)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    served.listener.close()
    if training.error is not None:
        raise training.error
    return training.parameters.read()[0]


def cost(model: Program, runner: Any) -> Row:
    """Measure what it takes a worker to reset its optimizer state."""
    took = []
    for _ in range(TIMES):
        began = perf_counter()
        runner.reset_optimizer_state()
        took.append(perf_counter() - began)
    parts = {"tensors": str(len(model.optimizer_state))}
    return Row("2NN: a worker resets Adam's state", 1e3 * median(took), "ms", "", parts, TIMES)


def run(quick: bool) -> list[Row]:
    """Train with each policy, sync mode, number of workers and seed, one after the other."""
    data, (x_test, y_test) = mnist()
    seeds = range(1 if quick else 2)
    models = [captured(seed) for seed in seeds]
    archive = models[0].export([(c.dtype, c.shape) for c in describe(data)])
    loaded = runners(archive, 4 if quick else 10)
    rows = [cost(models[0], loaded[0])]
    first = [model.read() for model in models]
    for sync in SYNCS:
        for workers in (4,) if quick else (4, 10):
            for policy in POLICIES:
                found = []
                for seed, model, initial in zip(seeds, models, first, strict=True):
                    model.write(initial)
                    trained = train(model, loaded[:workers], data, sync, policy, seed)
                    model.write(trained)
                    found.append(model.evaluate([x_test, y_test], 1000)["accuracy"])
                rule = ParameterServer().default_combiner(as_sync(sync)).name
                name = f"{sync}, {rule}, {workers} workers: {policy}"
                parts = {"seeds": " ".join(f"{accuracy:.4f}" for accuracy in found)}
                rows.append(Row(name, mean(found), "", "", parts, len(found)))
    return rows


if __name__ == "__main__":
    program(run, __doc__)
