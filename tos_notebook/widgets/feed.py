"""What one view is sent, and when: pure but for the `send` it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..readable import all_readable
from .model import RunModel
from .news import Cursor, Facts, News, Plain

HEARTBEAT = 1.5
"""Seconds without news after which an active run is heard of all the same."""

TABLE_RATE = 10_000
"""Bytes per second that the workers' table may take."""

ROW_BYTES = 360
"""Of one row of the table, as JSON."""

TABLE_INTERVAL = 0.5
"""Seconds between two tables at least."""


Send = Callable[[Plain, list[bytes]], object]
"""Sends one message, content and buffers, to a front end."""


class Feed:
    """Snapshots and deltas of one run for one view.

    Nothing is sent until a view says hello: before that, none hears it.

    Parameters
    ----------
    model : RunModel
    facts : callable
        Returns what the model does not know of the run.
    send : callable
        Takes content and buffers.
    """

    def __init__(self, model: RunModel, facts: Callable[[], Facts], send: Send) -> None:
        self._model = model
        self._facts = facts
        self._send = send
        self._asked = threading.Event()
        self._cursor: Cursor | None = None
        self._known: Facts | None = None
        self._seq = 0
        self._sent = self._tabled = 0.0

    def hello(self) -> None:
        """Ask for a snapshot at the next tick. Any thread may call this."""
        self._asked.set()

    def tick(self, now: float, last: bool) -> None:
        """Send what is new, if anything is.

        Parameters
        ----------
        now : float
            Seconds since the epoch.
        last : bool
            Whether the run has ended: all is sent that was held back.
        """
        facts = self._facts()
        if self._asked.is_set():
            # Before the snapshot is made: a view that asks from now on gets the next one.
            self._asked.clear()
            self._snapshot(now, facts)
        elif self._cursor is not None:
            self._delta(self._cursor, now, facts, last)

    def _snapshot(self, now: float, facts: Facts) -> None:
        self._tabled = now
        self._publish("snapshot", self._model.snapshot(now, facts), now, facts)

    def _delta(self, known: Cursor, now: float, facts: Facts, last: bool) -> None:
        late = now - self._sent >= HEARTBEAT
        if known.changes == self._model.changes and facts == self._known and not late:
            return
        table = last or now - self._tabled >= self._table_interval()
        news = self._model.delta(known, now, facts, table)
        if news is None:
            self._snapshot(now, facts)
            return
        if table:
            self._tabled = now
        self._publish("delta", news, now, facts)

    def _table_interval(self) -> float:
        return max(TABLE_INTERVAL, self._model.workers * ROW_BYTES / TABLE_RATE)

    def _publish(self, kind: str, news: News, now: float, facts: Facts) -> None:
        self._seq += 1
        self._cursor, self._known, self._sent = news.cursor, facts, now
        # A text that is no UTF-8 would end the view, or be lost on the way.
        state = all_readable(news.state)
        self._send({"type": kind, "seq": self._seq, "state": state}, news.buffers)
