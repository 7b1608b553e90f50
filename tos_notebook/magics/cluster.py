"""``%%tos_cluster``: from a cell's ``main`` to a TensorFlow cluster in view."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from IPython.display import display

from ..cluster.executors import contact_host, slots
from ..common.console import is_noninteractive
from ..data.described import is_frame
from ..errors import ConfigError
from ..nodes.gpus import claim_of_spark
from ..nodes.keeper import Claim
from ..nodes.plan import ClusterOptions
from ..nodes.runs import ClusterRun, Feeding
from ..nodes.sendable import MAIN, check_main
from ..nodes.servers import EXPOSED, stays_here
from ..readable import counted
from ..tensorflowonspark.TFSparkNode import GpuClaim
from . import find
from .cell import CLUSTER, run_cell
from .find import Names
from .launcher import CLOSE_TIMEOUT, Launcher
from .lines import NodeLines
from .parsers import CLUSTER_OUTPUT
from .text import say

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

Watch = Callable[[ClusterRun], object]


class ClusterLauncher(Launcher):
    """Starts clusters from cells; see `Launcher`.

    Parameters
    ----------
    shell : InteractiveShell
    connection : Connection
    watch : callable
        Is told of each cluster.
    """

    header, what, variable = CLUSTER, "cluster", CLUSTER_OUTPUT

    def __init__(self, shell: Any, connection: Any, watch: Watch) -> None:
        super().__init__(shell, connection)
        self._watch = watch

    def _check(self, options: Namespace) -> None:
        _template(options)

    def _start(self, options: Namespace, line: str, cell: str | None) -> ClusterRun:
        template, space, ran = _template(options), self._shell.user_ns, None
        if cell is not None:
            header = f"{CLUSTER} {line}".rstrip()
            ran = run_cell(self._shell, cell, header, graphs=False)
            self._require_free(options)
        names = Names(space, ran)
        main = _main(names)
        args = names.get("--args", options.args) if options.args else None
        data = _fed(names, options.feed) if options.feed else None
        spark = self._connection.ensure(space)
        sc = spark if hasattr(spark, "parallelize") else spark.sparkContext
        if not options.insecure_network and not stays_here(contact_host(sc)):
            raise ConfigError(
                f"{EXPOSED} Add --insecure-network if only you reach the network of this cluster."
            )
        feeding = None
        if options.feed:
            rows = _rows(sc, data, options.feed, len(template.get("worker", ())))
            feeding = Feeding(rows, options.feed, options.epochs or 1, options.feed_timeout or 600)
        made = ClusterOptions(
            template,
            feed=feeding is not None,
            tensorboard=options.tensorboard is not None,
            log_dir=options.tensorboard,
            timeout=options.timeout,
            restarts=options.restarts,
        )
        claim: Claim = claim_of_spark
        if options.gpus is not None:
            claim = GpuClaim(options.gpus, "--gpus")
        run = ClusterRun(sc, main, args, made, feeding, claim)
        say(_plan(run.number, template, options), *_crowded(sc, template))
        self._watch(run)
        return run

    def _show(self, run: Any, options: Namespace) -> None:
        from .. import widgets

        later = f"{options.output or self.variable}.stop() ends it."
        if is_noninteractive():
            lines = NodeLines(run, sys.stdout)
            try:
                ended = self._wait(run, options, later, lines.follow)
            finally:
                lines.write()
            if ended:
                run.check()
                display(widgets.ClusterPicture(run))
            return
        view = widgets.cluster_view(run)
        view.show()
        if not options.wait:
            return
        try:
            if self._wait(run, options, later):
                run.check()
        finally:
            # So that the cell ends with the picture that a saved notebook shows.
            if not run.active:
                view.wait(CLOSE_TIMEOUT)


def _template(options: Namespace) -> dict[str, list[int]]:
    """Return the numbers of the nodes by their jobs, in the order of TensorFlowOnSpark."""
    for name in ("workers", "ps", "restarts", "gpus"):
        if (getattr(options, name) or 0) < 0:
            raise ConfigError(f"--{name}: expected 0 or more, got {getattr(options, name)}.")
    if not (options.workers or options.chief):
        raise ConfigError("Expected at least one worker, or --chief; got --workers 0 alone.")
    for name in ("epochs", "feed_timeout"):
        value, flag = getattr(options, name), f"--{name.replace('_', '-')}"
        if value is not None and not options.feed:
            raise ConfigError(f"{flag}: only with --feed, which names the data. Leave it out.")
        if value is not None and value <= 0:
            raise ConfigError(f"{flag}: expected more than 0, got {value:g}.")
    if options.timeout <= 0:
        raise ConfigError(f"--timeout: expected more than 0 seconds, got {options.timeout:g}.")
    jobs = [("ps", options.ps), ("chief", int(options.chief))]
    jobs += [("evaluator", int(options.evaluator)), ("worker", options.workers)]
    numbers = count()
    return {job: list(islice(numbers, nodes)) for job, nodes in jobs if nodes}


def _main(names: Names) -> Any:
    """Return the function that runs in each node: the cell's own, or for a line, the notebook's."""
    bound = names.namespace if names.ran is None else names.ran.bound
    if MAIN not in bound:
        raise ConfigError(
            f"{CLUSTER}: expected the cell to define main(args, ctx), which runs in each node; it "
            "defines no main."
        )
    main = names.namespace[MAIN]
    check_main(MAIN, main)
    return main


def _fed(names: Names, text: str) -> Any:
    """Return what ``--feed`` names.

    Raises
    ------
    ConnectError
        It belongs to a Spark Connect session, which has no RDDs.
    """
    from ..cluster.connect import refuse_remote

    data = find.data(names, "--feed", text)
    # Before anything asks it for an attribute: that is a question to its server.
    for each in data if isinstance(data, tuple) else (data,):
        refuse_remote(each)
    return data


def _rows(sc: SparkContext, data: Any, name: str, workers: int) -> RDD[Any]:
    """Return what is fed, as an RDD."""
    if hasattr(data, "mapPartitions"):
        found: RDD[Any] = data
        return found
    if is_frame(data):
        frame: RDD[Any] = data.rdd
        return frame
    arrays = data if isinstance(data, tuple) else (data,)
    if not all(hasattr(each, "__array__") or isinstance(each, list) for each in arrays):
        kinds = ", ".join(type(each).__name__ for each in arrays)
        raise ConfigError(
            f"--feed: expected an RDD, a DataFrame, an array or a list, or several of equal "
            f"length: x,y. Got {name}, of type {kinds}."
        )
    lengths = [len(each) for each in arrays]
    if len(set(lengths)) > 1:
        raise ConfigError(f"--feed: expected arrays of equal length, got {name} with {lengths}.")
    rows = list(arrays[0]) if len(arrays) == 1 else list(zip(*arrays, strict=True))
    return sc.parallelize(rows, max(1, min(len(rows), max(workers, sc.defaultParallelism))))


def _plan(number: int, template: dict[str, list[int]], options: Namespace) -> str:
    nodes = ", ".join(f"{len(numbers)} {job}" for job, numbers in template.items())
    fed = ""
    if options.feed:
        fed = f", fed {options.feed} for {counted(options.epochs or 1, 'epoch')}"
    return f"TensorFlow cluster {number}: {nodes}{fed}"


def _crowded(sc: SparkContext, template: dict[str, list[int]]) -> list[str]:
    nodes, free = sum(map(len, template.values())), slots(sc)
    if nodes <= free:
        return []
    shared = counted(free, "slot")
    return [f"  {nodes} nodes share {shared} of Spark: each is slower than with its own."]
