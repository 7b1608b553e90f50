"""What was steered, as lines in the panels of ``run.figure()``."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..readable import one_line
from ..steering.machine import Command
from .history import History
from .steered import IN_FORCE

if TYPE_CHECKING:
    import plotly.graph_objects as go

GREY = "#8c8c8c"

MOST = 30
"""Lines at most, the latest: more would hide what they are about."""

LABEL = 24
"""Characters of what was asked that stand at a line."""

PAUSES = (Command.PAUSE, Command.UNPAUSE)
"""They change nothing of what is trained."""


def draw_steering(
    drawing: go.Figure, history: History, samples: npt.NDArray[np.float64], row: int, col: int
) -> None:
    """Draw a line where each command came into force.

    Parameters
    ----------
    drawing : plotly.graph_objects.Figure
    history : History
    samples : ndarray, shape (milestones,), float64
        Trained by the end of each milestone: the panel's x axis.
    row, col : int
        The panel's place.
    """
    steered = [
        entry
        for entry in history.steered()
        if entry["state"] == IN_FORCE and entry["command"] not in PAUSES
    ]
    for entry in steered[-MOST:]:
        at = min(int(entry["milestones"]), len(samples)) - 1
        drawing.add_vline(
            float(samples[at]) if at >= 0 else 0.0,
            line={"color": GREY, "dash": "dot", "width": 1},
            annotation={
                "text": escape(one_line(_told(entry), LABEL), quote=False),
                "textangle": -90,
                "font": {"size": 10},
                "yanchor": "bottom",
                "y": 0.0,
            },
            annotation_position="bottom right",
            row=row,
            col=col,
        )


def _told(entry: Mapping[str, Any]) -> str:
    return str(entry["detail"] or entry["command"])
