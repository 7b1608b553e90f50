"""Where a node takes rows from Spark's tasks, and where these fetch its results.

A task asks one thing after the other::

    {"open": queue, "results": bool}      which queue, and whether results are wanted
    {"rows": n}, with a block of values   so many more rows
    {"end": true}                         the partition's last row was sent
    {"wait": seconds}                     how many rows are left, and the results so far

Each answer says whether rows are still wanted (``"state"``), ``"failure"`` if the node has failed,
and how many rows it has ``"taken"``. Where there is no room for the rows yet, or another
partition's results come first, the answer is ``"busy"``, and the task waits until one is not.
"""

from __future__ import annotations

import threading

from ..errors import DataError, RemoteProtocolError, TosError
from .hub import EndPartition, Hub, RowQueue, Source
from .packing import pack
from .talk import Talk
from .unpacking import unpack

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

    @property
    def owes_results(self) -> bool:
        """Whether a task waits for results."""
        return self._turns.locked()

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
        queue, source, whole = self._hub.queue(name), Source(results), False
        talk.send(self._state())
        try:
            while True:
                message, payload = talk.receive()
                if "rows" in message:
                    self._put(talk, queue, payload, source)
                    talk.send(self._state())
                elif "end" in message:
                    whole = True
                    if results:
                        queue.put(EndPartition())
                    talk.send(self._state())
                elif "wait" in message:
                    # Looked at before: of a function that has ended there are no more results.
                    state = self._state()
                    found = self._hub.wait(source, results, min(float(message["wait"]), TURN))
                    state |= {"left": source.left, "results": len(found)}
                    try:
                        talk.send(state, pack(found) if found else ())
                    except DataError as error:
                        talk.send({"unsendable": str(error)})
                        raise
                else:
                    raise RemoteProtocolError(f"Expected rows or a wait, got {sorted(message)}.")
        finally:
            if not whole:
                # Spark tries the task again: what nobody has taken comes once more.
                queue.forget(source)

    def _put(self, talk: Talk, queue: RowQueue, payload: memoryview, source: Source) -> None:
        rows = unpack(payload)
        while self._hub.open and not queue.put_rows(rows, source, TURN):
            talk.send(self._state(busy=True))
            talk.receive()

    def _state(self, **more: object) -> dict[str, object]:
        hub = self._hub
        own = {"state": hub.get("state"), "failure": hub.failure, "taken": hub.rows_taken}
        return {**own, **more}
