"""How the distributions of a model's weights change while it trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..common.histogram import Histogram
from ..errors import ConfigError
from ..events import WeightsMeasured
from .pictured import pictured

if TYPE_CHECKING:
    import plotly.graph_objects as go

ROWS = 60
"""Of a heat map."""

SHOWN = 6
"""Parameters that are shown where none are named: those with the widest range of values."""

HEIGHT = 220
"""Pixels of one heat map."""


def weights_figure(
    measured: Sequence[WeightsMeasured], names: Sequence[str] | None = None
) -> go.Figure:
    """Return a heat map for each parameter: samples across, values upwards, density as colour.

    Parameters
    ----------
    measured : sequence of WeightsMeasured
    names : sequence of str, optional
        Parameters; by default the `SHOWN` with the widest range.

    Raises
    ------
    ConfigError
        Nothing was measured, or a parameter's name is unknown.
    """
    if not measured:
        raise ConfigError(
            "This run has no histograms of its weights. Start it with histograms=True, or "
            "with tensorboard=URI."
        )
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    chosen = _chosen(measured[-1], names)
    figure = make_subplots(rows=len(chosen), cols=1, shared_xaxes=True, subplot_titles=chosen)
    samples = [event.samples for event in measured]
    for row, name in enumerate(chosen, start=1):
        histograms = [event.weights[name] for event in measured]
        edges = _common(histograms)
        density = np.stack([densities(h, edges) for h in histograms], axis=1)
        centers = (edges[:-1] + edges[1:]) / 2
        trace = go.Heatmap(x=samples, y=centers, z=density, colorscale="Viridis", showscale=False)
        figure.add_trace(trace, row=row, col=1)
    figure.update_xaxes(title_text="samples", row=len(chosen))
    return pictured(figure.update_layout(title="Weights", height=120 + HEIGHT * len(chosen)))


def _chosen(last: WeightsMeasured, names: Sequence[str] | None) -> list[str]:
    known = last.weights
    for name in names or ():
        if name not in known:
            raise ConfigError(f"Unknown parameter {name!r}; there are {', '.join(known)}.")
    if names:
        return list(names)
    widest = sorted(known, key=lambda n: float(known[n].edges[0] - known[n].edges[-1]))[:SHOWN]
    return [name for name in known if name in widest]


def _common(histograms: Sequence[Histogram]) -> npt.NDArray[np.float64]:
    low = min(float(h.edges[0]) for h in histograms)
    high = max(float(h.edges[-1]) for h in histograms)
    return np.linspace(low, high, ROWS + 1)


def densities(histogram: Histogram, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the share of the values in each of other bins, as if spread evenly within a bin.

    Parameters
    ----------
    histogram : Histogram
    edges : ndarray, shape (bins + 1,), float64

    Returns
    -------
    ndarray, shape (bins,), float64
        Its sum is 1 where the bins span the histogram's.
    """
    below = np.concatenate([[0.0], np.cumsum(histogram.counts)])
    shares = np.interp(edges, histogram.edges, below / max(below[-1], 1.0))
    return np.diff(shares)
