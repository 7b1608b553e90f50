"""What the live views of runs and of clusters have in common: outputs, their end, front ends."""

from __future__ import annotations

import contextvars
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from .pump import Pump

if TYPE_CHECKING:
    from .comms import ClusterStream, RunControl, RunStream

logger = logging.getLogger(__name__)

WIDGET = "application/vnd.jupyter.widget-view+json"


_unheard: set[LiveView] = set()
"""Shown, not over, and no front end has asked them for anything."""


def settle_here() -> None:
    """Show the still pictures of what has ended, as part of the cell that is executed.

    A program that executes a notebook takes what comes of the cell under execution only, and so
    misses what the pump sends of an earlier cell, or after the end of the last one.
    """
    for view in tuple(_unheard):
        view.settle_here()


class LiveView(ABC):
    """Shows something while it runs, and lets a person steer it.

    Any number of views of one thing work side by side. When it ends, each output becomes a still
    picture: a notebook that is opened later has no widget to show.

    Parameters
    ----------
    stream : RunStream or ClusterStream
        To the front ends.
    control : RunControl
        From them.
    pump : Pump
        Feeds the view.
    """

    def __init__(self, stream: RunStream | ClusterStream, control: RunControl, pump: Pump) -> None:
        self._stream, self._control, self._pump = stream, control, pump
        self._lock = threading.Lock()
        self._outputs: list[tuple[Any, contextvars.Context]] = []
        self._handles: list[Any] = []
        self._settled = threading.Event()
        self._closed = self._heard = False
        control.on_msg(self._receive)
        pump.add(self)

    @property
    @abstractmethod
    def _over(self) -> bool:
        """Whether it has ended."""

    @abstractmethod
    def _still(self) -> Mapping[str, Any]:
        """Return the still picture, by MIME types."""

    @abstractmethod
    def _send(self, now: float, over: bool) -> None:
        """Send what is new."""

    @abstractmethod
    def _hello(self) -> None:
        """Let a front end that has come have all."""

    @abstractmethod
    def _answer(self, content: dict[str, Any]) -> Any:
        """Do what a front end asks, and return the answer."""

    def _named(self) -> dict[str, Any]:
        """Return what names it to front ends that show it by their own means."""
        return {}

    def show(self) -> None:
        """Display the view in the current cell; the end replaces it by a still picture."""
        from IPython.display import display

        with self._lock:
            live = self._live
            handle = display(self._bundle(live), raw=True, display_id=uuid4().hex)
            if live and handle is not None:
                # The cell that a thread's output belongs to is known by context.
                self._outputs.append((handle, contextvars.copy_context()))
                self._handles.append(handle)
                if not self._heard:
                    _unheard.add(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it has ended and every output shows its still picture.

        Returns
        -------
        bool
            False if `timeout` seconds were not enough.
        """
        return self._settled.wait(timeout)

    def settle_here(self) -> None:
        """Show the still picture in this cell's name, if it is over; see `settle_here`."""
        if not self._over:
            return
        _unheard.discard(self)
        still = dict(self._still())
        for handle in self._handles:
            handle.update(still, raw=True)

    def close(self) -> None:
        """Take the view out of the notebook's front end; what it shows continues. Idempotent."""
        self._closed = True
        _unheard.discard(self)
        self._stream.close()
        self._control.close()

    def tick(self, now: float) -> bool:
        """Send what is new; the pump calls this. Return whether more may follow."""
        if self._closed:
            self._settled.set()
            return False
        over = self._over
        self._send(now, over)
        if over:
            self._settle()
        return not over

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self._bundle(self._live)

    def _ipython_display_(self) -> None:
        self.show()

    @property
    def _live(self) -> bool:
        return not (self._over or self._closed)

    def _bundle(self, live: bool) -> dict[str, Any]:
        still = dict(self._still())
        if not live:
            return still
        reference = {"version_major": 2, "version_minor": 0, "model_id": self._stream.model_id}
        return self._named() | {WIDGET: reference} | still

    def _settle(self) -> None:
        with self._lock:
            outputs, self._outputs = self._outputs, []
        still = dict(self._still())
        for handle, context in outputs:
            context.run(handle.update, still, raw=True)
        self._settled.set()

    def _receive(self, widget: Any, content: Any, buffers: object) -> None:
        kind = content.get("type") if isinstance(content, dict) else None
        if kind == "hello":
            self._heard = True
            _unheard.discard(self)
            self._hello()
            self._pump.add(self)
        elif kind == "command":
            widget.send(self._answer(content))
        else:
            logger.warning("Expected hello or a command from a view, got %.200r.", content)
