"""What a cluster is to be, and what each of its nodes has to know before it begins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..transport.auth import Secret


class ServerAddress(tuple[str, int]):
    """Host and port of the driver's server for nodes, with what proves both sides to each other.

    It is a pair as any other. What else it carries is pickled with it, and never printed.
    """

    secret: Secret
    fingerprint: bytes | None

    @classmethod
    def of(cls, host: str, port: int, secret: Secret, fingerprint: bytes | None) -> ServerAddress:
        """Return the address of a server."""
        address = cls((host, port))
        address.secret, address.fingerprint = secret, fingerprint
        return address

    def __reduce__(self) -> tuple[Any, ...]:
        return ServerAddress.of, (self[0], self[1], self.secret, self.fingerprint)


@dataclass(frozen=True)
class ClusterOptions:
    """How a cluster is to be.

    Attributes
    ----------
    template : mapping of str to sequence of int
        The numbers of its nodes by their jobs.
    feed : bool
        Whether Spark's tasks feed it rows: nodes then leave their tasks' slots to these.
    queues : sequence of str
        Names of the nodes' queues.
    release_port : bool
        See `NodePlan`.
    tensorboard, log_dir
        See `NodePlan`.
    timeout : float
        Seconds for all nodes to begin.
    restarts : int
        How often the whole cluster begins again after a node has failed or was lost. Its function
        restores what it has saved, and the rows of the last `feed` come once more.
    """

    template: Mapping[str, Sequence[int]]
    feed: bool = False
    queues: Sequence[str] = ("input", "output", "error")
    release_port: bool = True
    tensorboard: bool = False
    log_dir: str | None = None
    timeout: float = 600.0
    restarts: int = 0
    shown: bool = False
    """Whether the caller shows notes and what nodes print: this process need not, too."""
    local: Sequence[int] = field(default=())
    """Numbers of nodes that run in the driver's own machine."""

    @property
    def numbers(self) -> list[int]:
        """The numbers of all nodes, in order."""
        return sorted(itertools.chain.from_iterable(self.template.values()))


@dataclass(frozen=True)
class NodePlan:
    """A cluster to be, as each of its nodes knows it.

    Attributes
    ----------
    server : ServerAddress
        The driver's.
    template : mapping of str to sequence of int
        The numbers of nodes by their jobs.
    default_fs, working_dir : str
        See `NodeContext`.
    queues : sequence of str
        Names of the node's queues.
    release_port : bool
        Whether TensorFlow's server may share the node's port; else the node's function calls
        ``ctx.release_port()`` before it binds the port.
    ports : (int, int)
        The ports that nodes may listen on; 0 for any.
    tensorboard : bool
        Whether the first worker shows TensorBoard.
    log_dir : str or None
        The folder that TensorBoard shows.
    start : int
        How often the cluster has begun again.
    echo : bool
        Whether what nodes print goes to their executors' logs, too.
    """

    server: ServerAddress
    template: Mapping[str, Sequence[int]]
    default_fs: str = "file://"
    working_dir: str = "."
    queues: Sequence[str] = ("input", "output", "error")
    release_port: bool = True
    ports: tuple[int, int] = (0, 0)
    tensorboard: bool = False
    log_dir: str | None = None
    start: int = 0
    echo: bool = True

    def task_of(self, number: int) -> tuple[str, int]:
        """Return job and task of a node; ``("default", -1)`` if it belongs to no job."""
        for job, numbers in self.template.items():
            if number in numbers:
                return job, list(numbers).index(number)
        return "default", -1


def spec_of(cluster: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the addresses of a cluster's nodes by their jobs, in the nodes' order.

    Parameters
    ----------
    cluster : sequence of mapping
        What all nodes have said of themselves, sorted by ``executor_id``.
    """
    spec: dict[str, list[str]] = {}
    for node in cluster:
        spec.setdefault(node["job_name"], []).append(f"{node['host']}:{node['port']}")
    return spec
