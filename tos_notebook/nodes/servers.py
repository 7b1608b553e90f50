"""Idle TensorFlow servers on Spark's executors, for programs that drive them from here."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from itertools import count, islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..cluster.connect import running_context
from ..cluster.executors import contact_host
from ..common.checks import with_known_options
from ..errors import ConfigError, WaitTimeout
from ..transport.sockets import is_loopback
from .cluster import NodeCluster
from .context import NodeContext
from .plan import ClusterOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPOSED = (
    "TensorFlow's servers neither encrypt nor authenticate: anyone who reaches a node can run "
    "code there."
)

_JOB = re.compile("[A-Za-z][A-Za-z0-9_]*")
"""Names of jobs with which TensorFlow's server does not end its process."""

SERVED = 60.0
"""Seconds for TensorFlow to start its server in each node."""


class TensorFlowCluster:
    """TensorFlow servers on Spark's executors. A context manager; leaving it ends them.

    Parameters
    ----------
    cluster : NodeCluster
        Whose nodes run a server each.

    Attributes
    ----------
    spec : dict of str to list of str
        The servers' addresses by their jobs, as host:port. It is what
        ``tf.train.ClusterSpec`` takes.
    """

    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self.spec = cluster.spec

    def target(self, job: str, index: int = 0) -> str:
        """Return a server's address for a session, such as ``grpc://127.0.0.1:41234``.

        Parameters
        ----------
        job : str
        index : int
            Of the task, from 0.

        Raises
        ------
        ConfigError
            There is no such server.
        WorkerError
            One was lost: a session would wait for it without an end.
        """
        self._cluster.check()
        return self._cluster.target(job, index)

    def check(self) -> None:
        """Raise WorkerError if a server was lost."""
        self._cluster.check()

    def close(self) -> None:
        """End the servers; may be repeated."""
        self._cluster.stop()

    def __enter__(self) -> TensorFlowCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TensorFlowCluster({self.spec})"


@with_known_options
def tensorflow_cluster(
    spark: SparkSession,
    jobs: Mapping[str, int],
    *,
    insecure_network: bool = False,
    timeout: float = 120.0,
) -> TensorFlowCluster:
    """Start TensorFlow servers on Spark's executors; return when all of them serve.

    They leave their tasks' slots to other Spark jobs.

    Parameters
    ----------
    spark : SparkSession
    jobs : mapping of str to int
        How many tasks each job has, such as ``{"ps": 1, "worker": 2}``.
    insecure_network : bool
        Whether the servers may listen beyond this host. TensorFlow's own protocol has neither
        encryption nor authentication.
    timeout : float
        Seconds for all nodes to begin.

    Raises
    ------
    ConfigError
        A job's name or number does not fit, or the servers would be open to a network.
    WaitTimeout
        Not all servers were there in time.
    WorkerError
        One has failed.
    """
    template = _template(jobs)
    sc = running_context(spark)
    host = contact_host(sc)
    if not insecure_network and not stays_here(host):
        raise ConfigError(f"{EXPOSED} Set insecure_network=True if only you reach that network.")
    options = ClusterOptions(template, feed=True, release_port=True, timeout=timeout)
    cluster = NodeCluster(sc, serve, None, options)
    try:
        _wait_until_served(cluster)
    except BaseException:
        cluster.stop()
        raise
    return TensorFlowCluster(cluster)


def _template(jobs: Mapping[str, int]) -> dict[str, list[int]]:
    numbers = count()
    template: dict[str, list[int]] = {}
    if not isinstance(jobs, Mapping):
        raise ConfigError(
            "jobs: expected names with numbers of tasks, such as {'ps': 1, 'worker': 2}; got "
            f"{jobs!r}."
        )
    for job, tasks in jobs.items():
        if not (isinstance(job, str) and _JOB.fullmatch(job)):
            raise ConfigError(
                "jobs: expected names of ASCII letters, digits and _ that begin with a letter, as "
                f"TensorFlow does, such as 'worker'; got {job!r}."
            )
        if type(tasks) is not int or tasks < 1:
            raise ConfigError(
                "jobs: expected names with numbers of tasks of at least 1, such as "
                f"{{'ps': 1, 'worker': 2}}; got {job!r}: {tasks!r}."
            )
        template[job] = list(islice(numbers, tasks))
    if not template:
        raise ConfigError("jobs: expected at least one job, such as {'worker': 2}; got none.")
    return template


def stays_here(host: str) -> bool:
    """Whether nodes that reach the driver at this address are on its own machine."""
    with suppress(ValueError):
        return is_loopback(host)
    return host == "localhost"


def serve(args: Any, context: NodeContext) -> None:
    """Run a TensorFlow server until the node is ended."""
    _, server = context.start_cluster_server()
    threading.Event().wait()
    del server


def _wait_until_served(cluster: NodeCluster) -> None:
    deadline, pause = monotonic() + SERVED, threading.Event()
    for addresses in cluster.spec.values():
        for address in addresses:
            while not _answers(address):
                cluster.check()
                if monotonic() > deadline:
                    raise WaitTimeout(
                        f"Expected TensorFlow's server at {address} within {SERVED:g} s. Does the "
                        "driver reach that host?"
                    )
                pause.wait(0.05)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), 1.0):
        return True
    return False
