"""A server with a run of one tensor, which processes of their own join as workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from multiprocessing.process import BaseProcess

import numpy as np

from tos_notebook.codecs.pair import PLAIN
from tos_notebook.combiners import as_combiner
from tos_notebook.common.threads import in_thread
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import RunServer
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.telemetry.bus import EventBus, Sink
from tos_notebook.telemetry.history import History
from tos_notebook.transport.auth import Secret
from tos_notebook.transport.base import Endpoint
from tos_notebook.transport.dial import connect_tcp
from tos_notebook.worker.beside import SidePlace, SideTask

RUN = "benchmark"
HOST = "127.0.0.1"


def layout_of(nbytes: int) -> Layout:
    """Return the layout of one tensor of so many bytes."""
    return Layout([ParameterSpec("parameters", (nbytes // 4,), "float32")])


class Processes:
    """Starts tasks beside the workers, each in a process of its own; see `Beside`.

    Parameters
    ----------
    server : RunServer
        Which they call.
    secret : Secret
    """

    def __init__(self, server: RunServer, secret: Secret) -> None:
        self.services = server.services
        self._called = (*server.address, secret, server.fingerprint)
        self.started: list[BaseProcess] = []

    def start(self, task: SideTask, count: int) -> Future[None]:
        """See `Beside.start`."""
        context = multiprocessing.get_context("spawn")
        for number in range(count):
            given = (task, number, self._called)
            self.started.append(context.Process(target=_beside, args=given, daemon=True))
            self.started[-1].start()
        return in_thread("shards", self._wait)

    def _wait(self) -> None:
        for process in self.started:
            process.join()

    def cancel(self) -> None:
        """See `Beside.cancel`."""
        for process in self.started:
            process.kill()


def _beside(task: SideTask, number: int, called: tuple[str, int, Secret, bytes | None]) -> None:
    _, _, secret, fingerprint = called
    with closing(connect_tcp(*called, answer_timeout=120.0)) as connection:
        task(number, SidePlace(connection, secret, Endpoint(HOST, tls=fingerprint is not None)))


@contextmanager
def serving(
    nbytes: int,
    workers: int,
    secret: Secret,
    *sinks: Sink,
    tls: bool = False,
    shards: int = 0,
) -> Iterator[tuple[RunServer, Coordinator, Processes]]:
    """Serve a run of so many bytes of parameters, with a partition for each worker."""
    layout, strategy = layout_of(nbytes), ParameterServer(shards=shards)
    settings = Settings(strategy.settings(as_combiner("downpour"), PLAIN), 10)
    with (
        EventBus([History(), *sinks]) as bus,
        closing(RunServer(secret, HOST, 0, tls=tls)) as server,
    ):
        processes = Processes(server, secret)
        setup = TrainerSetup(layout, layout.allocate(), settings, beside=lambda: processes)
        training = Coordinator(
            RUN,
            strategy.trainer(setup),
            settings,
            publish=bus.publish,
            locate=lambda task: ("driver", HOST),
            on_failure=lambda: None,
        )
        try:
            training.begin_span(ArraySource([np.zeros((workers, 1))], workers), 0, 0)
            server.serve(training)
            yield server, training, processes
        finally:
            processes.cancel()
