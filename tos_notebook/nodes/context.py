"""What a node's function is told of itself and of the cluster."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from ..errors import UnsupportedProgram
from .feed import DataFeed
from .hub import Hub
from .peers import Peers

logger = logging.getLogger(__name__)

LEADERS = ("master", "chief")
"""Jobs whose only task leads the workers; TensorFlow reads ``TF_CONFIG`` where there is one."""

TRAINING = (*LEADERS, "worker")
"""Jobs that train."""

_SCHEMES = tuple(
    f"{name}://"
    for name in (
        *("abfs", "abfss", "adl", "file", "gs", "hdfs", "oss"),
        *("s3", "s3a", "s3n", "swift", "viewfs", "wasb", "wasbs"),
    )
)


class Places(Protocol):
    """What `absolute_path` has to know."""

    defaultFS: str  # noqa: N815
    working_dir: str


def absolute_path(places: Places, path: str) -> str:
    """Return a path with its file system; see `NodeContext.absolute_path`."""
    if path.startswith(_SCHEMES):
        return path
    default = places.defaultFS
    if path.startswith("/"):
        return default + path
    if default.startswith(("hdfs://", "viewfs://")):
        return f"{default}/user/{getpass.getuser()}/{path}"
    if default.startswith("file://"):
        return f"{default}/{places.working_dir.lstrip('/')}/{path}"
    logger.warning("No home folder is known on %s: %s is taken from its root.", default, path)
    return f"{default}/{path}"


class NodeContext:
    """Describes a node of a TensorFlow cluster to the function that runs there.

    Parameters
    ----------
    executor_id : int
        The node's number, from 0. ``worker_num`` is the same.
    job_name : str
        ``"ps"``, ``"worker"``, ``"chief"``, ``"master"`` or ``"evaluator"``.
    task_index : int
        Among the nodes of its job, from 0.
    cluster_spec : mapping of str to sequence of str
        The addresses of all nodes, as host:port, by their jobs.
    defaultFS : str
        The default file system of Hadoop, such as ``hdfs://host:8020``.
    working_dir : str
        The folder that the driver was started in.
    mgr : Hub
        The node's queues.
    tmp_socket : socket, optional
        Keeps the node's port from all other processes until `release_port`; None where
        TensorFlow's server may share it.

    Attributes
    ----------
    num_workers : int
        Nodes that train, the chief included.
    peers : Peers or None
        How the node agrees with others on steps; see `DataFeed.synchronized_batches`.
    """

    peers: Peers | None = None

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: Mapping[str, Sequence[str]] | None = None,
        defaultFS: str = "file://",  # noqa: N803
        working_dir: str = ".",
        mgr: Hub | None = None,
        tmp_socket: socket.socket | None = None,
    ) -> None:
        self.worker_num = self.executor_id = executor_id
        self.job_name, self.task_index = job_name, task_index
        self.cluster_spec = {job: list(nodes) for job, nodes in (cluster_spec or {}).items()}
        self.num_workers = sum(len(self.cluster_spec.get(job, ())) for job in TRAINING)
        self.defaultFS, self.working_dir = defaultFS, working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket

    def absolute_path(self, path: str) -> str:
        """Return a path with its file system, which is the default one unless it names another.

        Parameters
        ----------
        path : str
            One that does not begin with ``/`` is in the user's home folder on HDFS, and in the
            driver's working folder elsewhere.
        """
        return absolute_path(self, path)

    def get_data_feed(
        self,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: Mapping[str, str] | None = None,
    ) -> DataFeed:
        """Return what reads the rows that Spark feeds this node.

        Parameters
        ----------
        train_mode : bool
            Whether nothing is given back.
        qname_in, qname_out : str
            Queues to read rows from, and to give results back by.
        input_mapping : mapping of str to str, optional
            From columns to tensors; see `DataFeed`.
        """
        feed = DataFeed(self.mgr or Hub(), train_mode, qname_in, qname_out, input_mapping)
        feed.peers = self.peers
        return feed

    def release_port(self) -> None:
        """Let other processes have the node's port, which is kept for it until now."""
        if self.tmp_socket is None:
            logger.warning("release_port() was called, but no port is kept from TensorFlow.")
            return
        self.tmp_socket.close()
        self.tmp_socket = None

    def export_saved_model(
        self, sess: Any, export_dir: str, tag_set: str, signatures: Mapping[str, Any]
    ) -> NoReturn:
        """Say what to call instead: TensorFlow 2 saves models itself.

        Raises
        ------
        UnsupportedProgram
            Always.
        """
        raise UnsupportedProgram(
            "export_saved_model was for TensorFlow 1. Use tf.saved_model.save, model.export, or "
            "tf.compat.v1.saved_model.simple_save for a session."
        )

    def __repr__(self) -> str:
        return f"NodeContext({self.job_name}:{self.task_index}, {self.cluster_spec})"

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> Any:
        """Start the node's TensorFlow server; return the cluster's specification and it.

        Parameters
        ----------
        num_gpus : int
            Ignored: the node sees the GPUs that Spark has given it.
        rdma : bool
            No longer supported by TensorFlow.
        """
        import tensorflow as tf

        if self.tmp_socket is not None:
            self.release_port()
        spec = tf.train.ClusterSpec(self.cluster_spec)
        server = tf.distribute.Server(spec, job_name=self.job_name, task_index=self.task_index)
        return spec, server
