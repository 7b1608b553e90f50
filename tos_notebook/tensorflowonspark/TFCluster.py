"""Start a TensorFlow cluster on Spark's executors, feed it, and end it."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..cluster.connect import running_context
from ..cluster.executors import contact_host
from ..cluster.files import default_fs
from ..common.checks import at_least_one, not_negative, positive, with_known_options
from ..common.threads import in_thread
from ..errors import ConfigError
from ..nodes.cluster import NodeCluster
from ..nodes.context import LEADERS, NodeContext
from ..nodes.plan import ClusterOptions
from ..nodes.sendable import check_main, check_sendable
from ..nodes.server import NodeServer
from ..nodes.servers import EXPOSED, stays_here
from ..nodes.tasks import FeedRows
from .legacy_keras import WithLegacyKeras
from .TFSparkNode import GpuClaim
from .util import requested_gpus

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

logger = logging.getLogger(__name__)

EPOCHS = 10
"""Where `TFCluster.train` is given none."""


class InputMode:
    """Who reads the data."""

    TENSORFLOW = 0
    """The nodes' own function."""
    SPARK = 1
    """Spark's tasks, which feed the nodes."""


class TFCluster:
    """A running TensorFlow cluster.

    Parameters
    ----------
    cluster : NodeCluster
    input_mode : int
        See `InputMode`.
    """

    def __init__(self, cluster: NodeCluster, input_mode: int) -> None:
        self._cluster = cluster
        self.sc: SparkContext = cluster.sc
        self.defaultFS, self.working_dir = default_fs(cluster.sc), os.getcwd()  # noqa: PTH109
        self.num_executors = number = len(cluster.options.numbers)
        self.nodeRDD = cluster.sc.parallelize(range(number), number)
        self.cluster_id = cluster.number
        self.input_mode = input_mode
        self.queues = list(cluster.options.queues)
        self.server: NodeServer = cluster.server
        self.meta = self.cluster_meta = {
            "id": cluster.number,
            "cluster_template": dict(cluster.options.template),
            "num_executors": self.num_executors,
            "default_fs": self.defaultFS,
            "working_dir": os.getcwd(),  # noqa: PTH109
            "server_addr": cluster.server.address,
            "release_port": cluster.options.release_port,
        }

    @property
    def cluster_info(self) -> list[dict[str, Any]]:
        """What the nodes have said of themselves."""
        return self._cluster.roster.cluster

    def train(
        self,
        dataRDD: Any,
        num_epochs: int = 0,
        feed_timeout: float = 600,
        qname: str = "input",
    ) -> None:
        """Feed the nodes the rows of an RDD, or of each RDD of a stream.

        Each row is fed once, also where Spark starts a task again or twice, if the RDD makes the
        rows of a partition in the same order each time. What fails while a stream is fed stops the
        stream, which ends ``awaitTermination``; `shutdown` raises it.

        Parameters
        ----------
        dataRDD : RDD or DStream
        num_epochs : int
            How often to feed all rows; 0 for `EPOCHS`.
        feed_timeout : float
            Seconds in which a node takes no row, after which it gives up.
        qname : str
            The nodes' queue.

        Raises
        ------
        ConfigError
            The cluster reads its data itself, or has no such queue, or the number is negative.
        WorkerError
            A node has failed: the user's own line comes first.
        """
        self._check_feed("train", qname, dataRDD, feed_timeout)
        not_negative("num_epochs", num_epochs)
        if hasattr(dataRDD, "foreachRDD"):
            self._cluster.check()
            task = FeedRows(self.server.address, qname, timeout=feed_timeout, stream=True)
            dataRDD.foreachRDD(lambda rdd: rdd.foreachPartition(task))
            context = dataRDD.context()
            in_thread(f"tos-stream-{self.cluster_id}", lambda: self._watch(context))
            return
        self._cluster.feed(dataRDD, qname, feed_timeout, num_epochs or EPOCHS)

    def inference(
        self,
        dataRDD: RDD[Any],
        feed_timeout: float = 600,
        qname: str = "input",
    ) -> RDD[Any]:
        """Return an RDD of the nodes' results for the rows of another, one for each, in order.

        Parameters
        ----------
        dataRDD : RDD
        feed_timeout : float
            Seconds in which a node takes no row and returns no result.
        qname : str
            The nodes' queue.

        Raises
        ------
        ConfigError
            The cluster reads its data itself, or has no such queue.
        """
        self._check_feed("inference", qname, dataRDD, feed_timeout)
        return self._cluster.results(dataRDD, qname, feed_timeout)

    def _check_feed(self, call: str, qname: str, rows: Any, timeout: float) -> None:
        if self.input_mode != InputMode.SPARK:
            raise ConfigError(
                f"TFCluster.{call}() feeds rows: run the cluster with "
                "input_mode=TFCluster.InputMode.SPARK."
            )
        if qname not in self.queues:
            raise ConfigError(f"qname: expected one of {self.queues}, got {qname!r}.")
        positive("feed_timeout", timeout)
        if not any(hasattr(rows, each) for each in ("mapPartitions", "foreachRDD")):
            raise ConfigError(
                "dataRDD: expected an RDD, such as sc.parallelize(rows), or df.rdd of a DataFrame; "
                f"got {type(rows).__name__}."
            )

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = 259_200) -> None:
        """Wait until the workers' function has ended, and end the cluster.

        Where Spark feeds the nodes, their feeds end first. Parameter servers and evaluators are
        ended when all workers have ended by themselves.

        Parameters
        ----------
        ssc : StreamingContext, optional
            Whose end comes first; it is stopped once no node wants rows.
        grace_secs : float
            Not needed: workers have until `timeout` for what they do after their feed.
        timeout : float
            Seconds; 0 or less for no end.

        Raises
        ------
        ConfigError
            The timeout is not a number. The cluster continues.
        WorkerError
            A node has failed.
        WaitTimeout
            The workers have not ended in time. They are ended now.
        TosError
            A row of the stream could not be fed.
        """
        if not isinstance(timeout, int | float):
            raise ConfigError(f"timeout: expected a number of seconds, got {timeout!r}.")
        try:
            if ssc is not None:
                self._end_stream(ssc)
            if self.input_mode == InputMode.SPARK:
                self._cluster.close_feed()
            self._cluster.wait(timeout if timeout > 0 else math.inf)
            # Of a stream whose end came before.
            if self._cluster.roster.stream_error is not None:
                raise self._cluster.roster.stream_error
        finally:
            self._cluster.stop()

    def _end_stream(self, ssc: Any) -> None:
        roster = self._cluster.roster
        while not ssc.awaitTerminationOrTimeout(1):
            if roster.failed or roster.done:
                # What is still to come after an error would be lost.
                ssc.stop(stopSparkContext=False, stopGraceFully=not roster.failed)
                break
        self._cluster.check()
        if roster.stream_error is not None:
            raise roster.stream_error

    def _watch(self, ssc: Any) -> None:
        """Stop a stream when something fails: a caller that waits for it would wait forever."""
        roster = self._cluster.roster
        roster.wait_for(lambda: roster.stopping or roster.failed, math.inf)
        if not roster.failed:
            return
        failure = roster.failure
        text = failure.message if failure is not None else roster.stream_error
        logger.error("The stream ends, and shutdown() says more: %s", text)
        ssc.stop(stopSparkContext=False, stopGraceFully=False)

    def close(self) -> None:
        """End the cluster at once; may be repeated."""
        self._cluster.stop()

    def tensorboard_url(self) -> str | None:
        """Return TensorBoard's address; None if it was not asked for, or does not run."""
        for node in self.cluster_info:
            if node["tb_port"]:
                return f"http://{node['host']}:{node['tb_port']}"
        return None


@with_known_options
def run(
    sc: SparkContext,
    map_fun: Callable[[Any, NodeContext], object],
    tf_args: Any,
    num_executors: int,
    num_ps: int,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = ("input", "output", "error"),
    eval_node: bool = False,
    release_port: bool = True,
) -> TFCluster:
    """Start a TensorFlow cluster: a function runs in each node, on Spark's executors.

    Parameters
    ----------
    sc : SparkContext
    map_fun : callable
        A function of (args, context); see `NodeContext`.
    tf_args : object
        For it. A list also becomes ``sys.argv``.
    num_executors : int
        Nodes of all jobs. They may be more than Spark's slots.
    num_ps : int
        Nodes that are parameter servers.
    tensorboard : bool
        Whether the first worker shows TensorBoard.
    input_mode : int
        See `InputMode`.
    log_dir : str, optional
        The folder that TensorBoard shows.
    driver_ps_nodes : bool
        Whether the parameter servers run on the driver's machine.
    master_node : str, optional
        ``"chief"`` or ``"master"``: the job of the one node that leads.
    reservation_timeout : float
        Seconds for all nodes to begin.
    queues : sequence of str
        Names of the nodes' queues.
    eval_node : bool
        Whether one node is the evaluator.
    release_port : bool
        Whether TensorFlow's server may take the node's port at once. Otherwise the function calls
        ``ctx.release_port()`` before.

    Raises
    ------
    ConfigError
        The numbers do not fit, or a node of this job cannot be fed.
    WorkerError
        A node has failed before all were there.
    WaitTimeout
        They were not there in time.
    """
    _check_how(input_mode, queues, reservation_timeout)
    if input_mode != InputMode.TENSORFLOW and (driver_ps_nodes or eval_node):
        which = "driver_ps_nodes" if driver_ps_nodes else "eval_node"
        raise ConfigError(f"{which}: expected with input_mode=InputMode.TENSORFLOW only.")
    template = _template(num_executors, num_ps, master_node, eval_node)
    check_main("map_fun", map_fun)
    check_sendable(map_fun, tf_args, "map_fun")
    sc = running_context(sc)
    options = ClusterOptions(
        template=template,
        feed=input_mode == InputMode.SPARK,
        queues=tuple(queues),
        release_port=release_port,
        tensorboard=tensorboard,
        log_dir=log_dir,
        timeout=reservation_timeout,
        local=template.get("ps", ()) if driver_ps_nodes else (),
    )
    if not stays_here(contact_host(sc)):
        logger.warning("%s Use a network that only you reach.", EXPOSED)
    main, claim = WithLegacyKeras(map_fun), GpuClaim(requested_gpus(tf_args))
    cluster = NodeCluster(sc, main, tf_args, options, claim)
    return TFCluster(cluster, input_mode)


def _check_how(input_mode: int, queues: Sequence[str], timeout: float) -> None:
    if input_mode not in (InputMode.TENSORFLOW, InputMode.SPARK):
        raise ConfigError(
            f"input_mode: expected InputMode.TENSORFLOW or InputMode.SPARK, got {input_mode!r}."
        )
    if isinstance(queues, str):
        raise ConfigError(f"queues: expected a list of names, such as [{queues!r}].")
    positive("reservation_timeout", timeout)


def _template(
    nodes: int, servers: int, leader: str | None, evaluator: bool
) -> dict[str, Sequence[int]]:
    """Return the numbers of nodes by their jobs, in the order that programs rely on."""
    if leader and leader not in LEADERS:
        raise ConfigError(f"master_node: expected one of {LEADERS} or None, got {leader!r}.")
    at_least_one("num_executors", nodes)
    not_negative("num_ps", servers)
    workers = nodes - servers - (1 if leader else 0) - (1 if evaluator else 0)
    if workers < 0 or (workers == 0 and not leader):
        raise ConfigError(
            f"num_executors: expected room for {servers} parameter servers"
            f"{', a ' + leader if leader else ''}{', an evaluator' if evaluator else ''} and at "
            f"least one worker or chief, got {nodes} nodes."
        )
    jobs = [("ps", servers), (leader or "", 1 if leader else 0)]
    jobs += [("evaluator", 1 if evaluator else 0), ("worker", workers)]
    numbers = iter(range(nodes))
    return {job: [next(numbers) for _ in range(count)] for job, count in jobs if count}
