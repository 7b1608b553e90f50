"""The comm targets by which a JupyterLab plug-in finds this kernel."""

from __future__ import annotations

import logging
from typing import Any

from comm import create_comm, get_comm_manager

from .._version import __version__
from ..cluster.executors import active_context, is_running
from ..cluster.summary import ClusterSummary, summary
from ..training import factory
from ..training.run import viewers
from ..widgets.live_view import settle_here
from ..widgets.run_view import show
from .hub import PageSession, RunHub

logger = logging.getLogger(__name__)

CONTROL, STREAM, KERNEL = "tos.control", "tos.stream", "tos.kernel"
"""The targets that a page opens; and the comm that a kernel opens to say that it has them."""


class Targets:
    """What is registered in one notebook.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.hub = RunHub(lambda: cell_id(shell), cluster)
        self._spark: object = None
        self._here: Any = None

    def register(self, announce: bool) -> None:
        """Serve pages from now on; tell those that are open, if anybody looks."""
        manager = get_comm_manager()
        manager.register_target(CONTROL, self._control)
        manager.register_target(STREAM, self._stream)
        factory.watchers.append(self.hub.watch)
        viewers.append(show)
        self._shell.events.register("post_run_cell", self._after_cell)
        if getattr(self._shell, "kernel", None) is None:
            return
        if not announce:
            self._stay(None)
        else:
            self._here = create_comm(target_name=KERNEL, data={"version": __version__})
            self._here.on_close(self._stay)

    def unregister(self) -> None:
        """Undo it; the pages are sent away."""
        manager = get_comm_manager()
        manager.unregister_target(CONTROL, self._control)
        manager.unregister_target(STREAM, self._stream)
        factory.watchers.remove(self.hub.watch)
        viewers.remove(show)
        self._shell.events.unregister("post_run_cell", self._after_cell)
        self.hub.close()
        if self._here is not None:
            self._here.on_close(None)
            self._here.close()

    def _stay(self, message: Any) -> None:
        """Remain to be found: a front end without the plug-in refuses what it does not know."""
        self._here = create_comm(target_name=KERNEL, primary=False)
        self._here.on_close(self._stay)
        get_comm_manager().register_comm(self._here)

    def _control(self, comm: Any, message: Any) -> None:
        page = PageSession(_page_name(message), comm, self.hub)
        comm.on_msg(lambda m: page.receive(m["content"]["data"]))
        comm.on_close(lambda m: page.close())
        self.hub.enter(page)

    def _stream(self, comm: Any, message: Any) -> None:
        page = self.hub.find(_page_name(message))
        if page is None:
            raise ValueError(f"Expected {CONTROL} of the page to be open before {STREAM}.")
        page.attach(comm)

    def _after_cell(self, result: object) -> None:
        """Notice what a cell has done to Spark, and that runs ended where no page looks."""
        if not self.hub.pages:
            settle_here()
        sc = active_context()
        if sc is not self._spark:
            self._spark = sc
            self.hub.wake()


def cell_id(shell: Any) -> str | None:
    """Return the id of the cell whose execution this is; None where a front end names none.

    Parameters
    ----------
    shell : InteractiveShell or None
    """
    header = getattr(shell, "parent_header", None) or {}
    found = header.get("metadata", {}).get("cellId")
    return found if isinstance(found, str) and found else None


def cluster() -> ClusterSummary | None:
    """Return what the panel says of Spark; None if none runs."""
    sc = active_context()
    if sc is None or not is_running(sc):
        return None
    try:
        return summary(sc)
    except Exception:
        # Its JVM may be going down just now.
        logger.debug("Spark did not say what it is.", exc_info=True)
        return None


def _page_name(message: Any) -> str:
    data = message["content"].get("data")
    name = data.get("page") if isinstance(data, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError("Expected the page's name in the data of comm_open.")
    return name
