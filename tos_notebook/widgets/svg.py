"""A run's curves as an SVG, and as an image that any notebook shows.

Front ends take an ``svg`` element out of a notebook that they do not trust, and leave its letters
behind. An ``img`` whose data is the SVG stays. It has a white ground, since an image does not know
the color of its page.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .axes import Axis
from .marks import Band, Flag
from .series import LARGEST

WIDTH, HEIGHT = 820, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 42, 24

NARROWEST = 560
"""Pixels to which a page may shrink an image: a printed sheet leaves so many beside the prompt."""

COLOURS = {"training": "#1f6fb4", "validation": "#b8430b"}
SHADES = {"pause": "#6e7781", "chaos": "#b3261e"}

INK, GROUND = "#1f2328", "#ffffff"

SPREAD = 100.0
"""From this ratio of the largest to the smallest value on, the axis is logarithmic."""

LEAST, MOST = 0.01, 0.99
"""Shares of a curve's points that say how high the chart is: one accident does not."""

SLACK = 0.25
"""Share of their height that others may add at either end."""

LATE = 0.2
"""Share of x that may be empty before the curves: beyond, x does not begin at 0."""

DOTS = 60
"""Up to so many points of validation are seen as points."""

Vector = npt.NDArray[np.float64]
Curve = tuple[str, Vector, Vector]
"""Label, x and y."""


class Panel(NamedTuple):
    """One chart of an image."""

    title: str
    curves: Sequence[Curve]
    x_name: str = "time"
    """Seconds if it is ``time``."""
    flags: Sequence[Flag] = ()
    bands: Sequence[Band] = ()
    from_zero: bool = False
    """Whether the y axis is linear and begins at 0, as for rates."""


def chart(*panels: Panel) -> str:
    """Draw charts side by side.

    Parameters
    ----------
    *panels : Panel
        One without a finite value is left out; where y is not finite a curve has a gap.

    Returns
    -------
    str
        An ``svg`` element; empty without a finite value.
    """
    # The arithmetic below would not survive larger ones.
    bounded = [_bounded(panel) for panel in panels]
    drawn = [panel for panel in bounded if _finite(panel).size]
    if not drawn:
        return ""
    width = WIDTH // len(drawn)
    parts = [
        f'<g transform="translate({i * width} 0)">\n{chr(10).join(_panel(panel, width))}\n</g>'
        for i, panel in enumerate(drawn)
    ]
    label = escape(", ".join(f"{panel.title} over {panel.x_name}" for panel in drawn))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}" '
            f'font-family="sans-serif" font-size="11" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>',
            *parts,
            "</svg>",
        ]
    )


def image(svg: str, alt: str) -> str:
    """Return what `chart` drew as an ``img`` element.

    Parameters
    ----------
    svg : str
    alt : str
        What it shows, in words.
    """
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<div style="overflow-x:auto"><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{escape(alt)}" width="{WIDTH}" height="{HEIGHT}" '
        f'style="max-width:100%;min-width:{NARROWEST}px;height:auto"></div>'
    )


def _bounded(panel: Panel) -> Panel:
    curves = [(label, x, np.where(np.abs(y) <= LARGEST, y, math.nan)) for label, x, y in panel[1]]
    return panel._replace(curves=curves)


def _finite(panel: Panel) -> Vector:
    return np.concatenate([y[np.isfinite(y)] for _, _, y in panel.curves] or [np.empty(0)])


def _reach(panel: Panel) -> tuple[float, float]:
    """Return where y begins and ends: what the outermost hundredths of curves take is bounded."""
    curves = [np.sort(y[np.isfinite(y)]) for _, _, y in panel.curves]
    known = [found for found in curves if len(found)]
    low, high = min(y[0] for y in known), max(y[-1] for y in known)
    least = min(y[int(LEAST * len(y))] for y in known)
    most = max(y[math.ceil(MOST * len(y)) - 1] for y in known)
    slack = SLACK * (most - least)
    low, high = max(low, least - slack), min(high, most + slack)
    return 0.0 if panel.from_zero else float(low), float(high)


def _extent(panel: Panel) -> tuple[float, float]:
    """Return where x begins and ends: at 0, unless the curves leave much of it empty."""
    places = np.concatenate([x for _, x, _ in panel.curves])
    first, last = float(places.min()), float(places.max()) or 1.0
    return (first if LATE * last <= first < last else 0.0), last


def _panel(panel: Panel, width: int) -> Iterator[str]:
    low, high = _reach(panel)
    log = low > 0 and high > SPREAD * low
    y_axis = Axis(low, high, HEIGHT - BOTTOM, TOP, "log" if log else "linear", 36)
    kind = "time" if panel.x_name == "time" else "linear"
    x_axis = Axis(*_extent(panel), LEFT, width - RIGHT, kind)
    title = f"{panel.title}, logarithmic" if log else panel.title
    yield f'<text x="{LEFT}" y="14" font-weight="bold">{escape(title)}</text>'
    yield from _bands(panel.bands, x_axis)
    yield from _grid(x_axis, y_axis, width)
    for place, curve in enumerate(panel.curves):
        yield _curve(curve, x_axis, y_axis)
        yield _named(curve[0], place)
    yield from _flags(panel.flags, x_axis)


def _bands(bands: Sequence[Band], x_axis: Axis) -> Iterator[str]:
    for start, end, kind in bands:
        left, right = x_axis.at(start), x_axis.at(end)
        if right > left:
            yield (
                f'<rect x="{left}" y="{TOP}" width="{right - left:.1f}" '
                f'height="{HEIGHT - BOTTOM - TOP}" fill="{SHADES[kind]}" fill-opacity="0.15"/>'
            )


def _flags(flags: Sequence[Flag], x_axis: Axis) -> Iterator[str]:
    shown = [flag for flag in flags if x_axis.holds(flag.time)]
    places = [x_axis.at(flag.time) for flag in shown]
    free = -math.inf
    for i, (flag, x) in enumerate(zip(shown, places, strict=True)):
        yield (
            f'<path d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke="{INK}" stroke-opacity="0.5" '
            'stroke-dasharray="3 3"/>'
        )
        if x < free:
            continue
        room = min([*places[i + 1 :], math.inf]) - x
        full = f"{flag.sign} {flag.label}"
        text = full if _width(full) < room else flag.sign
        free = x + _width(text)
        yield f'<text x="{x}" y="{TOP - 4}">{escape(text)}</text>'


def _width(text: str) -> float:
    """Return about as many pixels as a text takes."""
    return 6.5 * len(text) + 4


def _grid(x_axis: Axis, y_axis: Axis, width: int) -> Iterator[str]:
    line = f'stroke="{INK}" stroke-opacity="0.15"'
    base = HEIGHT - BOTTOM
    for tick, text in y_axis.ticks():
        y = y_axis.at(tick)
        yield f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y}" y2="{y}" {line}/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{text}</text>'
    for tick, text in x_axis.ticks():
        x = x_axis.at(tick)
        yield f'<line x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}" {line}/>'
        yield f'<text x="{x}" y="{base + 16}" text-anchor="middle">{text}</text>'


def _dash(label: str) -> str:
    return ' stroke-dasharray="6 3"' if label == "validation" else ""


def _named(label: str, place: int) -> str:
    left, colour = LEFT + 130 + 110 * place, COLOURS.get(label, "#888888")
    return (
        f'<path d="M{left} 10h22" stroke="{colour}" stroke-width="2"{_dash(label)}/>'
        f'<text x="{left + 28}" y="14">{escape(label)}</text>'
    )


def _curve(curve: Curve, x_axis: Axis, y_axis: Axis) -> str:
    label, xs, ys = curve
    colour = COLOURS.get(label, "#888888")
    path, beyond, dots, pen = [], [], [], "M"
    few = (len(xs) <= DOTS and label == "validation") or len(xs) == 1
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        left, top = x_axis.at(x), y_axis.at(y)
        path.append(f"{pen}{left} {top}")
        pen = "L"
        if not y_axis.holds(y):
            side = 5 if top < HEIGHT / 2 else -5
            beyond.append(f"M{left} {top}l-3 {side}h6z")
        elif few:
            dots.append(f'<circle cx="{left}" cy="{top}" r="2.5" fill="{colour}"/>')
    look = f'fill="none" stroke="{colour}" stroke-width="1.6"{_dash(label)}'
    marks = f'<path d="{"".join(beyond)}" fill="{colour}"/>' if beyond else ""
    return f'<path d="{"".join(path)}" {look}/>{"".join(dots)}{marks}'
