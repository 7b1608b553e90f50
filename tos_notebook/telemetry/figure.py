"""``run.figure()``: loss and staleness of a run as a plotly figure that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .history import History

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

POINTS = 1000
"""Points per line at most; longer ones are averaged, so that a long run's page stays small."""

Vector = npt.NDArray[np.float64]


def figure(history: History) -> go.Figure:
    """Draw loss and staleness over the samples trained, in the order of the commits.

    Parameters
    ----------
    history : History
        May be empty: the axes are drawn then.

    Returns
    -------
    plotly.graph_objects.Figure
        First row: the loss, a thin line per partition and a thick smoothed one over all. Second
        row: the staleness in versions.
    """
    from plotly.subplots import make_subplots

    frame = history.frame()
    drawing = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3])
    samples = frame["samples"].cumsum().to_numpy(np.float64)
    _draw_partitions(drawing, frame, samples)
    if len(frame):
        smooth = _smoothed(frame).to_numpy(np.float64)
        _draw(drawing, samples, smooth, 1, "all, smoothed", width=3, color="#d62728")
        stale = frame["staleness"].to_numpy(np.float64)
        _draw(drawing, samples, stale, 2, "staleness", width=1, color="#7f7f7f")
    drawing.update_yaxes(title_text="loss (mean per sample)", row=1, col=1)
    drawing.update_yaxes(title_text="staleness (versions)", rangemode="tozero", row=2, col=1)
    drawing.update_xaxes(title_text="samples trained", rangemode="tozero", row=2, col=1)
    drawing.update_layout(template="plotly_white", height=600, margin={"t": 40})
    return drawing


def _draw_partitions(drawing: go.Figure, frame: pd.DataFrame, samples: Vector) -> None:
    partition_of = frame["partition"].to_numpy()
    loss = frame["loss"].to_numpy(np.float64)
    for partition in np.unique(partition_of):
        own = partition_of == partition
        name = f"partition {partition}"
        _draw(drawing, samples[own], loss[own], 1, name, width=0.7, opacity=0.6)


def _draw(
    drawing: go.Figure,
    x: Vector,
    y: Vector,
    row: int,
    name: str,
    *,
    width: float,
    color: str | None = None,
    opacity: float = 1.0,
) -> None:
    import plotly.graph_objects as go

    line: dict[str, Any] = {"width": width, "color": color}
    x, y = thin_out(x, y)
    trace = go.Scatter(x=x, y=y, name=name, mode="lines", line=line, opacity=opacity)
    drawing.add_trace(trace, row=row, col=1)


def _smoothed(frame: pd.DataFrame) -> pd.Series:
    # Long enough that every partition has a say, and the line is smooth at any length.
    span = max(2 * frame["partition"].nunique(), len(frame) // 50, 10)
    return frame["loss"].ewm(span=span).mean()


def thin_out(x: Vector, y: Vector, points: int = POINTS) -> tuple[Vector, Vector]:
    """Average neighbours until at most `points` are left; fewer are returned as they are.

    Parameters
    ----------
    x, y : ndarray, shape (n,), float64
    points : int

    Returns
    -------
    tuple of ndarray, each of shape (m,), float64, with m <= `points`
    """
    if len(x) <= points:
        return x, y
    group = -(-len(x) // points)
    starts = np.arange(0, len(x), group)
    counts = np.diff(np.append(starts, len(x)))
    return np.add.reduceat(x, starts) / counts, np.add.reduceat(y, starts) / counts
