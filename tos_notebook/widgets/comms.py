"""The two channels of a view to its front end.

Two, because the pump's thread publishes on one of them without end, and a kernel may take that
for where the front end wants to be served.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets

STATIC = Path(__file__).parent / "static"


class RunControl(ipywidgets.Widget):  # type: ignore[misc]
    """From the front end to the kernel: hello and commands, and their answers. Has no view."""

    def open(self) -> None:
        """Open the channel; it stays free while a cell runs, where a kernel has subshells."""
        super().open()
        _serve_where_asked(self.comm)


class RunStream(anywidget.AnyWidget):
    """From the kernel to the front end: snapshots and deltas. What is displayed."""

    _esm = STATIC / "run_view.js"
    _css = STATIC / "run_view.css"
    control = traitlets.Instance(RunControl).tag(sync=True, **ipywidgets.widget_serialization)


class ClusterStream(anywidget.AnyWidget):
    """From the kernel to the front end: a cluster as it stands. What is displayed."""

    _esm = STATIC / "cluster_view.js"
    _css = STATIC / "run_view.css"
    control = traitlets.Instance(RunControl).tag(sync=True, **ipywidgets.widget_serialization)


def _serve_where_asked(comm: Any) -> None:
    """Let the kernel handle a message on the subshell that it was sent to.

    ipykernel 7.4 sends it to the subshell that published on the comm last, and opening it counts:
    all would wait behind the cell that shows the view, a ``--wait`` included, and after a reload
    go to a subshell that is gone. Other versions have no such method, and nothing changes.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
