"""What runs in Spark's tasks: start a node, and feed nodes the rows of a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Any

from ..errors import (
    ClusterUnreachable,
    ConnectTimeout,
    DataError,
    TosError,
    TransportError,
    WaitTimeout,
    WorkerError,
)
from ..transport.sockets import Timeouts
from ..wire.messages import Refused
from ..wire.refusals import error_of
from .blocks import RowsMissing
from .body import Main
from .detached import detach
from .feeding import Feeding, no_results
from .inbox import TURN
from .keeper import Claim, Keeper, executor_token, no_claim
from .plan import NodePlan, ServerAddress
from .talk import Talk, open_talk

SETTLE = 5.0
"""Seconds for the driver to hear why a node has gone."""


@dataclass(frozen=True)
class StartNode:
    """Starts a node; a function of the numbers in a partition, which holds one.

    Parameters
    ----------
    plan : NodePlan
    main, args
        See `Keeper`.
    claim : callable
        See `keeper.Claim`.
    background : bool
        Whether the task ends while the node runs.
    together : int
        Nodes that must be there before a task ends, so that Spark gives each its own executor.
    """

    plan: NodePlan
    main: Main
    args: Any
    claim: Claim = no_claim
    background: bool = False
    together: int = 1

    def __call__(self, numbers: Iterable[int]) -> Iterator[int]:
        """Start the node, and wait for its end unless it runs in the background."""
        for number in numbers:
            keeper = Keeper(self.plan, number, self.main, self.args, self.claim)
            if self.background:
                detach(keeper, self._wait_for_others)
            else:
                _run(keeper)
            yield number

    def _wait_for_others(self) -> None:
        server, done = self.plan.server, False
        talk = open_talk(server, server.secret, server.fingerprint, Timeouts())
        try:
            while not done:
                answer, _ = talk.ask({"await": TURN, "count": self.together})
                done = bool(answer["done"])
        finally:
            talk.close()


def _run(keeper: Keeper) -> None:
    """Keep a node until it ends. Spark need not hear of its failure: the driver has."""
    known = Event()
    try:
        keeper.run(known.set)
    except WorkerError:
        if not known.is_set():
            raise


@dataclass(frozen=True)
class FeedRows:
    """Feeds a node the rows of a partition; a function of these for Spark.

    Parameters
    ----------
    server : ServerAddress
        The driver's.
    queue : str
        Name of the node's queue.
    results : bool
        Whether to return a result for each row.
    timeout : float
        Seconds in which the node takes no row, and returns no result, after which it gives up.
    feed : str
        Name of the feeding, which the driver has begun. By default it is known by Spark's stage.
    stream : bool
        Whether these are rows of a stream. What fails then is the driver's to say, as of a feeding
        that it has begun; otherwise Spark says it.
    """

    server: ServerAddress
    queue: str = "input"
    results: bool = False
    timeout: float = 600.0
    feed: str = ""
    stream: bool = False

    def __call__(self, rows: Iterable[Any], partition: int | None = None) -> Iterator[Any]:
        """Feed the rows; yield the results, if they are wanted.

        Parameters
        ----------
        rows : iterable
            In the same order whenever Spark makes them again.
        partition : int, optional
            Their number; that of Spark's task by default.

        Raises
        ------
        WorkerError
            A node has failed.
        WaitTimeout
            The node takes no rows.
        ConfigError
            The node has no such queue, or gives back less than one result for each row.
        DataError
            A row cannot be sent.
        """
        driver = self._connect()
        try:
            asked = self._question(driver, partition)
            answer = self._where(driver, asked)
            if answer is not None:
                yield from self._feed(driver, asked, answer, rows)
            driver.ask({"fed": True})
        except RowsMissing as error:
            # Not the driver's to say: Spark knows better why, or starts another attempt.
            raise DataError(str(error)) from None
        except TosError as error:
            if not self._tell(driver, error):
                raise
        finally:
            driver.close()

    def _connect(self) -> Talk:
        server = self.server
        try:
            return open_talk(server, server.secret, server.fingerprint, Timeouts())
        except TransportError as error:
            raise ClusterUnreachable(
                "The TensorFlow cluster has ended, or this task does not reach the driver at "
                f"{server[0]}:{server[1]}: {error}"
            ) from None

    def _tell(self, driver: Talk, error: TosError) -> bool:
        """Tell the driver what has failed; return whether it is the one to raise it."""
        if isinstance(error, ClusterUnreachable) and not self.stream:
            # Spark's next attempt may reach the node, as another executor.
            return False
        try:
            # The driver raises it at once, and no other attempt waits as long once more.
            driver.ask({"feed_failed": type(error).__name__, "text": str(error)})
        except TransportError:
            return False
        return bool(self.feed or self.stream)

    def _question(self, driver: Talk, partition: int | None) -> dict[str, Any]:
        stage, own = _spark_place()
        return {
            "where": executor_token(driver.host, os.getppid()),
            "host": driver.host,
            "feed": self.feed or f"stage {stage}",
            "begun": bool(self.feed),
            "partition": own if partition is None else partition,
            "results": self.results,
            "stream": self.stream,
        }

    def _where(self, driver: Talk, asked: dict[str, Any]) -> dict[str, Any] | None:
        answer, _ = driver.ask(asked)
        if "failed" in answer:
            name = answer["name"]
            raise WorkerError(f"{answer['failed']} (in node {name})", frames=answer["frames"])
        if "error" in answer:
            raise error_of(Refused(answer["error"], answer["text"]))
        if not answer.get("ended"):
            return {**answer, "partition": asked["partition"]}
        if self.results:
            raise no_results("")
        return None

    def _feed(
        self, driver: Talk, asked: dict[str, Any], answer: dict[str, Any], rows: Iterable[Any]
    ) -> Iterator[Any]:
        fingerprint = bytes.fromhex(answer["fingerprint"]) or None
        try:
            # The inbox answers every second, whatever the node's function does.
            timeouts = Timeouts(patience=self.timeout)
            node = open_talk(answer["inbox"], self.server.secret, fingerprint, timeouts)
        except TransportError as error:
            self._explain(driver, asked, _unreachable(answer["name"], error))
            return
        try:
            given = self.queue, self.results, self.timeout
            feeding = Feeding(node, answer, *given, lambda text: driver.ask({"waits": text}))
            yield from feeding.run(rows)
            return
        except ConnectTimeout as error:
            # It hangs: no other attempt is to wait as long.
            problem: TosError = WaitTimeout(f"Node {answer['name']} does not answer: {error}")
        except TransportError as error:
            problem = _unreachable(answer["name"], error)
        finally:
            # A node that has failed may wait for its tasks to leave before the driver knows why.
            node.close()
        self._explain(driver, asked, problem)

    def _explain(self, driver: Talk, asked: dict[str, Any], error: TosError) -> None:
        """Raise why a node has gone, as the driver knows it; return if it wants no rows."""
        deadline = monotonic() + SETTLE
        while monotonic() < deadline:
            answer = self._where(driver, asked)
            if answer is None:
                return
            driver.ask({"await": 0.1, "count": 1 << 30})
        raise error


def _unreachable(name: str, error: TransportError) -> ClusterUnreachable:
    return ClusterUnreachable(f"Node {name} does not answer this task: {error}")


def _spark_place() -> tuple[int, int]:
    """Return Spark's numbers of this task's stage and partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (0, 0) if context is None else (context.stageId(), context.partitionId())
