"""Figures of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ...events import WeightsMeasured

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ...telemetry.history import History


def figure(history: History) -> go.Figure:
    """Return loss and staleness over samples; see `tos_notebook.Run.figure`."""
    from ...telemetry.figure import figure

    return figure(history)


def weights_figure(measured: Sequence[WeightsMeasured], names: Sequence[str]) -> go.Figure:
    """Return how the distribution of each parameter changes; see `Run.weights_figure`."""
    from ...telemetry.weights import weights_figure

    if not measured:
        raise ConfigError(
            "This run has no histograms of its weights. Start it with histograms=True, or "
            "with tensorboard=URI."
        )
    return weights_figure(measured, names)
