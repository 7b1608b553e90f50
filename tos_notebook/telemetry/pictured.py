"""A plotly figure that also shows where no script runs: with a still picture beside it."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from functools import partial
from html import escape, unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..readable import counted, ipython_shell, shortened
from .heat import heat_image
from .thinned import thin_out

if TYPE_CHECKING:
    import plotly.graph_objects as go

PLOTLY = "application/vnd.plotly.v1+json"

WIDTH, SHRUNK = 820, 0.7
"""Pixels of the picture's width, and its height beside the figure's."""

LEFT, RIGHT, TOP, BOTTOM = 60, 10, 40, 40
POINTS = 60
"""Of a line at most."""

LETTER = 6.2
"""Pixels of one, about."""

ROW, ROWS = 16, 8
"""Pixels of a row of the legend, and how many it has at most."""

INK, COLOR = "#1f2328", "#8c8c8c"

Vector = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]
"""Left, right, bottom and top, in pixels."""


def pictured(drawing: go.Figure) -> go.Figure:
    """Have a figure bring its picture along wherever a cell shows it; return the figure."""
    drawing._ipython_display_ = partial(_display, drawing)
    drawing.show = partial(_show, drawing)
    return drawing


def _display(drawing: go.Figure) -> None:
    import plotly.io as pio

    if not (pio.renderers.render_on_display and _published(drawing)):
        # As the user has set plotly up.
        type(drawing)._ipython_display_(drawing)


def _show(drawing: go.Figure, *options: Any, **more: Any) -> None:
    if options or more or not _published(drawing):
        type(drawing).show(drawing, *options, **more)


def _published(drawing: go.Figure) -> bool:
    """Show a figure with its picture; return whether plotly is set up for pages that know it."""
    import plotly.io as pio

    shell = ipython_shell()
    bundle = drawing._repr_mimebundle_() if shell is not None and pio.renderers.default else {}
    if PLOTLY not in bundle or "text/html" in bundle:
        return False
    # A page that knows plotly takes the first.
    still = {"text/html": _image(drawing), "text/plain": _in_words(drawing)}
    shell.display_pub.publish(bundle | still)
    return True


def _image(drawing: go.Figure) -> str:
    legend, rows = _legend(drawing)
    # What the legend needs besides its first row is added above the panels.
    above = ROW * (rows - 1)
    height = _height(drawing) + above
    panels = (part for key, traces in _panels(drawing) for part in _panel(drawing, key, traces))
    svg = "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="11" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *legend,
            f'<g transform="translate(0 {above})">',
            *panels,
            "</g></svg>",
        ]
    )
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(_in_words(drawing))}" '
        f'width="{WIDTH}" height="{height}" style="max-width:100%;height:auto">'
    )


def _in_words(drawing: go.Figure) -> str:
    axes = [
        " over ".join(filter(None, (_title(drawing, y), _title(drawing, x))))
        for (x, y), _ in _panels(drawing)
    ]
    names = dict.fromkeys(name for name, _ in _named(drawing))
    return f"{'; '.join(axes) or 'Nothing yet'}. Shown: {', '.join(names) or _count(drawing)}."


def _count(drawing: go.Figure) -> str:
    """Return how many traces without names there are, in words."""
    traces = [trace for _, traces in _panels(drawing) for trace in traces]
    maps = sum(trace.type == "heatmap" for trace in traces)
    series = len(traces) - maps
    parts = [counted(maps, "heat map")] if maps else []
    parts += [f"{series} series"] if series else []
    return ", ".join(parts) or "nothing"


def _panels(drawing: go.Figure) -> list[tuple[tuple[str, str], list[Any]]]:
    """Return the traces of each pair of axes."""
    found: dict[tuple[str, str], list[Any]] = {}
    for trace in drawing.data:
        if trace.type in ("scatter", "bar", "heatmap") and trace.x is not None and len(trace.x):
            found.setdefault((trace.xaxis or "x", trace.yaxis or "y"), []).append(trace)
    return list(found.items())


def _axis(drawing: go.Figure, name: str) -> Any:
    return drawing.layout[f"{name[0]}axis{name[1:]}"]


def _title(drawing: go.Figure, name: str) -> str:
    text, number = _axis(drawing, name).title.text or "", int(name[1:] or 1)
    if not text and name[0] == "y":
        # The subplots' own titles come first among the annotations.
        text = next((a.text for a in drawing.layout.annotations[number - 1 : number]), "")
    return unescape(text)


def _height(drawing: go.Figure) -> int:
    return round(SHRUNK * (drawing.layout.height or 450))


def _box(drawing: go.Figure, key: tuple[str, str]) -> Box:
    height = _height(drawing)
    (left, right), (low, high) = (_axis(drawing, name).domain or (0.0, 1.0) for name in key)
    across, up = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM
    start, base = LEFT + left * across, height - BOTTOM - low * up
    return start, LEFT + right * across, base, height - BOTTOM - high * up


def _legend(drawing: go.Figure) -> tuple[list[str], int]:
    """Return the names and how many rows they take: a name that has no room begins another one."""
    parts: list[str] = []
    left, row = float(LEFT), 0
    named = _named(drawing)
    for number, (name, color) in enumerate(named):
        text = shortened(name, int((WIDTH - LEFT - 36) / LETTER))
        if left > LEFT and left + 30 + LETTER * len(text) > WIDTH:
            left, row = float(LEFT), row + 1
        y = ROW * row + 15
        if row == ROWS - 1:
            parts.append(f'<text x="{left:.0f}" y="{y}">and {len(named) - number} more</text>')
            break
        parts.append(f'<path d="M{left:.0f} {y - 4}h16" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{left + 20:.0f}" y="{y}">{escape(text)}</text>')
        left += 36 + LETTER * len(text)
    return parts, row + 1


def _named(drawing: go.Figure) -> list[tuple[str, str]]:
    shown = [trace for trace in drawing.data if trace.name and trace.showlegend is not False]
    return [(unescape(trace.name), _color(trace)) for trace in shown]


def _color(trace: Any) -> str:
    color = trace.line.color if trace.type == "scatter" else trace.marker.color
    return color if isinstance(color, str) else COLOR


def _panel(drawing: go.Figure, key: tuple[str, str], traces: list[Any]) -> Iterator[str]:
    left, right, base, top = _box(drawing, key)
    marks = list(_marks(traces))
    points = np.concatenate([corners for _, corners in marks])
    if not np.isfinite(points).any():
        return
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    low[0] = min(low[0], 0.0)
    span = np.where(high > low, high - low, 1.0)
    size, origin = np.array([right - left, top - base]), np.array([left, base])
    yield f'<path d="M{left:.0f} {top:.0f}V{base:.0f}H{right:.0f}" fill="none" stroke="{INK}"/>'
    ends = (low[0], left, "start"), (high[0], right, "end")
    for value, x, side in ends:
        yield f'<text x="{x:.0f}" y="{base + 14:.0f}" text-anchor="{side}">{_short(value)}</text>'
    for value, y in ((low[1], base), (high[1], top + 8)):
        yield f'<text x="{left - 4:.0f}" y="{y:.0f}" text-anchor="end">{_short(value)}</text>'
    middle = (left + right) / 2
    for name, y in ((key[0], base + 27), (key[1], top - 6)):
        text = escape(_title(drawing, name))
        yield f'<text x="{middle:.0f}" y="{y:.0f}" text-anchor="middle">{text}</text>'
    for trace, corners in marks:
        yield _mark(trace, origin + (corners - low) / span * size)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _marks(traces: list[Any]) -> Iterator[tuple[Any, Vector]]:
    """Yield each trace with the corners of its line or bars; what is not finite parts them."""
    begun: Vector | float = 0.0
    for trace in traces:
        if trace.type == "heatmap":
            yield trace, np.array([[each[0], each[-1]] for each in (trace.x, trace.y)]).T
        elif trace.type == "scatter":
            x, y = (np.asarray(values, np.float64) for values in (trace.x, trace.y))
            yield trace, np.stack(thin_out(x, y, POINTS), axis=1)
        elif trace.orientation == "h":
            # Stacked, on an axis of names.
            ends = begun + np.asarray(trace.x, np.float64)
            yield trace, _bars(np.arange(float(len(ends))), 0.8, begun, ends)[:, ::-1]
            begun = ends
        else:
            at = np.asarray(trace.x, np.float64)
            width = 0.9 if trace.width is None else np.asarray(trace.width, np.float64)
            yield trace, _bars(at, width, 0.0, np.asarray(trace.y, np.float64))


def _bars(at: Vector, width: Vector | float, low: Vector | float, high: Vector) -> Vector:
    """Return four corners of each bar, and a gap."""
    sides = [at - width / 2, at - width / 2, at + width / 2, at + width / 2]
    nothing, bottom = np.full(len(at), np.nan), np.broadcast_to(low, at.shape)
    across = np.stack([*sides, nothing], axis=1)
    up = np.stack([bottom, high, high, bottom, nothing], axis=1)
    return np.stack([across.ravel(), up.ravel()], axis=1)


def _mark(trace: Any, points: Vector) -> str:
    if trace.type == "heatmap":
        (left, base), (right, top) = points.tolist()
        box = f'x="{left:.0f}" y="{top:.0f}" width="{max(4.0, right - left):.0f}"'
        size = f'{box} height="{base - top:.0f}" preserveAspectRatio="none"'
        return f'<image {size} href="{heat_image(trace)}"/>'
    path, pen = [], "M"
    for x, y in points.tolist():
        if math.isfinite(x) and math.isfinite(y):
            path.append(f"{pen}{x:.0f} {y:.0f}")
            pen = "L"
        else:
            pen = "M"
    color = _color(trace)
    if trace.type == "bar":
        return f'<path d="{"".join(path)}" fill="{color}"/>'
    opacity = 1.0 if trace.opacity is None else trace.opacity
    dashed = "" if trace.line.dash in (None, "solid") else ' stroke-dasharray="5 3"'
    look = f'fill="none" stroke="{color}" stroke-width="1.6" stroke-opacity="{opacity}"'
    return f'<path d="{"".join(path)}" {look}{dashed}/>'
