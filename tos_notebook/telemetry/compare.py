"""``tos.compare(first, second)``: several runs as a table and a plotly figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.checks import with_known_options
from ..errors import ConfigError
from ..readable import ipython_shell, one_line
from .comparison_table import (
    MISSING,
    Comparable,
    differing,
    reached_by_all,
    readable_table,
    table,
    titles,
)
from .figure import COLORS, DASHES, GREY, LABEL, line, since_start, smoothed, white
from .pictured import pictured
from .thinned import thin_out

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

AXES = ("time (s)", "samples trained", "traffic (MB, both ways)")

SAID = 2
"""Settings in the legend at most."""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A comparison of several runs: shows its table and its figure at the end of a cell.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each run, by its name. First the settings in which the runs differ, as text, as
        they were at the end, and how often a run was steered. Then the best value of each that the
        validation has, ``best val_accuracy``, or the last one if its name does not say which is
        best; and the recent training loss. Then the seconds to the lowest smoothed loss that all
        runs reached, samples a second without pauses, and megabytes sent both ways. Loss and
        samples a
        second are those of views and lists. What is not known is NaN; a cell shows "diverged" for a
        loss that is not finite, and "–" for all else.
    figure : plotly.graph_objects.Figure
        The smoothed training loss over time, samples and bytes, with one line per run. Time counts
        from the beginning of a run's first milestone; bytes are those of its exchanges, both ways.
        A dotted line is the least loss that all runs reached.
    """

    table: pd.DataFrame
    figure: go.Figure

    def __repr__(self) -> str:
        return str(readable_table(self.table).to_string())

    def _ipython_display_(self) -> None:
        shell = ipython_shell()
        if shell is None:
            raise NotImplementedError
        for part in (readable_table(self.table), self.figure):
            # A figure that shows itself has nothing for this.
            data, metadata = shell.display_formatter.format(part)
            images = [kind for kind in data if kind.startswith("image/")]
            described = {kind: {"alt": self._alt} | metadata.get(kind, {}) for kind in images}
            if data:
                shell.display_pub.publish(data, metadata | described)

    @property
    def _alt(self) -> str:
        """What the figure shows, for who does not see it."""
        names = ", ".join(str(name) for name in self.table.index)
        return f"Training loss of {names}, over {', '.join(AXES)}; the table has the numbers."


@with_known_options
def compare(*runs: Comparable | Sequence[Comparable]) -> Comparison:
    """Compare several runs, in a table and in a figure.

    Parameters
    ----------
    *runs : Run, SavedRun, or list of them
        At least one, each with a milestone; they may still be training. ``tos.runs(uri)`` is such
        a list.

    Returns
    -------
    Comparison
        Shows both in a notebook; ``.table`` and ``.figure`` are a DataFrame and a plotly figure.

    Raises
    ------
    ConfigError
        No run was given, or something else, or an option, or a run without a milestone.
    """
    several: Any = [each if isinstance(each, list | tuple) else [each] for each in runs]
    for given in chain(*several):
        if not hasattr(type(given), "history"):
            named = " %tos_compare takes names." if isinstance(given, str) else ""
            raise ConfigError(f"Expected runs to compare, got {given!r}. Use compare(a, b).{named}")
    known: list[Comparable] = list(dict.fromkeys(chain(*several)))
    if not known:
        raise ConfigError("Expected at least one run to compare, got none. Use compare(a, b).")
    names = titles(known)
    frames = [_milestones(run, name) for run, name in zip(known, names, strict=True)]
    goal = reached_by_all(frames)
    return Comparison(table(known, frames, goal), _figure(_labels(known, names), frames, goal))


def _labels(runs: list[Comparable], names: list[str]) -> list[str]:
    """Return each run's name with what makes it differ."""
    said = list(differing(runs).items())[:SAID]
    labels = []
    for number, name in enumerate(names):
        values = [
            f"{what.replace('_', ' ')} {texts[number]}"
            for what, texts in said
            if texts[number] != MISSING
        ]
        # Plotly takes some markup in its texts for its own.
        label = (escape(one_line(each, LABEL), quote=False) for each in (name, *values))
        labels.append(", ".join(label))
    return labels


def _figure(labels: list[str], frames: list[pd.DataFrame], goal: float) -> go.Figure:
    from plotly.subplots import make_subplots

    drawing = make_subplots(rows=1, cols=len(AXES), shared_yaxes=True, horizontal_spacing=0.05)
    for order, (label, frame) in enumerate(zip(labels, frames, strict=True)):
        _draw(drawing, label, frame, order)
    for col, text in enumerate(AXES, start=1):
        drawing.update_xaxes(title_text=text, rangemode="tozero", row=1, col=col)
    if math.isfinite(goal):
        drawing.add_hline(goal, line={"color": GREY, "dash": "dot", "width": 1})
    drawing.update_yaxes(title_text="loss (smoothed)", row=1, col=1)
    drawing.update_layout(
        template=white(),
        height=420,
        margin={"t": 50},
        legend={"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"},
    )
    return pictured(drawing)


def _milestones(run: Comparable, name: str) -> pd.DataFrame:
    frame = run.history
    if frame.empty:
        raise ConfigError(
            f"Expected runs with at least one milestone, but {name} has none. Wait until it has "
            "trained, or leave it out."
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
