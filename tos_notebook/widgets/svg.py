"""A run's curves as an SVG, and as an image that any notebook shows.

Front ends take an ``svg`` element out of a notebook that they do not trust, and leave its letters
behind. An ``img`` whose data is the SVG stays. It has a white ground, since an image does not know
the color of its page.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from .numbers import words
from .series import LARGEST, merged

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 30, 24, 40

POINTS = 400
"""Of one curve at most: more would be narrower than a pixel or two."""

COLOURS = {"training": "#2a7fc9", "validation": "#d9762b"}

INK, GROUND = "#1f2328", "#ffffff"

SPREAD = 100.0
"""From this ratio of the largest to the smallest value on, the axis is logarithmic."""

Curve = tuple[str, npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Label, x and y."""


def chart(
    curves: Sequence[Curve],
    x_name: str,
    y_name: str,
    points: int = POINTS,
    from_zero: bool = False,
) -> str:
    """Draw curves.

    Parameters
    ----------
    curves : sequence of (str, ndarray, ndarray)
        Label, x and y; where y is not finite the curve has a gap.
    x_name, y_name : str
        Names of the axes.
    points : int
        Of one curve at most.
    from_zero : bool
        Whether the y axis is linear and begins at 0, as for rates.

    Returns
    -------
    str
        An ``svg`` element; empty without a finite value.
    """
    # The arithmetic below would not survive larger ones.
    bounded = [(label, x, np.where(np.abs(y) <= LARGEST, y, math.nan)) for label, x, y in curves]
    drawn = [_thinned(curve, points) for curve in bounded]
    finite = np.concatenate([y[np.isfinite(y)] for _, _, y in drawn] or [np.empty(0)])
    if not len(finite):
        return ""
    low, high = 0.0 if from_zero else float(finite.min()), float(finite.max())
    log = low > 0 and high > SPREAD * low
    highest_x = max(float(x.max()) for _, x, _ in drawn if len(x)) or 1.0
    y_axis = _Axis(low, high, HEIGHT - BOTTOM, TOP, log)
    x_axis = _Axis(0.0, highest_x, LEFT, WIDTH - RIGHT, False)
    label = escape(f"{y_name} over {x_name}{', logarithmic' if log else ''}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}" '
            f'font-family="sans-serif" font-size="11" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>',
            *_grid(x_axis, y_axis),
            *(_curve(curve, x_axis, y_axis, i) for i, curve in enumerate(drawn)),
            f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{escape(x_name)}</text>',
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
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}" width="{WIDTH}" '
        f'height="{HEIGHT}" style="max-width:100%;height:auto">'
    )


class _Axis:
    """Values to pixels, and where the ticks are."""

    def __init__(self, low: float, high: float, start: int, end: int, log: bool) -> None:
        self._log = log
        self._low, self._high = self._scale(low), self._scale(high)
        if self._low == self._high:
            pad = abs(self._low) / 2 or 0.5
            self._low, self._high = self._low - pad, self._high + pad
        self._start, self._end = start, end

    def _scale(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def at(self, value: float) -> float:
        """Return a value's pixel."""
        share = (self._scale(value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self) -> list[float]:
        """Return round values, four or so."""
        if self._log:
            return [10.0**n for n in range(math.ceil(self._low), math.floor(self._high) + 1)]
        rough = (self._high - self._low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        return [float(f"{n * step:.10g}") for n in range(first, last + 1)]


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    line = f'stroke="{INK}" stroke-opacity="0.2"'
    base = HEIGHT - BOTTOM
    parts = []
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" {line}/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{words(tick)}</text>')
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        parts.append(f'<line x1="{x}" x2="{x}" y1="{base}" y2="{base + 4}" {line}/>')
        parts.append(f'<text x="{x}" y="{base + 16}" text-anchor="middle">{words(tick)}</text>')
    return parts


def _curve(curve: Curve, x_axis: _Axis, y_axis: _Axis, place: int) -> str:
    label, xs, ys = curve
    colour = COLOURS.get(label, "#888888")
    path, pen = [], "M"
    for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
        if math.isfinite(y):
            path.append(f"{pen}{x_axis.at(x)} {y_axis.at(y)}")
            pen = "L"
        else:
            pen = "M"
    # Of a point alone a line shows nothing; and few points are seen better as points.
    dots = ""
    if len(xs) <= 60:
        dots = "".join(
            f'<circle cx="{x_axis.at(x)}" cy="{y_axis.at(y)}" r="2.5" fill="{colour}"/>'
            for x, y in zip(xs.tolist(), ys.tolist(), strict=True)
            if math.isfinite(y)
        )
    dash = ' stroke-dasharray="6 3"' if label == "validation" else ""
    left = LEFT + 110 * place
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>{dots}'
        f'<path d="M{left} 12L{left + 22} 12" stroke="{colour}" stroke-width="2"{dash}/>'
        f'<text x="{left + 28}" y="16">{escape(label)}</text>'
    )


def _thinned(curve: Curve, points: int) -> Curve:
    """Merge neighbours until few enough points are left."""
    label, x, y = curve
    group = -(-len(x) // points)
    if group <= 1:
        return curve
    whole = len(x) // group * group
    parts = np.zeros((6, whole // group, group))
    parts[0], parts[3] = x[:whole].reshape(-1, group), y[:whole].reshape(-1, group)
    parts[4], parts[5] = 1.0, np.isfinite(parts[3])
    few = merged(parts)
    # The end is what a reader looks for.
    return label, np.append(few[0], x[-1]), np.append(few[3], y[-1])
