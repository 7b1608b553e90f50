"""What TensorFlowOnSpark runs in Spark's tasks, by the names that its programs may know."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import WorkerEnvironment
from ..nodes.body import Main
from ..nodes.context import NodeContext
from ..nodes.keeper import Keeper
from ..nodes.plan import NodePlan, ServerAddress, spec_of
from ..nodes.tasks import FeedRows, StartNode
from ..readable import counted
from . import gpu_info
from .util import requested_gpus

logger = logging.getLogger(__name__)

TFNodeContext = NodeContext

VISIBLE = "CUDA_VISIBLE_DEVICES"

_KUBERNETES = "SPARK_EXECUTOR_POD_IP"
"""Set in Spark's pods, where the device plug-in may show GPUs that are another pod's."""


def _has_spark_resource_api() -> bool:
    """Return whether Spark tells tasks of their GPUs; all that are supported do."""
    return True


def _get_cluster_spec(sorted_cluster_info: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the nodes' addresses by their jobs."""
    return spec_of(sorted_cluster_info)


@dataclass(frozen=True)
class GpuClaim:
    """Chooses the GPUs that a node may see.

    Those that Spark has given the task, else, where the host has some, as many as ``num_gpus`` of
    the arguments says, or one. Nodes of one host get different ones.

    Parameters
    ----------
    requested : int or None
        ``num_gpus`` of the program's arguments, if it is there.
    option : str
        What the user calls that number.
    """

    requested: int | None = None
    option: str = "num_gpus"

    def __call__(
        self, job: str, index: int, cluster: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, str]:
        """Return the environment for a node; this process may be the notebook's, and keeps its own.

        Parameters
        ----------
        job, index : str, int
            The node's.
        cluster : sequence of mapping
            What all nodes have said of themselves; nothing before that is known.

        Raises
        ------
        WorkerEnvironment
            There are fewer GPUs than requested.
        """
        found = self._of_spark()
        if not found and _KUBERNETES not in os.environ and gpu_info.is_gpu_available():
            wanted = 1 if self.requested is None else self.requested
            if wanted > 0:
                place = _place(job, index, _get_cluster_spec(cluster)) if cluster else 0
                found = list(gpu_info.get_gpus(wanted, place, format=gpu_info.AS_LIST))
        if self.requested is not None and len(found) < self.requested:
            raise WorkerEnvironment(
                f"{self.option}: expected {counted(self.requested, 'GPU')} for {job}:{index}, got "
                f"{len(found)}. Ask Spark for them (spark.task.resource.gpu.amount), or lower "
                f"{self.option}."
            )
        return {VISIBLE: ",".join(found)}

    def _of_spark(self) -> list[str]:
        if not _has_spark_resource_api():
            return []
        from pyspark import TaskContext

        context = TaskContext.get()
        resources = context.resources() if context else {}
        given = list(resources["gpu"].addresses) if resources and "gpu" in resources else []
        return given if self.requested is None else given[: self.requested]


def _place(job: str, index: int, spec: Mapping[str, Sequence[str]]) -> int:
    """Return which of the nodes of its host a node is."""
    own = spec[job][index]
    host = own.rpartition(":")[0]
    every = [node for nodes in spec.values() for node in nodes]
    return [node for node in every if node.rpartition(":")[0] == host].index(own)


@dataclass(frozen=True)
class _Start:
    plan: NodePlan
    fn: Main
    tf_args: Any
    background: bool

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        claim = GpuClaim(requested_gpus(self.tf_args))
        if "pyspark.worker" in sys.modules:
            yield from StartNode(self.plan, self.fn, self.tf_args, claim, self.background)(numbers)
            return
        for number in numbers:
            Keeper(self.plan, number, self.fn, self.tf_args, claim, fork=False).run_here()
            yield number


def run(
    fn: Callable[[Any, NodeContext], object],
    tf_args: Any,
    cluster_meta: Mapping[str, Any],
    tensorboard: bool,
    log_dir: str | None,
    queues: Sequence[str],
    background: bool,
) -> Callable[[Iterable[int]], list[int]]:
    """Return the function for Spark that runs a node of a given number.

    Parameters
    ----------
    fn : callable
        The user's function of (args, context).
    tf_args : object
        For it.
    cluster_meta : mapping
        ``cluster_template``, ``default_fs``, ``working_dir``, ``server_addr``, ``release_port``.
    tensorboard : bool
        Whether the first worker shows TensorBoard.
    log_dir : str or None
        The folder that TensorBoard shows.
    queues : sequence of str
        Names of the node's queues.
    background : bool
        Whether the task ends while the node runs.
    """
    server: ServerAddress = cluster_meta["server_addr"]
    plan = NodePlan(
        server=server,
        template=cluster_meta["cluster_template"],
        default_fs=cluster_meta["default_fs"],
        working_dir=cluster_meta["working_dir"],
        queues=tuple(queues),
        release_port=bool(cluster_meta.get("release_port", True)),
        tensorboard=tensorboard,
        log_dir=log_dir,
    )
    start = _Start(plan, fn, tf_args, background)
    return lambda numbers: list(start(numbers))


def train(
    cluster_info: Any,
    cluster_meta: Mapping[str, Any],
    feed_timeout: float = 600,
    qname: str = "input",
) -> FeedRows:
    """Return the function for Spark that feeds nodes the rows of a partition.

    Parameters
    ----------
    cluster_info : object
        Not needed: the driver tells each task which node to feed.
    cluster_meta : mapping
        ``server_addr``.
    feed_timeout : float
        Seconds in which a node takes no row, after which it gives up.
    qname : str
        The nodes' queue.
    """
    return FeedRows(cluster_meta["server_addr"], qname, timeout=feed_timeout)
