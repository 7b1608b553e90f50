"""The live view of a run in a notebook's cell."""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import Any
from uuid import uuid4

from ..readable import all_readable
from ..training.run import Run
from .control import Steering
from .facts import RunFacts
from .feed import Feed
from .model import model_of
from .picture import bundle
from .pump import PUMP, Pump

logger = logging.getLogger(__name__)

WIDGET = "application/vnd.jupyter.widget-view+json"

RUN = "application/vnd.tos-notebook.run+json"
"""Names a run that trains, for a front end with a plug-in that shows it by its own means."""


def view(run: Run) -> RunView:
    """Return a live view of a run, to stand at the end of a cell or to `show`.

    A run that has ended is shown as a still picture.

    Parameters
    ----------
    run : Run
        Started after ``%load_ext tos_notebook``, or with a `RunModel` among its sinks.

    Raises
    ------
    ConfigError
        The run was not watched.
    """
    return RunView(run)


class RunView:
    """Shows a run while it trains, and lets a person steer it.

    Any number of views of one run work side by side. When the run ends, each output becomes a
    still picture: a notebook that is opened later has no widget to show.

    Parameters
    ----------
    run : Run
        With a `RunModel` among its sinks.
    pump : Pump, optional
        Feeds the view; the process's own by default.

    Raises
    ------
    ConfigError
        The run has no such sink.
    """

    def __init__(self, run: Run, pump: Pump = PUMP) -> None:
        # Loads anywidget and the front end, which only a live view needs.
        from .comms import RunControl, RunStream

        self.model = model = model_of(run)
        self._facts = RunFacts(run)
        self._pump = pump
        self._control = RunControl()
        self._stream = RunStream(control=self._control)
        self._feed = Feed(model, self._facts, self._stream.send)
        self._steering = Steering(self._facts, model)
        self._control.on_msg(self._receive)
        self._lock = threading.Lock()
        self._outputs: list[tuple[Any, contextvars.Context]] = []
        self._settled = threading.Event()
        self._closed = False
        pump.add(self)

    def show(self) -> None:
        """Display the view in the current cell; the run's end replaces it by a still picture."""
        from IPython.display import display

        with self._lock:
            live = self._live
            handle = display(self._bundle(live), raw=True, display_id=uuid4().hex)
            if live and handle is not None:
                # The cell that a thread's output belongs to is known by context.
                self._outputs.append((handle, contextvars.copy_context()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended and every output shows its still picture.

        Returns
        -------
        bool
            False if `timeout` seconds were not enough.
        """
        return self._settled.wait(timeout)

    def close(self) -> None:
        """Take the view out of the notebook's front end; the run continues. Idempotent."""
        self._closed = True
        self._stream.close()
        self._control.close()

    def tick(self, now: float) -> bool:
        """Send what is new; the pump calls this. Return whether more may follow."""
        if self._closed:
            self._settled.set()
            return False
        over = self._over
        self._feed.tick(now, last=over)
        if over:
            self._settle()
        return not over

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self._bundle(self._live)

    def _ipython_display_(self) -> None:
        self.show()

    @property
    def _over(self) -> bool:
        return self.model.ended or not self._facts.active

    @property
    def _live(self) -> bool:
        return not (self._over or self._closed)

    def _bundle(self, live: bool) -> dict[str, Any]:
        still: dict[str, Any] = dict(bundle(self.model, self._facts))
        if not live:
            return still
        reference = {"version_major": 2, "version_minor": 0, "model_id": self._stream.model_id}
        shown: dict[str, Any] = {WIDGET: reference} | still
        if not self.model.announced:
            return shown
        facts = self._facts()
        return {RUN: {"run": facts["id"], "number": facts["number"]}} | shown

    def _settle(self) -> None:
        with self._lock:
            outputs, self._outputs = self._outputs, []
        still = bundle(self.model, self._facts)
        for handle, context in outputs:
            context.run(handle.update, still, raw=True)
        self._settled.set()

    def _receive(self, widget: Any, content: Any, buffers: object) -> None:
        kind = content.get("type") if isinstance(content, dict) else None
        if kind == "hello":
            self._feed.hello()
            self._pump.add(self)
        elif kind == "command":
            widget.send(all_readable(self._steering(content)))
        else:
            logger.warning("Expected hello or a command from a view, got %.200r.", content)
