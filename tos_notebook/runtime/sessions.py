"""Train a TF1-style graph in a session of a worker, on variables of TensorFlow's servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..archive.runner import Trained, TrainedRows
from ..archive.stack_frames import Frames, nodes_in
from ..common.arrays import Array, Arrays
from ..errors import LocalProtocolError, TransportError
from ..readable import summary
from .import_guard import without_keras
from .served_graph import REUSE, WORKER, PackedGraph, accumulator, connect, task_of

with without_keras():
    import tensorflow as tf

_servers: list[Any] = []
"""This process's own server, which TensorFlow cannot end."""


def own_server(cores: int) -> int:
    """Return the port of this process's TensorFlow server, which is started once.

    Parameters
    ----------
    cores : int
        Cores of one task.
    """
    if not _servers:
        os.environ[REUSE] = "1"
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=cores)
        _servers.append(tf.distribute.Server.create_local_server(config))
    return int(_servers[0].target.rpartition(":")[2])


class GraphRunner:
    """Runs a graph's train operation; see `tos_notebook.archive.runner.SessionRunner`.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.graph.packed` wrote.
    cores : int
        Cores of one task.
    """

    def __init__(self, archive: Path, cores: int) -> None:
        self._packed = PackedGraph(archive)
        self.spec = self._packed.spec
        self._cores = cores
        self._connected: tuple[Any, ...] = ()
        self._session: Any = None
        self._fed: dict[str, Any] = {}
        self._fetches: list[Any] = []

    def connect(self, servers: Sequence[str], host: str, partition: int) -> int:
        """See `SessionRunner.connect`."""
        place, port = (tuple(servers), host, partition), own_server(self._cores)
        if place == self._connected:
            return port
        self.reset()
        worker = f"{host}:{port}"
        graph = tf.Graph()
        device = f"/job:{WORKER}/task:{task_of(worker)}"
        with graph.as_default(), tf.device(device):
            self._build(len(servers), partition, device)
        with _reaching(servers):
            self._session = connect(graph, servers, worker)
        self._connected = place
        return port

    def _build(self, servers: int, partition: int, device: str) -> None:
        packed, parts = self._packed, self._packed.parts
        self._fed = packed.placeholders()
        needed = {*parts.needed, *parts.variables} if parts.gradients else parts.needed
        packed.add(needed, self._fed, servers, device)
        graph = tf.compat.v1.get_default_graph()
        found = [self._fed.get(n, None) for n in parts.outputs]
        outputs = [
            graph.get_tensor_by_name(name) if tensor is None else tensor
            for name, tensor in zip(parts.outputs, found, strict=True)
        ]
        runs = [graph.get_operation_by_name(name) for name in parts.runs]
        for variable, name in parts.gradients.items():
            gradient = graph.get_tensor_by_name(name)
            waits = accumulator(packed, variable, partition, servers)
            runs.append(waits.apply_grad(gradient, local_step=np.iinfo(np.int64).max))
        self._fetches = [outputs, runs]

    def load(self) -> None:
        """See `Runner.load`."""

    def train(self, vectors: Sequence[Array], columns: Sequence[Array], batch_size: int) -> Trained:
        """Run the train operation on each batch."""
        parts, rows = self._packed.parts, len(columns[0])
        if self._session is None:
            raise LocalProtocolError("Expected to be connected to TensorFlow's servers first.")
        sums = np.zeros(len(parts.outputs))
        constant = {self._fed[name]: value for name, value in self._packed.constants.items()}
        with _reaching(self._connected[0]):
            for start in range(0, rows, batch_size):
                batch = [column[start : start + batch_size] for column in columns]
                feed = {self._fed[name]: b for name, b in zip(parts.feeds, batch, strict=True)}
                values, _ = self._session.run(self._fetches, feed | constant)
                sums += np.asarray(values, np.float64) * len(batch[0])
        return Trained([], dict(zip(self.spec.outputs, (sums / rows).tolist(), strict=True)))

    def train_rows(
        self, vectors: Arrays, moved: Sequence[Array | None], columns: Arrays, batch_size: int
    ) -> TrainedRows | None:
        """See `Runner.train_rows`."""
        return None

    def explain(self, error: BaseException) -> tuple[str, list[str]] | None:
        """See `Runner.explain`."""
        if not isinstance(error, tf.errors.OpError):
            return None
        frames = Frames(self._packed.frames)
        nodes = nodes_in(error.message)
        found = next(filter(None, (frames.of(name) for name in nodes)), [])
        return summary(error), found or [frames.place(name, "?") for name in nodes[:1]]

    def set_learning_rate(self, value: float) -> None:
        """See `Runner.set_learning_rate`: the driver sets the variable, which all workers share."""

    def reset(self) -> None:
        """See `Runner.reset`: nothing is local but the session."""
        # Not closed: it would wait for servers that may have ended with their run.
        self._session, self._connected = None, ()

    def reset_optimizer_state(self) -> None:
        """See `Runner.reset_optimizer_state`: it is not on the worker."""

    def reset_non_finite_state(self) -> None:
        """See `Runner.reset_non_finite_state`: it is not on the worker."""

    def updater(self) -> NoReturn:
        """See `Runner.updater`: the driver has it."""
        raise LocalProtocolError("Expected a program that was exported for gradients.")

    def advance(
        self,
        vectors: Sequence[Array],
        means: Sequence[Array],
        columns: Sequence[Array],
        batch_size: int,
    ) -> None:
        """See `Runner.advance`: it cannot."""


@contextmanager
def _reaching(servers: Sequence[str]) -> Iterator[None]:
    """Say which servers are meant where one does not answer."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError) as error:
        raise TransportError(
            f"TensorFlow's servers at {', '.join(servers)}, which have the variables, do not "
            f"answer: {summary(error)}"
        ) from error
