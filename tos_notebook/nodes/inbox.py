"""Where a node takes rows from Spark's tasks, and where these fetch its results.

A task asks one thing after the other::

    {"open": queue, "results": bool,      which queue, whether results are wanted, and whose
     "feed": n, "partition": n,           rows come; all feedings before the oldest one are over
     "oldest": n}
    {"rows": n}, with a block of values   so many more rows
    {"end": true}                         the partition's last row was sent
    {"wait": seconds}                     how many rows are left, and the results so far

Each answer says whether rows are still wanted (``"state"``), ``"failure"`` if the node has failed,
and how many rows it has ``"taken"``. Of a wait it says whether the function is ``"starved"``: the
thread that gives results back waits for rows. Where there is no room for the rows yet, or another
partition's results come first, the answer is ``"busy"``, and the task waits until one is not.

Rows are taken once. Spark starts a task again where one was lost, or a second one where it is slow.
The first answer says which rows of its partition an attempt leaves out: how many there are in each
block that the node ``"had"``, and the ``"mark"`` of these (see `mark_of`). Whether they were all is
not known: where what makes rows fails, Spark cuts them short first. Where another attempt still
feeds the partition, the answer is busy, with ``"other"``.
"""

from __future__ import annotations

import threading

from ..errors import DataError, RemoteProtocolError, TosError
from .blocks import mark_of
from .hub import EndPartition, Hub, RowQueue, Source
from .packing import pack
from .talk import Message, Talk
from .unpacking import unpack

TURN = 1.0
"""Seconds after which a task hears that nothing has changed."""


class _Part:
    """What has come of a partition, by whichever attempt."""

    def __init__(self, results: bool = False) -> None:
        self.source = Source(results)
        self.turn = threading.Lock()
        self.blocks: list[int] = []
        self.mark = 0


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
        self._lock = threading.Lock()
        self._feeds: dict[int, dict[int, _Part]] = {}

    @property
    def owes_results(self) -> bool:
        """Whether a task waits for results."""
        return self._turns.locked()

    def serve(self, talk: Talk) -> None:
        """Serve one task until it leaves."""
        message, _ = talk.receive()
        try:
            results = bool(message.get("results"))
            queue = self._hub.queue(str(message["open"]))
            part = _Part(results) if results else self._part(message)
        except (LookupError, TypeError, ValueError, TosError) as error:
            talk.send({"refused": str(error)})
            return
        turn = self._turns if results else part.turn
        while not turn.acquire(timeout=TURN):
            talk.send(self._state(busy=True, other=not results))
            talk.receive()
        try:
            self._feed(talk, queue, part, results)
        finally:
            turn.release()

    def _part(self, message: Message) -> _Part:
        feed, oldest = int(message["feed"]), int(message["oldest"])
        with self._lock:
            for number in [number for number in self._feeds if number < oldest]:
                del self._feeds[number]
            parts = self._feeds.setdefault(feed, {})
            return parts.setdefault(int(message["partition"]), _Part())

    def _feed(self, talk: Talk, queue: RowQueue, part: _Part, results: bool) -> None:
        whole = False
        talk.send(self._state(had=part.blocks, mark=part.mark))
        try:
            while True:
                message, payload = talk.receive()
                if "rows" in message:
                    self._put(talk, queue, payload, part)
                    talk.send(self._state())
                elif "end" in message:
                    whole = True
                    if results:
                        queue.put(EndPartition())
                    talk.send(self._state())
                elif "wait" in message:
                    # Looked at before: of a function that has ended there are no more results.
                    state = self._state(starved=queue.starved)
                    seconds = min(float(message["wait"]), TURN)
                    found = self._hub.wait(part.source, results, seconds)
                    state |= {"left": part.source.left, "results": len(found)}
                    try:
                        talk.send(state, pack(found) if found else ())
                    except DataError as error:
                        talk.send({"unsendable": str(error)})
                        raise
                else:
                    raise RemoteProtocolError(f"Expected rows or a wait, got {sorted(message)}.")
        finally:
            if results:
                # Spark drops what an attempt has that fails, and another one wants it all.
                queue.forget(part.source)
            if results and not whole:
                queue.put(EndPartition())

    def _put(self, talk: Talk, queue: RowQueue, payload: memoryview, part: _Part) -> None:
        rows = unpack(payload)
        while self._hub.open:
            if queue.put_rows(rows, part.source, TURN):
                part.blocks.append(len(rows))
                part.mark = mark_of(payload, part.mark)
                return
            talk.send(self._state(busy=True))
            talk.receive()

    def _state(self, **more: object) -> dict[str, object]:
        hub = self._hub
        own = {"state": hub.get("state"), "failure": hub.failure, "taken": hub.rows_taken}
        return {**own, **more}
