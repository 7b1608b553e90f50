"""The charts of a run's still picture."""

from __future__ import annotations

from collections import defaultdict
from html import escape

import numpy as np
import numpy.typing as npt

from ..readable import counted
from .axes import clock
from .marks import Band, bands, flags
from .news import News, Totals
from .numbers import short, words
from .saved import POINTS, points_of
from .series import thinned
from .svg import Curve, Panel, chart, image

MOST_METRICS, FEW = 4, 100
"""Metrics that have a chart, and points of the curves that are folded away."""

INTERVALS = 50
"""Over which the samples per second are taken."""

Points = npt.NDArray[np.float64]


def charts(news: News) -> tuple[str, str, str]:
    """Return the image of the loss and the first metric, that of the others, and what these show.

    Each is empty where there is nothing to draw.
    """
    found: defaultdict[str, list[tuple[str, Points]]] = defaultdict(list)
    for name, split, points in points_of(news):
        if split in ("training", "validation"):
            found[name].append((split, points))
    rates = _throughput(found.get("loss", []))
    names = ["loss", *(name for name in found if name != "loss")]
    shown = names[: 1 + MOST_METRICS]
    panels = [_panel(news, name, found.get(name, []), POINTS) for name in shown[:2]]
    others = [_panel(news, name, found[name], FEW) for name in shown[2:]]
    if rates:
        others.append(Panel("samples per second", rates, from_zero=True))
    return (
        _image(panels, news.state["totals"]),
        "\n".join(
            _image(others[i : i + 2], news.state["totals"]) for i in range(0, len(others), 2)
        ),
        escape(", ".join(p.title for p in others if p.curves)) + _rest(len(names) - len(shown)),
    )


def _rest(metrics: int) -> str:
    if metrics <= 0:
        return ""
    verb = "has" if metrics == 1 else "have"
    return f"; {counted(metrics, 'metric')} {verb} none: run.history"


def _panel(news: News, name: str, series: list[tuple[str, Points]], limit: int) -> Panel:
    curves = []
    last = 0.0
    for split, points in series:
        times, _, _, values = thinned(points, limit)
        curves.append((split, times, values))
        last = max(last, float(times[-1]))
    state = news.state
    until = last if state["run"]["state"] != "paused" else state["run"]["elapsed"]
    shaded = list(bands(state, until))
    parted = [_parted(curve, [band for band in shaded if band.kind == "pause"]) for curve in curves]
    return Panel(name, parted, flags=flags(state), bands=shaded)


def _parted(curve: Curve, pauses: list[Band]) -> Curve:
    """Break a line where it would lead across a pause."""
    label, times, values = curve
    for start, end, _ in pauses:
        middle = (start + end) / 2
        after = np.flatnonzero(times > middle)
        # A line needs a point on either side.
        if len(after) and after[0] > 0:
            times = np.insert(times, after[0], middle)
            values = np.insert(values, after[0], np.nan)
    return label, times, values


def _throughput(loss: list[tuple[str, Points]]) -> list[Curve]:
    """Return samples per second over time; they are 0 in a pause."""
    for split, (times, samples, _, _) in loss:
        count = min(INTERVALS, len(times) - 1)
        # Milestones of two workers may have come in another order than they were made.
        times = np.maximum.accumulate(times)
        if split == "training" and count > 0 and times[-1] > times[0]:
            ends = np.linspace(times[0], times[-1], count + 1)
            rates = np.diff(np.interp(ends, times, samples)) / np.diff(ends)
            return [(split, (ends[1:] + ends[:-1]) / 2, rates)]
    return []


def _image(panels: list[Panel], totals: Totals) -> str:
    drawn = chart(*panels)
    now = totals["metrics"] | {"loss": totals["loss"]}
    alts = [_alt(panel, now.get(panel.title)) for panel in panels]
    return image(drawn, " ".join(alt for alt in alts if alt)) if drawn else ""


def _alt(panel: Panel, now: float | None) -> str:
    """Return the curves in words; that of training ends at the value that all readers show."""
    lines = []
    for label, _, y in panel.curves:
        first, last = (short(float(value)) for value in y[[0, -1]])
        last = now if label == "training" and now is not None else last
        lines.append(f"{label} {panel.title} from {words(first)} to {words(last)}")
    if not lines:
        return ""
    until = max(float(x[-1]) for _, x, _ in panel.curves)
    return (
        f"{'; '.join(lines)}; over {clock(round(until, 1 if until < 60 else None))}.".capitalize()
    )
