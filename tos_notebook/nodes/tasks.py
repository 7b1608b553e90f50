"""What runs in Spark's tasks: start a node, and feed nodes the rows of a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Event
from time import monotonic
from typing import Any

from ..errors import (
    ClusterUnreachable,
    ConfigError,
    ConnectionClosed,
    DataError,
    TosError,
    TransportError,
    WaitTimeout,
    WorkerError,
)
from ..transport.sockets import Timeouts
from .body import Main
from .hub import ENDED, FAILED, RUNNING, TERMINATING
from .inbox import TURN
from .keeper import Claim, Keeper, detach, executor_token, no_claim
from .packing import pack
from .plan import NodePlan, ServerAddress
from .talk import Talk, open_talk
from .unpacking import unpack

BLOCK = 1 << 18
"""Bytes of rows that are sent at once, about. Lists of more leave the processor's caches, and are
what Python's garbage collector looks through again and again.
"""

FIRST_ROWS, MOST_ROWS = 32, 8192
"""Rows of the first block, which shows how large a row is, and of any block at most."""

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
    """

    server: ServerAddress
    queue: str = "input"
    results: bool = False
    timeout: float = 600.0

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Feed the rows; yield the results, if they are wanted.

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
            token = executor_token(driver.host, os.getppid())
            answer = self._where(driver, token)
            if answer is not None:
                yield from self._feed(driver, token, answer, rows)
        except TosError as error:
            if self.results:
                raise
            # The driver is to say so at once. Spark would try again, and feed rows twice.
            driver.ask({"feed_failed": type(error).__name__, "text": str(error)})
        finally:
            driver.close()

    def _where(self, driver: Talk, token: str) -> dict[str, Any] | None:
        answer, _ = driver.ask({"where": token, "host": driver.host, "results": self.results})
        if "failed" in answer:
            name = answer["name"]
            raise WorkerError(f"{answer['failed']} (in node {name})", frames=answer["frames"])
        if not answer.get("ended"):
            return answer
        if self.results:
            raise _no_results("")
        return None

    def _feed(
        self, driver: Talk, token: str, answer: dict[str, Any], rows: Iterable[Any]
    ) -> Iterator[Any]:
        fingerprint = bytes.fromhex(answer["fingerprint"]) or None
        try:
            # The inbox answers every second, whatever the node's function does.
            timeouts = Timeouts(patience=self.timeout)
            node = open_talk(answer["inbox"], self.server.secret, fingerprint, timeouts)
        except TransportError as error:
            self._explain(driver, token, answer["name"], error)
            return
        try:
            yield from _Feeding(node, answer["name"], self).run(rows)
            return
        except TransportError as error:
            problem = error
        finally:
            # A node that has failed may wait for its tasks to leave before the driver knows why.
            node.close()
        self._explain(driver, token, answer["name"], problem)

    def _explain(self, driver: Talk, token: str, name: str, error: TransportError) -> None:
        """Raise why a node has gone, as the driver knows it; return if it wants no rows."""
        deadline = monotonic() + SETTLE
        while monotonic() < deadline:
            answer = self._where(driver, token)
            if answer is None or answer["name"] != name:
                return
            driver.ask({"await": 0.1, "count": 1 << 30})
        raise ClusterUnreachable(f"Node {name} does not answer this task: {error}") from error


class _Over(Exception):
    """The node wants no more rows."""


class _Feeding:
    def __init__(self, node: Talk, name: str, task: FeedRows) -> None:
        self._node, self._name, self._task = node, name, task
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
            self._open()
            for block, count in _blocks(iter(rows)):
                self._check(self._settle())
                self._node.send({"rows": count}, block)
                self._owed = True
                self._sent += count
                if self._task.results:
                    self._settle()
                    yield from self._fetch(0.0)[0]
            self._settle()
            self._node.ask({"end": True})
            yield from self._rest()
        except _Over:
            if self._task.results:
                raise _no_results(f" of {self._name}") from None

    def _open(self) -> None:
        message: dict[str, Any] = {"open": self._task.queue, "results": self._task.results}
        answer, _ = self._node.ask(message)
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        self._await(answer)

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


def _blocks(rows: Iterator[Any]) -> Iterator[tuple[list[bytes | memoryview], int]]:
    """Yield rows as blocks of about `BLOCK` bytes, with how many each holds."""
    count = FIRST_ROWS
    while block := list(islice(rows, count)):
        packed = pack(block)
        size = sum(map(len, packed))
        yield packed, len(block)
        # Slowly, as the next rows may be much larger.
        count = max(1, min(MOST_ROWS, 4 * count, BLOCK * len(block) // size))
