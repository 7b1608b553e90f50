"""The other nodes that make each step together with this one, by way of the driver."""

from __future__ import annotations

from time import monotonic
from typing import Any

from ..errors import WaitTimeout
from ..transport.sockets import Timeouts
from .plan import ServerAddress
from .talk import Message, Talk, open_talk

READY, SHORT, OVER = "ready", "short", "over"
"""How a node comes to a step: it has rows; it has none yet; its feed is over."""

TURN = 1.0
"""Seconds that an answer of the driver may wait for other nodes."""


class Peers:
    """Agrees with the other nodes on how many steps all make; a thread at a time may use it.

    Parameters
    ----------
    server : ServerAddress
        The driver's.
    number : int
        This node's.
    start : int
        How often the cluster has begun again.
    """

    def __init__(self, server: ServerAddress, number: int, start: int) -> None:
        self._server = server
        self._own = {"node": number, "start": start}
        self._talk: Talk | None = None
        self._owed = False
        """Whether an answer is still to come."""

    def announce(self, queue: str, step: int) -> None:
        """Say that this node has rows for a step; nodes without rows may make it now."""
        self._settle().send(self._message(queue, step, READY, 0.0))
        self._owed = True

    def are_ready(self, queue: str, step: int, seconds: float) -> bool:
        """Return whether another node has rows for a step; wait for one so long."""
        answer, _ = self._settle().ask(self._message(queue, step, SHORT, seconds))
        return bool(answer["go"])

    def go_on(self, queue: str, step: int, timeout: float) -> bool:
        """Say that this node's feed is over; return whether a step is made nevertheless.

        Raises
        ------
        WaitTimeout
            A node neither has rows for the step nor is at its end.
        """
        since = monotonic()
        while True:
            message = self._message(queue, step, OVER, min(TURN, timeout))
            answer, _ = self._settle().ask(message)
            if answer["go"] or not answer["missing"]:
                return bool(answer["go"])
            if monotonic() - since >= timeout:
                names = ", ".join(map(str, answer["missing"]))
                raise WaitTimeout(
                    f"Expected rows for step {step}, or the end of the feed, in all nodes that "
                    f"train within {timeout:g} s; {names} had neither. Does each of them read "
                    "synchronized_batches()? Give a longer timeout if a step needs more time."
                )

    def close(self) -> None:
        """End the connection to the driver, if there is one."""
        if self._talk is not None:
            self._talk.close()

    def _message(self, queue: str, step: int, how: str, wait: float) -> Message:
        place: dict[str, Any] = {"queue": queue, "step": step, "is": how, "wait": wait}
        return place | self._own

    def _settle(self) -> Talk:
        """Take the answer to what was announced; return the connection."""
        if self._talk is None:
            server = self._server
            self._talk = open_talk(server, server.secret, server.fingerprint, Timeouts())
        if self._owed:
            self._owed = False
            self._talk.receive()
        return self._talk
