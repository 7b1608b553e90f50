"""Where a node takes rows from Spark's tasks, and where these fetch its results.

A task asks one thing after the other::

    {"open": queue, "results": bool}      which queue, and whether results are wanted
    {"rows": n}, with a block of values   so many more rows
    {"end": true}                         the partition's last row was sent
    {"wait": seconds}                     how many rows are left, and the results so far

Each answer says whether rows are still wanted (``"state"``), and ``"failure"`` if the node has
failed. Rows for which there is no room are not taken (``"taken": false``): they are sent again.
"""

from __future__ import annotations

import threading
from typing import Any

from ..errors import RemoteProtocolError, TosError
from .hub import EndPartition, Hub, Source
from .talk import Message, Talk
from .values import pack, unpack

TURN = 1.0
"""Seconds after which a task hears that nothing has changed."""


class Inbox:
    """Serves the tasks that feed a node.

    Parameters
    ----------
    hub : Hub
        The node's queues.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        # Results come back in the order of rows: one partition at a time wants them.
        self._turns = threading.Lock()

    def serve(self, talk: Talk) -> None:
        """Serve one task until it leaves."""
        message, _ = talk.receive()
        try:
            name, results = str(message["open"]), bool(message.get("results"))
            self._hub.queue(name)
        except (KeyError, TosError) as error:
            talk.send({"refused": str(error)})
            return
        if not results:
            self._feed(talk, name, results)
            return
        while not self._turns.acquire(timeout=TURN):
            talk.send(self._state(busy=True))
            talk.receive()
        try:
            self._feed(talk, name, results)
        finally:
            self._turns.release()

    def _feed(self, talk: Talk, name: str, results: bool) -> None:
        queue, source = self._hub.queue(name), Source()
        talk.send(self._state())
        while True:
            message, payload = talk.receive()
            if "rows" in message:
                taken = self._put(queue, payload, source)
                talk.send(self._state(taken=taken))
            elif "end" in message:
                if results:
                    queue.put(EndPartition())
                talk.send(self._state(left=source.left))
            elif "wait" in message:
                found = self._hub.wait(source, results, min(float(message["wait"]), TURN))
                parts = pack(found) if found else []
                talk.send(self._state(left=source.left, results=len(found)), parts)
            elif "leave" in message:
                return
            else:
                raise RemoteProtocolError(f"Expected rows or a wait, got {sorted(message)}.")

    def _put(self, queue: Any, payload: memoryview, source: Source) -> bool:
        rows = unpack(payload)
        while self._hub.open:
            if queue.put_rows(rows, source, TURN):
                return True
        return False

    def _state(self, **more: object) -> Message:
        return {"state": self._hub.get("state"), "failure": self._hub.failure, **more}
