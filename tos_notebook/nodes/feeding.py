"""Feeds a node the rows of a partition, and fetches its results; see `inbox` for what is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any

from ..errors import ConfigError, ConnectionClosed, DataError, TransportError, WaitTimeout
from .blocks import Block, blocks_after
from .hub import ENDED, FAILED, RUNNING, TERMINATING
from .inbox import TURN
from .talk import Talk
from .unpacking import unpack

SILENCE = 30.0
"""Seconds without a result after which the driver says so."""


class Over(Exception):
    """The node wants no more rows."""


class Feeding:
    """Feeds a node.

    Parameters
    ----------
    node : Talk
        With the node's inbox.
    place : dict
        The driver's answer: the node's ``name``, ``feed`` and ``oldest``; with ``partition``.
    queue, results, timeout
        See `FeedRows`.
    note : callable
        Takes a sentence for people.
    """

    def __init__(
        self,
        node: Talk,
        place: dict[str, Any],
        queue: str,
        results: bool,
        timeout: float,
        note: Callable[[str], object],
    ) -> None:
        self._node, self._name = node, place["name"]
        self._results, self._timeout = results, timeout
        self._note, self._noted = note, False
        self._opening = {"open": queue, "results": results} | {
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
        except Over:
            if self._results:
                raise no_results(f" of {self._name}") from None

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
            if self._results:
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
        elif now - self._since > self._timeout:
            raise WaitTimeout(self._late(waiting))

    def _check(self, answer: dict[str, Any]) -> None:
        if "unsendable" in answer:
            raise DataError(f"A result of node {self._name}: {answer['unsendable']}")
        state = answer.get("state")
        if state == FAILED:
            raise ConnectionClosed(f"Node {self._name} has failed: {answer['failure']}")
        if state in (TERMINATING, ENDED):
            raise Over
        if state != RUNNING:
            raise TransportError(f"Expected the state of node {self._name}, got {state!r}.")

    def _fetch(self, seconds: float) -> tuple[list[Any], dict[str, Any]]:
        answer, payload = self._node.ask({"wait": seconds})
        found = unpack(payload) if answer.get("results") else []
        self._returned += len(found)
        # A node that has given back a result for each row may end.
        if not found and not (self._results and self._returned == self._sent):
            self._check(answer)
        return found, answer

    def _rest(self) -> Iterator[Any]:
        """Wait until all rows are taken and all results have come; yield these."""
        self._since = monotonic()
        while True:
            found, answer = self._fetch(TURN)
            yield from found
            left = int(answer["left"])
            if not left and not (self._results and self._returned < self._sent):
                return
            if found:
                self._since = monotonic()
            elif self._results:
                self._expect_results(answer, left)
            self._heed(answer, f"{left} of {self._sent} wait" if left else "")

    def _expect_results(self, answer: dict[str, Any], left: int) -> None:
        """Raise if no more results will come; say so if they are late."""
        if answer.get("starved") and not left:
            raise ConfigError(
                f"Expected a result for each row, but node {self._name} has returned "
                f"{self._returned} results for {self._sent} rows, and its function waits for the "
                "next rows. Return one for each row with batch_results before."
            )
        if not self._noted and monotonic() - self._since > SILENCE:
            self._noted = True
            self._note(
                f"Node {self._name} has returned {self._returned} results for {self._sent} rows, "
                f"and none for {SILENCE:g} s. Its task gives up after {self._timeout:g} s."
            )

    def _late(self, waiting: str) -> str:
        if waiting:
            return (
                f"Node {self._name} has taken no row for {self._timeout:g} s: {waiting}. Does "
                "its function read them, with next_batch? Give a longer feed_timeout if a batch "
                "needs more time."
            )
        return (
            f"Node {self._name} has returned {self._returned} results for {self._sent} rows, and "
            f"none for {self._timeout:g} s. Return one for each row with batch_results."
        )


def no_results(of: str) -> ConfigError:
    """Return the error of rows whose results no node will give back; `of` names the node."""
    return ConfigError(
        f"Expected a node to give back a result for each row, but the function{of} wants no more "
        "rows. Let it read until should_stop(), and start the cluster again."
    )
