"""The live view of a TensorFlow cluster in a notebook's cell."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import Any
from uuid import uuid4

from ..nodes.runs import ClusterRun
from .cluster_picture import ClusterNews, bundle, news
from .news import Plain
from .pump import PUMP, Pump
from .run_view import WIDGET

logger = logging.getLogger(__name__)

HEARTBEAT = 1.5
"""Seconds without news after which an active cluster is heard of all the same."""


def cluster_view(run: ClusterRun) -> ClusterView:
    """Return a live view of a cluster, to stand at the end of a cell or to `show`."""
    return ClusterView(run)


class ClusterView:
    """Shows a cluster while it runs, with a button that stops it.

    Any number of views of one cluster work side by side. When it ends, each output becomes a still
    picture.

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
        self._pump = pump
        self._control = RunControl()
        self._stream = ClusterStream(control=self._control)
        self._control.on_msg(self._receive)
        self._lock = threading.Lock()
        self._outputs: list[tuple[Any, contextvars.Context]] = []
        self._settled = threading.Event()
        self._asked = threading.Event()
        self._known: object = None
        self._sent = 0.0
        self._closed = False
        pump.add(self)

    def show(self) -> None:
        """Display the view in the current cell; the end replaces it by a still picture."""
        from IPython.display import display

        with self._lock:
            live = self._live
            handle = display(self._bundle(live), raw=True, display_id=uuid4().hex)
            if live and handle is not None:
                # The cell that a thread's output belongs to is known by context.
                self._outputs.append((handle, contextvars.copy_context()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the cluster has ended and every output shows its still picture.

        Returns
        -------
        bool
            False if `timeout` seconds were not enough.
        """
        return self._settled.wait(timeout)

    def close(self) -> None:
        """Take the view out of the notebook's front end; the cluster continues. Idempotent."""
        self._closed = True
        self._stream.close()
        self._control.close()

    def tick(self, now: float) -> bool:
        """Send what is new; the pump calls this. Return whether more may follow."""
        if self._closed:
            self._settled.set()
            return False
        over, found = not self._run.active, news(self._run)
        self._send(found, now, over)
        if over:
            self._settle(found)
        return not over

    def _send(self, found: ClusterNews, now: float, over: bool) -> None:
        stands = {**found, "elapsed": 0.0}
        late = now - self._sent >= HEARTBEAT
        if not (self._asked.is_set() or stands != self._known or late):
            return
        self._asked.clear()
        self._known, self._sent = stands, now
        self._stream.send({"type": "cluster", "active": not over, "state": found})

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self._bundle(self._live)

    def _ipython_display_(self) -> None:
        self.show()

    @property
    def _live(self) -> bool:
        return self._run.active and not self._closed

    def _bundle(self, live: bool) -> dict[str, Any]:
        still: dict[str, Any] = dict(bundle(news(self._run)))
        if not live:
            return still
        reference = {"version_major": 2, "version_minor": 0, "model_id": self._stream.model_id}
        return {WIDGET: reference} | still

    def _settle(self, found: ClusterNews) -> None:
        with self._lock:
            outputs, self._outputs = self._outputs, []
        still = bundle(found)
        for handle, context in outputs:
            context.run(handle.update, still, raw=True)
        self._settled.set()

    def _receive(self, widget: Any, content: Any, buffers: object) -> None:
        kind = content.get("type") if isinstance(content, dict) else None
        if kind == "hello":
            self._asked.set()
            self._pump.add(self)
        elif kind == "command":
            widget.send(answer(self._run, content))
        else:
            logger.warning("Expected hello or a command from a view, got %.200r.", content)


def answer(run: ClusterRun, content: Plain) -> Plain:
    """Do what a front end asks of a cluster, and return the answer: it can be stopped."""
    said = {"type": "answer", "id": content.get("id")}
    if content.get("command") != "stop":
        text = f"Expected stop, got {content.get('command')!r}."
        return said | {"ok": False, "text": text}
    run.request_stop()
    return said | {"ok": True, "when": "now"}
