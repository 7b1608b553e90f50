"""A TensorFlow cluster that runs beside the notebook: it is fed, watched and ended."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..cluster.jobs import named
from ..common.threads import in_thread
from ..errors import ClusterUnreachable, TosError, WaitTimeout, WorkerError
from .body import Main
from .cluster import NodeCluster
from .failure import frames_of
from .gpus import claim_of_spark
from .keeper import Claim
from .plan import ClusterOptions
from .sendable import check_sendable
from .snapshot import LAST_LINES, ClusterFailure, ClusterState, FeedState, NodeState

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

logger = logging.getLogger(__name__)

STARTING, RUNNING, STOPPING, FINISHED, STOPPED, FAILED = (
    "starting",
    "running",
    "stopping",
    "finished",
    "stopped",
    "failed",
)

STOP = 30.0
"""Seconds for a cluster to be gone, once it was told to stop."""

Seen = dict[tuple[int, str], int]
"""How many lines were read of each node since each of the cluster's starts."""


@dataclass(frozen=True)
class Feeding:
    """What a cluster is fed.

    Parameters
    ----------
    rows : RDD
    name : str
        The data's name, for people.
    epochs : int
        How often all rows are fed.
    timeout : float
        Seconds in which a node takes no row, after which it gives up.
    """

    rows: RDD[Any]
    name: str
    epochs: int = 1
    timeout: float = 600.0


class ClusterRun:
    """A TensorFlow cluster on Spark's executors that runs beside what started it.

    It ends by itself when the functions of all workers have ended.

    Parameters
    ----------
    sc, main, args, options
        See `NodeCluster`.
    feeding : Feeding, optional
        What the nodes are fed.
    claim : callable, optional
        See `keeper.Claim`; by default a node sees the GPUs that Spark has given its task.

    Raises
    ------
    UnsupportedProgram
        The function or its arguments cannot be sent to executors.
    TosError
        Executors lack what nodes need, or the driver cannot listen.
    """

    def __init__(
        self,
        sc: SparkContext,
        main: Main,
        args: Any,
        options: ClusterOptions,
        feeding: Feeding | None = None,
        claim: Claim = claim_of_spark,
    ) -> None:
        check_sendable(main, args)
        self.id = uuid4().hex
        self._began, self._ended = time.time(), 0.0
        self._feeding = feeding
        self._epoch, self._fed = 0, False
        self._partitions = 0
        self._state, self._over = STARTING, False
        self._error: TosError | None = None
        options = replace(options, shown=True)
        self._cluster = NodeCluster(sc, main, args, options, claim, wait=False)
        self._roster = self._cluster.roster
        in_thread(f"tos-cluster-run-{self.number}", self._run)

    @property
    def number(self) -> int:
        """Its number in this process, from 1."""
        return self._cluster.number

    @property
    def state(self) -> str:
        """How it stands; see `snapshot.ClusterState`."""
        return self._state

    @property
    def active(self) -> bool:
        """Whether some of it still runs."""
        return not self._over

    @property
    def spec(self) -> dict[str, list[str]]:
        """The addresses of its nodes by their jobs, as host:port."""
        return self._cluster.spec

    @property
    def nodes(self) -> list[NodeState]:
        """Its nodes as they stand."""
        return self.snapshot()["nodes"]

    def target(self, job: str, index: int = 0) -> str:
        """Return the address of a node for TensorFlow, such as ``grpc://10.0.0.7:41234``.

        Raises
        ------
        ConfigError
            There is no such node.
        """
        return self._cluster.target(job, index)

    def lines(self, job: str = "worker", index: int = 0) -> list[str]:
        """Return the last lines that a node has put out, some hundred at most."""
        with self._roster.changed:
            nodes = self._roster.nodes.values()
            return [line for n in nodes if n.name == f"{job}:{index}" for line in n.lines]

    def new_lines(self, seen: Seen) -> list[tuple[str, str]]:
        """Return what nodes have put out since the last call, as (node, line).

        Parameters
        ----------
        seen : Seen
            It is brought up to date.
        """
        found: list[tuple[str, str]] = []
        with self._roster.changed:
            start = self._roster.start
            for _, node in sorted(self._roster.nodes.items()):
                new = min(node.said - seen.get((start, node.name), 0), len(node.lines))
                found += [(node.name, line) for line in list(node.lines)[len(node.lines) - new :]]
                seen[start, node.name] = node.said
        return found

    def said(self, seen: Seen) -> bool:
        """Whether nodes have put out more than `seen`; see `new_lines`."""
        with self._roster.changed:
            nodes, start = self._roster.nodes.values(), self._roster.start
            return any(node.said > seen.get((start, node.name), 0) for node in nodes)

    def check(self) -> None:
        """Raise what has failed; the user's own line comes first.

        Raises
        ------
        TosError
        """
        if self._error is not None:
            raise self._error

    def wait(self, timeout: float | None = None) -> ClusterRun:
        """Wait for its end.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Raises
        ------
        TosError
            What has failed.
        WaitTimeout
            It still runs.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        # In turns, so that an interrupt gets through.
        while not self.wait_for_news(
            lambda: not self.active, min(1.0, deadline - time.monotonic())
        ):
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"Expected the end within {timeout} s, but it is {self._state}.")
        self.check()
        return self

    def wait_for_news(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for what may change with a node's news; return whether it came."""
        return self._roster.wait_for(condition, max(0.0, seconds))

    def stop(self, timeout: float = STOP) -> ClusterRun:
        """End all nodes, and wait until they have ended; may be repeated.

        Raises
        ------
        WaitTimeout
            They have not ended.
        """
        self.request_stop()
        if not self.wait_for_news(lambda: not self.active, timeout):
            raise WaitTimeout(f"Expected the nodes to end within {timeout:g} s; they still run.")
        return self

    def request_stop(self) -> None:
        """Let all nodes end, and return at once."""
        with self._roster.changed:
            if self._state in (STARTING, RUNNING):
                self._state = STOPPING
                # Nodes that do not answer are given up after a while.
                in_thread(f"tos-cluster-stop-{self.number}", self._cluster.stop)

    def __repr__(self) -> str:
        nodes = ", ".join(f"{each['name']} {each['state']}" for each in self.nodes)
        return f"<TensorFlow cluster {self.number}: {self._state}; {nodes}>"

    # -- its thread -------------------------------------------------------------------

    def _run(self) -> None:
        cluster, state = self._cluster, FINISHED
        try:
            cluster.wait_until_whole()
            self._enter(RUNNING)
            self._feed()
            cluster.wait(math.inf)
        except Exception as error:
            state = FAILED
            if self._state != STOPPING:
                self._fail(error)
        finally:
            try:
                cluster.stop()
            finally:
                self._end(STOPPED if self._state == STOPPING else state)

    def _feed(self) -> None:
        feeding = self._feeding
        if feeding is None:
            return
        self._partitions = feeding.rows.getNumPartitions()
        for epoch in range(1, feeding.epochs + 1):
            if self._roster.done:
                break
            self._epoch = epoch
            self._cluster.feed(feeding.rows, timeout=feeding.timeout)
        self._fed = True
        self._cluster.close_feed()

    def _enter(self, state: str) -> None:
        with self._roster.changed:
            if self._state == STARTING:
                self._state = state
            self._roster.wake()

    def _fail(self, error: Exception) -> None:
        with self._roster.changed:
            self._error = _named(error)
            self._state = FAILED
            self._roster.wake()

    def _end(self, state: str) -> None:
        with self._roster.changed:
            self._ended = time.time()
            self._state = state
            self._fed = self._over = True
            self._roster.wake()

    # -- as it stands -----------------------------------------------------------------

    def snapshot(self) -> ClusterState:
        """Return it as it stands."""
        with self._roster.changed:
            return {
                "id": self.id,
                "number": self.number,
                "state": self._state,
                "nodes": self._nodes(),
                "feed": self._feed_state(),
                "tensorboard": self._board(),
                "notes": list(self._roster.notes),
                "error": self._failure(),
                "elapsed": (self._ended or time.time()) - self._began,
            }

    def _nodes(self) -> list[NodeState]:
        template, found = self._cluster.options.template, list[NodeState]()
        for job, numbers in sorted(template.items(), key=lambda each: list(each[1])):
            for index, number in enumerate(numbers):
                node = self._roster.nodes.get(number)
                found.append(
                    {
                        "name": f"{job}:{index}",
                        "host": str(node.meta.get("host", "")) if node else "",
                        "state": node.state if node else "waiting",
                        "rows": node.rows if node else 0,
                        "gpus": node.gpus if node else "",
                        "lines": list(node.lines)[-LAST_LINES:] if node else [],
                    }
                )
        return found

    def _feed_state(self) -> FeedState | None:
        feeding = self._feeding
        if feeding is None:
            return None
        return {
            "data": feeding.name,
            "epoch": self._epoch,
            "epochs": feeding.epochs,
            "partitions": self._partitions,
            "fed": min(self._roster.partitions_fed, self._partitions),
            "over": self._fed,
        }

    def _board(self) -> str | None:
        for node in self._roster.cluster:
            if node.get("tb_port"):
                return f"http://{node['host']}:{node['tb_port']}"
        return None

    def _failure(self) -> ClusterFailure | None:
        error = self._error
        if error is None:
            return None
        failed = self._roster.failure
        if isinstance(error, WorkerError) and failed is not None:
            where = f"{failed.name} on {failed.meta.get('host', '?')}"
            return {"message": failed.message, "where": where, "frames": frames_of(failed)}
        return {"message": str(error), "where": None, "frames": []}


def _named(error: Exception) -> TosError:
    found = named(error)
    if isinstance(found, TosError):
        return found
    logger.error("A TensorFlow cluster has failed.", exc_info=error)
    return ClusterUnreachable(f"The cluster has failed: {type(error).__name__}: {error}")
