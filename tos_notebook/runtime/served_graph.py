"""Build the graphs of sessions whose variables are on TensorFlow's servers."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..archive.served_graph import CONSTANTS, GRAPH_FILE, PARTS_FILE, VARIABLES, ServedGraph
from ..archive.spec import read_spec
from ..archive.stack_frames import FRAMES_FILE
from ..common.arrays import Array
from .import_guard import without_keras

with without_keras():
    import tensorflow as tf
    from tensorflow.core.framework.tensor_pb2 import TensorProto

v1 = tf.compat.v1

PS, WORKER = "ps", "worker"
"""Names of TensorFlow's jobs."""

REUSE = "TF_GRPC_REUSE_PORT"
"""What lets sockets that keep others out share the port of TensorFlow's server; see
`nodes.ports.shield`."""

ANSWER = 600_000
"""Milliseconds for an operation in a session."""


class PackedGraph:
    """What an archive holds of a TF1-style graph.

    Parameters
    ----------
    archive : Path
        What `tos_notebook.program.graph.packed` wrote.
    """

    def __init__(self, archive: Path) -> None:
        self.spec = read_spec(archive)
        with zipfile.ZipFile(archive) as packed:
            self.frames = packed.read(FRAMES_FILE)
            self.parts = ServedGraph.from_json(packed.read(PARTS_FILE))
            self._graph = v1.GraphDef.FromString(packed.read(GRAPH_FILE))
            self._values = [
                packed.read(f"{VARIABLES}/{index}") for index in range(len(self.parts.variables))
            ]
            names = range(len(self.parts.constants))
            read = [packed.read(f"{CONSTANTS}/{index}") for index in names]
        self.constants = dict(zip(self.parts.constants, map(_array, read), strict=True))
        self._turns = self._share_out()

    def _share_out(self) -> dict[str, int]:
        """Return whose turn each variable is; those that one operation takes are on one server."""
        with_it = {name: {name} for name in self.parts.variables}
        for node in self._graph.node:
            taken = [name.partition(":")[0] for name in node.input]
            together = set().union(*(with_it.get(name, ()) for name in taken))
            with_it.update(dict.fromkeys(together, together))
        groups: list[set[str]] = []
        for group in with_it.values():
            if group not in groups:
                groups.append(group)
        return {name: groups.index(group) for name, group in with_it.items()}

    def values(self) -> dict[str, Array]:
        """Return the values that the variables were captured with."""
        return dict(zip(self.parts.variables, map(_array, self._values), strict=True))

    def device(self, variable: str, servers: int) -> str:
        """Return the server that has a variable, and its optimizer's state: they take turns."""
        return f"/job:{PS}/task:{self._turns[variable] % servers}"

    def add(
        self,
        names: Iterable[str],
        given: Mapping[str, Any],
        servers: int,
        device: str,
    ) -> None:
        """Add operations to the default graph, under their own names.

        Parameters
        ----------
        names : iterable of str
        given : mapping of str to tf.Tensor
            What takes the place of tensors.
        servers : int
        device : str
            Of those that need not be next to a variable.
        """
        kept, variables = set(names), set(self.parts.variables)
        nodes = []
        for node in self._graph.node:
            if node.name in kept:
                copied = type(node)()
                copied.CopyFrom(node)
                near = node.name if node.name in variables else self.parts.places.get(node.name)
                copied.device = device if near is None else self.device(near, servers)
                copied.input[:] = [i for i in node.input if not i.startswith("^") or i[1:] in kept]
                nodes.append(copied)
        used = {i if ":" in i else f"{i}:0" for node in nodes for i in node.input}
        graph = v1.GraphDef(node=nodes, versions=self._graph.versions, library=self._graph.library)
        mapped = {name: tensor for name, tensor in given.items() if name in used}
        tf.import_graph_def(graph, mapped, name="")

    def placeholders(self) -> dict[str, Any]:
        """Return what stands for feeds and constants in the default graph, by name."""
        feeds = dict(zip(self.parts.feeds, self.spec.feeds, strict=True))
        made = {
            name: v1.placeholder(spec.dtype, None if spec.shape is None else [None, *spec.shape])
            for name, spec in feeds.items()
        }
        for name, value in self.constants.items():
            made[name] = v1.placeholder(value.dtype, value.shape)
        return made


def task_of(worker: str) -> int:
    """Return the number of a worker's task, by its address.

    No two workers have one, though none knows the others: servers would take them for the same.
    """
    return zlib.crc32(worker.encode()) >> 1


def connect(graph: Any, servers: Sequence[str], worker: str | None = None) -> Any:
    """Return a session of a graph, on servers and perhaps a worker that know nothing of each other.

    Parameters
    ----------
    graph : tf.Graph
    servers : sequence of str
        Those with the variables, as host:port.
    worker : str, optional
        This process's own server.
    """
    jobs: dict[str, Any] = {PS: list(servers)}
    if worker is not None:
        jobs[WORKER] = {task_of(worker): worker}
    config = v1.ConfigProto(
        cluster_def=tf.train.ClusterSpec(jobs).as_cluster_def(),
        allow_soft_placement=True,
        operation_timeout_in_ms=ANSWER,
    )
    # Each worker tells the servers where it is itself. All work on the same variables.
    config.experimental.share_session_state_in_clusterspec_propagation = True
    return v1.Session(f"grpc://{worker or servers[0]}", graph, config)


def reader_of(op: Any) -> Any:
    """Return the value of a variable, by its operation."""
    if op.type == "VarHandleOp":
        return tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=op.get_attr("dtype"))
    return tf.identity(op.outputs[0])


def writer_of(op: Any) -> tuple[Any, Any]:
    """Return a placeholder, and the operation that assigns it to a variable."""
    value = v1.placeholder(op.get_attr("dtype"), op.get_attr("shape"))
    if op.type == "VarHandleOp":
        return value, tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value)
    return value, tf.raw_ops.Assign(ref=op.outputs[0], value=value).op


def accumulator(packed: PackedGraph, variable: str, partition: int, servers: int) -> Any:
    """Return where the gradients of a variable wait that come from one partition's worker."""
    initial = dict(zip(packed.parts.variables, packed.spec.layout.specs, strict=False))[variable]
    with tf.device(packed.device(variable, servers)):
        return v1.ConditionalAccumulator(
            initial.dtype, initial.shape, shared_name=f"tos/{variable}/{partition}"
        )


def _array(proto: bytes) -> Array:
    made: Array = tf.make_ndarray(TensorProto.FromString(proto))
    return made
