"""``run.figure()``: a run as a plotly figure that stands still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..events import Validated
from ..readable import one_line
from ..theory.predictions import gauges, mean_staleness
from .figure_marks import draw_steering
from .history import History
from .pictured import pictured
from .thinned import thin_out

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

LINES = 6
"""Lines of one panel at most: more could not be told apart."""

LABEL = 40
"""Characters of a name in a legend at most."""

INTERVALS = 60
"""Bars of the throughput at most; of the staleness, one more."""

MANY = 10
"""Versions up to which each staleness has a bar of its own, however rare it is."""

# Okabe and Ito's colours, which colour-blind people can tell apart; the dashes say it again.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GREY = "#8c8c8c"

STYLED = ("font", "paper_bgcolor", "plot_bgcolor", "xaxis", "yaxis", "hovermode")
"""What of a template shows in our figures."""

TITLES = ("Loss", "Throughput", "Milestones")

PARTS = {"compute": COLORS[0], "exchange": COLORS[4], "wait": GREY}
"""What a worker's time goes to."""

Vector = npt.NDArray[np.float64]


UNCOUNTED = (
    "Staleness is not shown: workers change variables<br>"
    "between each other's steps, and these changes are not counted."
)
"""Why."""


def figure(history: History, validation: Sequence[Validated] = ()) -> go.Figure:
    """Draw loss, throughput and milestones of a run, and its staleness or its workers' time.

    Parameters
    ----------
    history : History
        May be empty: the axes are drawn then.
    validation : sequence of Validated
        Evaluations to draw beside the training loss; those in `history` by default.

    Returns
    -------
    plotly.graph_objects.Figure
        Loss over samples (each milestone thin, smoothed thick, validation with markers, and a
        dotted line where each command came into force, but for pauses); samples
        per second over time; milestones of each executor over time, or of each partition if
        there is but one executor; how many milestones had which staleness. Time counts from
        the beginning of the first milestone. The staleness has its mean marked, and the mean that
        theory predicts of so many workers; below stand the gauges of `tos_notebook.theory`.
        Where all workers make each step together nothing is stale, and TensorFlow's own servers
        count no versions: instead, what share of its time each executor, or each partition,
        computes, exchanges and waits for the others.
    """
    from plotly.subplots import make_subplots

    frame = history.frame()
    last = "Staleness" if history.stale else "Time of workers"
    drawing = make_subplots(
        rows=2,
        cols=2,
        subplot_titles=[*TITLES, last],
        vertical_spacing=0.16,
        horizontal_spacing=0.1,
    )
    evaluations = list(validation or history.validated)
    if len(frame):
        _draw_loss(drawing, frame)
        draw_steering(drawing, history, frame["samples"].cumsum().to_numpy(np.float64), 1, 1)
        _draw_throughput(drawing, frame)
        _draw_milestones(drawing, frame)
        if history.stale:
            _draw_staleness(drawing, frame)
            _draw_theory(drawing, frame)
        else:
            _draw_times(drawing, frame)
            if not history.lockstep:
                _note_below(drawing, UNCOUNTED)
    if evaluations:
        _draw_validation(drawing, evaluations)
    _label(drawing, history.stale)
    return pictured(drawing)


def _label(drawing: go.Figure, stale: bool) -> None:
    texts = {
        (1, 1): ("samples trained", "loss (mean per sample)"),
        (1, 2): ("time (s)", "samples per second"),
        (2, 1): ("time (s)", "milestones"),
        (2, 2): ("staleness (versions)", "milestones") if stale else ("share of its time", ""),
    }
    for (row, col), (x, y) in texts.items():
        drawing.update_xaxes(title_text=x, rangemode="tozero", row=row, col=col)
        loss = (row, col) == (1, 1)
        drawing.update_yaxes(
            title_text=y, rangemode="normal" if loss else "tozero", row=row, col=col
        )
    drawing.update_layout(
        template=white(),
        height=640,
        margin={"t": 50, "b": 85},
        legend=_corner(x=0.45, y=1.0, xanchor="right"),  # of the loss, which falls
        legend2=_corner(x=0.01, y=0.42, xanchor="left"),  # of the milestones, which rise
    )


def _corner(**place: Any) -> dict[str, Any]:
    return {"yanchor": "top", "bgcolor": "rgba(255, 255, 255, 0.7)", **place}


def _draw_loss(drawing: go.Figure, frame: pd.DataFrame) -> None:
    samples = frame["samples"].cumsum().to_numpy(np.float64)
    raw = frame["loss"].to_numpy(np.float64)
    thin = line("each milestone", *thin_out(samples, raw), {"width": 1, "color": GREY})
    thin.opacity = 0.6
    drawing.add_trace(thin, row=1, col=1)
    smooth = thin_out(samples, smoothed(frame))
    style = {"width": 3, "color": COLORS[0]}
    drawing.add_trace(line("training, smoothed", *smooth, style), row=1, col=1)


def _draw_validation(drawing: go.Figure, evaluations: Sequence[Validated]) -> None:
    # A value is NaN where one evaluation lacks it; only the loss shares the axis.
    loss = np.array([e.values.get("loss", np.nan) for e in evaluations], np.float64)
    samples = np.array([e.samples for e in evaluations], np.float64)
    style = {"width": 2, "color": COLORS[1], "dash": DASHES[1]}
    trace = line("validation", *thin_out(samples, loss), style)
    trace.mode = "lines+markers" if len(loss) <= INTERVALS else "lines"
    drawing.add_trace(trace, row=1, col=1)


def _draw_throughput(drawing: go.Figure, frame: pd.DataFrame) -> None:
    import plotly.graph_objects as go

    seconds = since_start(frame)
    # Several milestones to an interval, or their order and not the speed would be seen.
    count = min(INTERVALS, max(1, len(frame) // (4 * frame["partition"].nunique())))
    edges = np.linspace(0.0, max(seconds.max(), 1e-9), count + 1)
    samples, _ = np.histogram(seconds, edges, weights=frame["samples"])
    bars = go.Bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=samples / np.diff(edges),
        width=np.diff(edges),
        name="samples per second",
        marker={"color": COLORS[0], "line": {"width": 0}},
        showlegend=False,
    )
    drawing.add_trace(bars, row=1, col=2)


def _draw_milestones(drawing: go.Figure, frame: pd.DataFrame) -> None:
    seconds = since_start(frame)
    for number, (name, own) in enumerate(_groups(frame)):
        style = {"width": 2, "color": COLORS[number], "dash": DASHES[number]}
        times, counts = np.sort(seconds[own]), np.arange(1.0, own.sum() + 1)
        trace = line(name, *thin_out(times, counts), style)
        trace.legend = "legend2"
        drawing.add_trace(trace, row=2, col=1)


def _groups(frame: pd.DataFrame) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield a name and its rows: each executor, or those with most, median and fewest."""
    by = "executor" if frame["executor"].nunique() > 1 else "partition"
    key = frame[by].to_numpy()
    counts = frame[by].value_counts(sort=False).sort_index().sort_values(kind="stable")
    if len(counts) <= LINES:
        chosen = {name: f"{by} {_text(name)}" for name in sorted(counts.index)}
    else:
        ends = {"most": -1, "median": len(counts) // 2, "fewest": 0}
        found = {word: counts.index[at] for word, at in ends.items()}
        chosen = {name: f"{word}: {by} {_text(name)}" for word, name in found.items()}
    for name, label in chosen.items():
        yield label, key == name


def _text(name: object) -> str:
    """Return a name in few characters; plotly takes some markup in its texts for its own."""
    return escape(one_line(str(name), LABEL), quote=False)


def _draw_times(drawing: go.Figure, frame: pd.DataFrame) -> None:
    import plotly.graph_objects as go

    groups = list(_groups(frame))
    sums = {part: [frame[part].to_numpy()[own].sum() for _, own in groups] for part in PARTS}
    totals = np.maximum(np.sum(list(sums.values()), axis=0), 1e-9)
    for part, color in PARTS.items():
        bars = go.Bar(
            x=np.array(sums[part]) / totals,
            y=[name for name, _ in groups],
            orientation="h",
            name=part,
            marker={"color": color, "line": {"width": 0}},
            legend="legend3",
        )
        drawing.add_trace(bars, row=2, col=2)
    # Below the bars, which fill the panel.
    place = _corner(x=1.0, y=-0.1, xanchor="right", orientation="h")
    drawing.update_layout(barmode="stack", legend3=place)
    drawing.update_xaxes(tickformat=".0%", range=[0, 1], row=2, col=2)


def _draw_staleness(drawing: go.Figure, frame: pd.DataFrame) -> None:
    import plotly.graph_objects as go

    staleness = frame["staleness"].to_numpy(np.int64)
    limit = _limit(staleness)
    width = limit // INTERVALS + 1
    counts = np.bincount(np.minimum(staleness, limit + 1) // width)
    values = np.arange(len(counts)) * width + (width - 1) / 2
    beyond = len(counts) - 1 if staleness.max() > limit else len(counts)
    bars = go.Bar(
        x=values,
        y=counts,
        width=0.9 * width,
        text=[f"{beyond * width} and more" if n == beyond else "" for n in range(len(counts))],
        textposition="outside",
        constraintext="none",
        # Of the last bar it is wider than what is left of the panel.
        cliponaxis=False,
        name="milestones",
        marker={"color": COLORS[2]},
        showlegend=False,
    )
    drawing.add_trace(bars, row=2, col=2)


def _limit(staleness: npt.NDArray[np.int64]) -> int:
    """Return up to where staleness is told apart."""
    # A worker that joins late has one huge value, which would squeeze all others together.
    return max(MANY, int(np.percentile(staleness, 99)))


def _draw_theory(drawing: go.Figure, frame: pd.DataFrame) -> None:
    staleness = frame["staleness"].to_numpy(np.int64)
    workers, measured = frame["workers"].mean(), staleness.mean()
    predicted = mean_staleness(workers)
    shown = min(staleness.max(), _limit(staleness))
    # Text that begins far to the right would leave the panel.
    side = "left" if max(measured, predicted) > shown / 2 else "right"
    # One above the other: they are to be close.
    marks = ((measured, "measured", "solid", 0), (predicted, "predicted, n − 1", "dash", -16))
    for at, word, dash, shift in marks:
        drawing.add_vline(
            at,
            line={"color": COLORS[1], "dash": dash, "width": 2},
            annotation={"text": f"mean {at:.2f} {word}", "yshift": shift, "showarrow": False},
            annotation_position=f"top {side}",
            row=2,
            col=2,
        )
    _note_below(drawing, _caption(workers, measured))


def _note_below(drawing: go.Figure, text: str) -> None:
    drawing.add_annotation(
        text=text,
        showarrow=False,
        font={"size": 11},
        x=0.5,
        xref="paper",
        y=0,
        yref="paper",
        yanchor="top",
        yshift=-48,
    )


def _caption(workers: float, staleness: float) -> str:
    stale, momentum, rate = gauges(workers, staleness)
    return (
        f"By the measured staleness (by theory for n = {workers:.3g} workers): "
        f"{stale.name} {stale.measured:.2f} ({stale.predicted:.2f}),<br>"
        f"{momentum.name} {momentum.measured:.2f} ({momentum.predicted:.2f}), "
        f"largest {rate.name} {rate.measured:.0%} ({rate.predicted:.0%}) of one worker's"
    )


def line(name: str, x: Vector, y: Vector, style: dict[str, Any]) -> go.Scatter:
    """Return a named line; plotly breaks it where a value is not finite."""
    import plotly.graph_objects as go

    # A page shows no more digits than a float32 has; a saved notebook would hold them all.
    x, y = x.astype(np.float32), y.astype(np.float32)
    return go.Scatter(x=x, y=y, name=name, mode="lines", line=style)


def white() -> go.layout.Template:
    """Return plotly's white template without what does not show: most of a small figure's bytes."""
    import plotly.graph_objects as go
    import plotly.io as pio

    layout = pio.templates["plotly_white"].layout
    return go.layout.Template(layout={name: layout[name] for name in STYLED})


def since_start(frame: pd.DataFrame) -> Vector:
    """Return each milestone's time in seconds since the first one began to be computed."""
    began = frame["time"] - frame["compute"] - frame["wait"] - frame["exchange"]
    seconds: Vector = (frame["time"] - began.min()).to_numpy(np.float64)
    return seconds


def smoothed(frame: pd.DataFrame) -> Vector:
    """Return the loss as a moving mean per sample over the milestones of all workers."""
    # Long enough that every partition has a say, and the line is smooth at any length.
    span = max(2 * frame["partition"].nunique(), len(frame) // 50, 10)
    total = (frame["loss"] * frame["samples"]).ewm(span=span).mean()
    # Of a loss that is unknown the samples do not count either.
    weight = frame["samples"].where(frame["loss"].notna()).ewm(span=span).mean()
    mean: Vector = (total / weight).to_numpy(np.float64)
    return mean
