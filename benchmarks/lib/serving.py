"""A server with a run of one tensor, which processes of their own join as workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np

from tos_notebook.combiners import as_combiner
from tos_notebook.coordination.coordinator import Coordinator
from tos_notebook.coordination.server import RunServer
from tos_notebook.coordination.settings import Settings
from tos_notebook.data.arrays import ArraySource
from tos_notebook.layout import Layout, ParameterSpec
from tos_notebook.strategies.base import TrainerSetup
from tos_notebook.strategies.ps.settings import ServerSettings
from tos_notebook.strategies.ps.strategy import ParameterServer
from tos_notebook.telemetry.bus import EventBus, Sink
from tos_notebook.telemetry.history import History
from tos_notebook.transport.auth import Secret

RUN = "benchmark"


@contextmanager
def serving(
    nbytes: int, workers: int, secret: Secret, *sinks: Sink, tls: bool = False
) -> Iterator[tuple[RunServer, Coordinator]]:
    """Serve a run of so many bytes of parameters, with a partition for each worker."""
    layout = Layout([ParameterSpec("parameters", (nbytes // 4,), "float32")])
    settings = Settings(ServerSettings(as_combiner("downpour")), 10)
    with (
        EventBus([History(), *sinks]) as bus,
        closing(RunServer(secret, "127.0.0.1", 0, tls=tls)) as server,
    ):
        training = Coordinator(
            RUN,
            ParameterServer().trainer(TrainerSetup(layout, layout.allocate(), settings)),
            settings,
            publish=bus.publish,
            locate=lambda task: ("driver", "127.0.0.1"),
            on_failure=lambda: None,
        )
        training.begin_span(ArraySource([np.zeros((workers, 1))], workers), 0, 0)
        server.serve(training)
        yield server, training
