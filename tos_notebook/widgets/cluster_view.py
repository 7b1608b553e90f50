"""The live view of a TensorFlow cluster in a notebook's cell."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ..nodes.runs import ClusterRun
from .cluster_picture import bundle, news
from .live_view import LiveView
from .news import Plain
from .pump import PUMP, Pump

CLUSTER = "application/vnd.tos-notebook.cluster+json"
"""Names a cluster, for a front end that puts its picture into the notebook after a reload."""

HEARTBEAT = 1.5
"""Seconds without news after which an active cluster is heard of all the same."""


def cluster_view(run: ClusterRun) -> ClusterView:
    """Return a live view of a cluster, for the last line of a cell or to `show`."""
    return ClusterView(run)


class ClusterView(LiveView):
    """Shows a cluster while it runs, with a button that stops it; see `LiveView`.

    Parameters
    ----------
    run : ClusterRun
    pump : Pump, optional
        Feeds the view; the process's own by default.
    """

    def __init__(self, run: ClusterRun, pump: Pump = PUMP) -> None:
        # Loads anywidget and the front end, which only a live view needs.
        from .comms import ClusterStream, RunControl

        self._run = run
        self._asked = threading.Event()
        self._known: object = None
        self._sent = 0.0
        control = RunControl()
        super().__init__(ClusterStream(control=control), control, pump)

    @property
    def _over(self) -> bool:
        return not self._run.active

    def _still(self) -> Mapping[str, Any]:
        return bundle(news(self._run))

    def _named(self) -> dict[str, Any]:
        return {CLUSTER: {"cluster": self._run.id}}

    def _send(self, now: float, over: bool) -> None:
        found = news(self._run)
        stands = {**found, "elapsed": 0.0}
        late = now - self._sent >= HEARTBEAT
        if not (self._asked.is_set() or stands != self._known or late):
            return
        self._asked.clear()
        self._known, self._sent = stands, now
        self._stream.send({"type": "cluster", "active": not over, "state": found})

    def _hello(self) -> None:
        self._asked.set()

    def _answer(self, content: dict[str, Any]) -> Plain:
        return answer(self._run, content)


def answer(run: ClusterRun, content: Plain) -> Plain:
    """Do what a front end asks of a cluster, and return the answer: it can be stopped."""
    said = {"type": "answer", "id": content.get("id")}
    if content.get("command") != "stop":
        text = f"Expected stop, got {content.get('command')!r}."
        return said | {"ok": False, "text": text}
    run.request_stop()
    return said | {"ok": True, "when": "now"}
