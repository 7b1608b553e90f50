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
    ConfigError,
    ConnectionClosed,
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
from .blocks import Block, RowsMissing, blocks_after
from .body import Main
from .hub import ENDED, FAILED, RUNNING, TERMINATING
from .inbox import TURN
from .keeper import Claim, Keeper, detach, executor_token, no_claim
from .plan import NodePlan, ServerAddress
from .talk import Talk, open_talk
from .unpacking import unpack

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
        driver = open_talk(self.server, self.server.secret, self.server.fingerprint, Timeouts())
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
            raise _no_results("")
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
            yield from _Feeding(node, answer, self).run(rows)
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


class _Over(Exception):
    """The node wants no more rows."""


class _Feeding:
    def __init__(self, node: Talk, place: dict[str, Any], task: FeedRows) -> None:
        self._node, self._name, self._task = node, place["name"], task
        self._opening = {"open": task.queue, "results": task.results} | {
            key: place[key] for key in ("feed", "partition", "oldest")
        }
        self._sent = self._returned = 0
        self._owed = False
        """Whether an answer is still to come."""
        self._answer: dict[str, Any] = {}
        """The last one to rows."""
        self._taken, self._since = -1, monotonic()
        """Rows that the node had taken when this task last saw it take some, and when that was."""

    def run(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Feed rows, and yield results."""
        try:
            opened = self._open()
            had = list(map(int, opened["had"]))
            self._sent = sum(had)
            yield from self._send(blocks_after(had, int(opened["mark"]), rows))
            yield from self._rest()
        except _Over:
            if self._task.results:
                raise _no_results(f" of {self._name}") from None

    def _open(self) -> dict[str, Any]:
        answer, _ = self._node.ask(self._opening)
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        self._await(answer)
        return self._answer

    def _send(self, blocks: Iterator[Block]) -> Iterator[Any]:
        """Send blocks of rows, and yield the results that come meanwhile."""
        for block, count in blocks:
            self._check(self._settle())
            self._node.send({"rows": count}, block)
            self._owed = True
            self._sent += count
            if self._task.results:
                self._settle()
                yield from self._fetch(0.0)[0]
        self._settle()
        self._node.ask({"end": True})

    def _settle(self) -> dict[str, Any]:
        """Wait for the answer to what was sent last; return it."""
        if self._owed:
            self._owed = False
            self._await(self._node.receive()[0])
        return self._answer

    def _await(self, answer: dict[str, Any]) -> None:
        """Wait while the node is busy, from an answer of it on."""
        self._since = monotonic()
        while answer.get("busy"):
            self._check(answer)
            if not answer.get("other"):
                self._heed(answer, "its queue is full")
            answer, _ = self._node.ask({"wait": TURN})
        self._answer = answer

    def _heed(self, answer: dict[str, Any], waiting: str) -> None:
        """Raise if the node takes nothing for too long."""
        taken, now = int(answer.get("taken", 0)), monotonic()
        if taken != self._taken:
            self._taken, self._since = taken, now
        elif now - self._since > self._task.timeout:
            raise WaitTimeout(self._late(waiting))

    def _check(self, answer: dict[str, Any]) -> None:
        if "unsendable" in answer:
            raise DataError(f"A result of node {self._name}: {answer['unsendable']}")
        state = answer.get("state")
        if state == FAILED:
            raise ConnectionClosed(f"Node {self._name} has failed: {answer['failure']}")
        if state in (TERMINATING, ENDED):
            raise _Over
        if state != RUNNING:
            raise TransportError(f"Expected the state of node {self._name}, got {state!r}.")

    def _fetch(self, seconds: float) -> tuple[list[Any], dict[str, Any]]:
        answer, payload = self._node.ask({"wait": seconds})
        found = unpack(payload) if answer.get("results") else []
        self._returned += len(found)
        # A node that has given back a result for each row may end.
        if not found and not (self._task.results and self._returned == self._sent):
            self._check(answer)
        return found, answer

    def _rest(self) -> Iterator[Any]:
        """Wait until all rows are taken and all results have come; yield these."""
        results = self._task.results
        self._since = monotonic()
        while True:
            found, answer = self._fetch(TURN)
            yield from found
            left = int(answer["left"])
            if not left and not (results and self._returned < self._sent):
                return
            if found:
                self._since = monotonic()
            self._heed(answer, f"{left} of {self._sent} wait" if left else "")

    def _late(self, waiting: str) -> str:
        if waiting:
            return (
                f"Node {self._name} has taken no row for {self._task.timeout:g} s: {waiting}. Does "
                "its function read them, with next_batch? Give a longer feed_timeout if a batch "
                "needs more time."
            )
        return (
            f"Node {self._name} has returned {self._returned} results for {self._sent} rows, and "
            f"none for {self._task.timeout:g} s. Return one for each row with batch_results."
        )


def _no_results(of: str) -> ConfigError:
    return ConfigError(
        f"Expected a node to give back a result for each row, but the function{of} wants no more "
        "rows. Let it read until should_stop(), and start the cluster again."
    )
