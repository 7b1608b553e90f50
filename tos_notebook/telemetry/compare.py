"""``tos.compare(first, second)``: several runs in one plotly figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..errors import ConfigError
from .figure import COLORS, DASHES, line, since_start, smoothed, thin_out, white

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

AXES = ("time (s)", "samples trained", "traffic (MB, both ways)")


class Comparable(Protocol):
    """What `compare` needs of a run."""

    @property
    def run_id(self) -> str:
        """Its name, unique in this process."""

    @property
    def number(self) -> int:
        """Counts the runs of this process."""

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone so far."""

    @property
    def settings(self) -> Any:
        """What is in force; `strategy_text` says how workers exchange."""


def compare(*runs: Comparable) -> go.Figure:
    """Draw the smoothed training loss of several runs over time, over samples and over bytes.

    Parameters
    ----------
    *runs : Run
        At least one, each with a milestone; they may still be training.

    Returns
    -------
    plotly.graph_objects.Figure
        Three panels with one line per run, named by the strategies and their settings if runs
        differ in them. Time counts from the beginning of a run's first milestone; bytes are those
        of its exchanges, both ways.

    Raises
    ------
    ConfigError
        No run was given, or what is no run, or one has no milestone yet.
    """
    from plotly.subplots import make_subplots

    for given in runs:
        if not hasattr(type(given), "history"):
            raise ConfigError(f"Expected runs to compare, got {given!r}. Use compare(a, b).")
    frames = [(run, _milestones(run)) for run in dict.fromkeys(runs)]
    if not frames:
        raise ConfigError("Expected at least one run to compare, got none. Use compare(a, b).")
    drawing = make_subplots(rows=1, cols=len(AXES), shared_yaxes=True, horizontal_spacing=0.05)
    several = len({run.settings.strategy_text for run, _ in frames}) > 1
    for order, (run, frame) in enumerate(frames):
        strategy = f", {run.settings.strategy_text}" if several else ""
        _draw(drawing, f"run {run.number}{strategy}", frame, order)
    for col, text in enumerate(AXES, start=1):
        drawing.update_xaxes(title_text=text, rangemode="tozero", row=1, col=col)
    drawing.update_yaxes(title_text="loss (smoothed)", row=1, col=1)
    drawing.update_layout(
        template=white(),
        height=420,
        margin={"t": 50},
        legend={"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"},
    )
    return drawing


def _milestones(run: Comparable) -> pd.DataFrame:
    frame = run.history
    if frame.empty:
        raise ConfigError(
            f"Expected runs with at least one milestone, but run {run.number} ({run.run_id}) has "
            "none. Wait until it has trained, or leave it out."
        )
    return frame


def _draw(drawing: go.Figure, name: str, frame: pd.DataFrame, order: int) -> None:
    loss = smoothed(frame)
    traffic = (frame["bytes_up"] + frame["bytes_down"]).cumsum().to_numpy(np.float64) / 1e6
    samples = frame["samples"].cumsum().to_numpy(np.float64)
    # Colours come round again after the sixth run, with other dashes.
    dash = DASHES[(order + order // len(COLORS)) % len(DASHES)]
    style: dict[str, Any] = {"width": 2.5, "color": COLORS[order % len(COLORS)], "dash": dash}
    for col, x in enumerate((since_start(frame), samples, traffic), start=1):
        trace = line(name, *thin_out(x, loss), style)
        trace.update(legendgroup=name, showlegend=col == 1)
        drawing.add_trace(trace, row=1, col=col)
