"""A TensorFlow cluster on Spark's executors, as the driver holds it."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..cluster.environment import is_probed, warm_up
from ..cluster.executors import (
    contact_host,
    contact_port,
    encrypts_loopback,
    is_local,
    where_to_look,
    worker_ports,
)
from ..cluster.files import default_fs
from ..cluster.jobs import cancel, named, spare_jobs
from ..cluster.reach import listening_host
from ..errors import (
    ClusterUnreachable,
    ConfigError,
    SessionClosed,
    TosError,
    WaitTimeout,
)
from ..transport.base import Endpoint
from .body import Main
from .context import TRAINING
from .failure import node_error
from .feeder import Feeder
from .keeper import Claim, no_claim
from .plan import ClusterOptions, NodePlan, spec_of
from .roster import Node, Roster
from .server import NodeServer
from .starting import Starting
from .tasks import FeedRows

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

logger = logging.getLogger(__name__)

END = 10.0
"""Seconds for nodes to end, once they were told to."""

_numbers = itertools.count(1)


class NodeCluster:
    """A TensorFlow cluster on Spark's executors. A context manager; leaving it ends the nodes.

    Parameters
    ----------
    sc : SparkContext
    main : callable
        The function of (args, context) that runs in each node.
    args : object
        For it.
    options : ClusterOptions
    claim : callable
        See `keeper.Claim`.
    wait : bool
        Whether to return only when all nodes are there; else call `wait_until_whole`.

    Attributes
    ----------
    server : NodeServer
        What the nodes talk to.
    roster : Roster
        What is known of the nodes.

    Raises
    ------
    WorkerError
        A node has failed before all were there.
    WaitTimeout
        They were not there in time.
    ClusterUnreachable
        Spark could not start them.
    WorkerEnvironment
        Executors lack what nodes need.
    """

    def __init__(
        self,
        sc: SparkContext,
        main: Main,
        args: Any,
        options: ClusterOptions,
        claim: Claim = no_claim,
        wait: bool = True,
    ) -> None:
        spare_jobs()
        self.sc, self.options = sc, options
        self.number = next(_numbers)
        address = host, port = contact_host(sc), contact_port(sc)
        if not is_probed(sc, address):
            warm_up(sc, server=address)
        endpoint = Endpoint(listening_host(host), port, tls=encrypts_loopback(sc))
        ports, files = worker_ports(sc), default_fs(sc)
        self.roster = Roster(len(options.numbers))
        self.server = NodeServer(self.roster, endpoint, host, lambda: sc._jsc is None)
        self._feeder = Feeder(sc, self.roster, self.server.address)
        self._plan = NodePlan(
            server=self.server.address,
            template=dict(options.template),
            default_fs=files,
            working_dir=os.getcwd(),  # noqa: PTH109
            queues=tuple(options.queues),
            release_port=options.release_port,
            ports=ports,
            tensorboard=options.tensorboard,
            log_dir=options.log_dir,
            # The executor's log is this process's own there.
            echo=not (options.shown and is_local(sc)),
        )
        self._job: Future[None] = Future()
        self._local: list[Future[None]] = []
        self._given = main, args, claim
        self._fed: tuple[RDD[Any], str, float, int] | None = None
        self._feed_closed = self._closed = False
        self._lock, self._beginning = threading.Lock(), threading.Lock()
        try:
            self._begin()
            if wait:
                self.wait_until_whole()
        except BaseException:
            self.stop()
            raise

    def _begin(self, again: bool = False) -> None:
        """Start the nodes."""
        with self._lock:
            self._refuse_if_closed()
            if again:
                self.roster.begin_again()
            start = self.roster.start
            # Spark runs no job of a group that was cancelled.
            self._group = f"tos-tensorflow-cluster-{os.getpid()}-{self.number}-{start}"
            plan = replace(self._plan, start=start)
            starting = Starting(self.sc, self.options, plan, *self._given)
            if starting.note and not again:
                self.roster.note(starting.note, log=not self.options.shown)
            self._local = starting.here()
            self._job = starting.on_executors(f"TensorFlow cluster {self.number}", self._group)

    def _begin_again(self, start: int) -> bool:
        """Begin again if a node of this start has failed and that is allowed.

        Returns
        -------
        bool
            Whether it was so, by whichever thread.
        """
        with self._beginning:
            if self.roster.start != start:
                return True
            try:
                self.check()
            except TosError as error:
                if self._closed or start >= self.options.restarts:
                    raise
                which = f"{start + 1} of {self.options.restarts}"
                self.roster.note(
                    f"TensorFlow cluster {self.number} begins again ({which}): {error}"
                )
                self._end()
                self._begin(again=True)
                self.wait_until_whole()
                return True
            return False

    def wait_until_whole(self) -> None:
        """Wait until all nodes are there, or the cluster is stopped.

        Raises
        ------
        WorkerError, WaitTimeout, ClusterUnreachable
            See above.
        """
        roster = self.roster
        for each in (self._job, *self._local):
            each.add_done_callback(lambda _: roster.wake())

        def settled() -> bool:
            over = roster.stopping or self._failure is not None
            return over or roster.whole or self._error is not None

        if not roster.wait_for(settled, self.options.timeout):
            look = where_to_look(self.sc, None)
            raise WaitTimeout(
                f"Expected {roster.required} nodes within {self.options.timeout:g} s, but "
                f"{roster.registered} have come. {look}"
            )
        if not roster.whole:
            self.check()

    def check(self) -> None:
        """Raise what has failed.

        Raises
        ------
        WorkerError
            A node's function has failed, or a node was lost.
        TosError
            Spark could not start the nodes.
        """
        failed = self._failure
        if failed is not None:
            raise node_error(self.sc, failed)
        error = self._error
        if error is not None and not self.roster.stopping:
            found = named(error)
            if isinstance(found, TosError):
                raise found from found.__cause__
            raise ClusterUnreachable(f"Spark could not start the nodes: {error}") from error

    @property
    def _failure(self) -> Node | None:
        """The node that has failed, or was lost when Spark starts no other in its place."""
        return self.roster.failure or (self.roster.lost if self._job.done() else None)

    @property
    def _error(self) -> Exception | None:
        """What has ended the job that starts nodes, or a node on the driver's machine."""
        errors = (job.exception() for job in (self._job, *self._local) if job.done())
        return next((error for error in errors if isinstance(error, Exception)), None)

    @property
    def spec(self) -> dict[str, list[str]]:
        """The addresses of its nodes by their jobs, as host:port."""
        return spec_of(self.roster.cluster)

    def target(self, job: str, index: int = 0) -> str:
        """Return the address of a node for TensorFlow, such as ``grpc://10.0.0.7:41234``.

        Raises
        ------
        ConfigError
            There is no such node.
        """
        nodes = self.spec.get(job, [])
        if not (isinstance(index, int) and 0 <= index < len(nodes)):
            have = ", ".join(f"{name}:0-{len(each) - 1}" for name, each in self.spec.items())
            raise ConfigError(f"Expected a node of {have}; got {job}:{index!r}.")
        return f"grpc://{nodes[index]}"

    def feed(
        self, rows: RDD[Any], queue: str = "input", timeout: float = 600.0, epochs: int = 1
    ) -> None:
        """Feed the nodes the rows of an RDD, and wait until they have taken all they want.

        Each row is fed once in an epoch, also where Spark starts a task again or twice, if the RDD
        makes the rows of a partition in the same order each time. Where the cluster begins again
        meanwhile, it is fed all of them once more.

        Raises
        ------
        WorkerError
            A node has failed, or what makes the rows.
        WaitTimeout
            A node takes no rows for so long.
        ConfigError
            The nodes have no such queue.
        DataError
            A row cannot be sent.
        SessionClosed
            The cluster was stopped, before or meanwhile.
        """
        name, self._fed = self._queue(queue), None
        self._begin_again(self.roster.start)
        again, error = True, None
        while again:
            self._refuse_if_closed()
            start = self.roster.start
            error = self._feeder.feed(rows, epochs, name, timeout, f"{self._group}-feed")
            again = self._begin_again(start)
        self._refuse_if_closed()
        if error is not None:
            raise error
        self._fed = rows, queue, timeout, epochs

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SessionClosed(
                f"TensorFlow cluster {self.number} has ended, and no longer takes rows. Start "
                "another one."
            )

    def results(self, rows: RDD[Any], queue: str = "input", timeout: float = 600.0) -> RDD[Any]:
        """Return an RDD of what the nodes give back for the rows of another, in their order."""
        # Light to import without Spark's RDDs.
        from .results import Fetching, Results

        self._refuse_if_closed()
        task = FeedRows(self.server.address, self._queue(queue), results=True, timeout=timeout)
        if hasattr(rows, "foreachRDD"):
            # A stream's jobs are its own.
            return rows.mapPartitions(task)
        fetching = Fetching(self._feeder, self._require_nodes, lambda: f"{self._group}-results")
        return Results(rows, lambda _, part: task(part), fetching)

    def _require_nodes(self) -> None:
        self.check()
        self._refuse_if_closed()

    def _queue(self, name: str) -> str:
        if name not in self.options.queues:
            raise ConfigError(f"Expected a queue of {sorted(self.options.queues)}, got {name!r}.")
        return name

    def wait(self, timeout: float, jobs: Sequence[str] = TRAINING) -> None:
        """Wait until the functions of some jobs have ended, all of them or one by an error.

        Raises
        ------
        WorkerError
            One has failed.
        WaitTimeout
            They still run.
        """
        deadline = monotonic() + timeout
        while self._wait_for_ends(deadline, timeout, jobs):
            if self._fed is not None:
                self.feed(*self._fed)
            if self._feed_closed:
                self.close_feed()

    def _wait_for_ends(self, deadline: float, timeout: float, jobs: Sequence[str]) -> bool:
        """Wait for the ends of some jobs' functions; return whether the cluster begins again."""
        roster, start = self.roster, self.roster.start
        ended: Callable[[], bool] = lambda: (  # noqa: E731
            roster.failure is not None or roster.all_ended(jobs) or self._error is not None
        )
        # In turns, so that an interrupt gets through.
        while not roster.wait_for(ended, max(0.0, min(1.0, deadline - monotonic()))):
            if monotonic() >= deadline:
                running = [n.name for n in roster.nodes.values() if not n.ended]
                raise WaitTimeout(
                    f"Expected the nodes to end within {timeout:g} s; {', '.join(running)} still "
                    "run."
                )
        return self._begin_again(start)

    def close_feed(self) -> None:
        """Let `next_batch` end in all nodes, once they have taken what has come."""
        self._feed_closed = True
        self.roster.close_feed()

    def stop(self) -> None:
        """End all nodes; may be repeated."""
        with self._lock:
            self._closed = True
        try:
            self._end()
        finally:
            # After an interrupt, too: nodes end when they do not reach it any more.
            self.server.close()

    def _end(self) -> None:
        """End all nodes of this start."""
        self.roster.stop()
        try:
            if not self.roster.wait_for(self._gone, END):
                logger.warning("Some nodes of TensorFlow cluster %s do not answer.", self.number)
            self._feeder.cancel()
            if not self._job.done():
                cancel(self.sc, self._group)
        except WaitTimeout as error:
            logger.warning("%s", error)

    def _gone(self) -> bool:
        return all(node.ended for node in self.roster.nodes.values())

    def __enter__(self) -> NodeCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
