"""A run in JSON that a notebook keeps: a page draws its charts of it without a kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .news import News
from .numbers import short
from .series import ROWS, thinned

RUN = "application/vnd.tos-notebook.run+json"
"""Names a run, for a front end with a plug-in that shows it by its own means."""

POINTS = 300
"""Of the loss at most: a saved notebook stays small."""

METRIC, WORK = 150, 60
"""Of a metric, and of what the work was like."""

MOST_CURVES = 24
MOST_WORKERS = 64

_DIGITS = (5, 6, 4, 4)
"""Digits of time, samples, epoch and value: more could not be seen."""


def points_of(news: News) -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Yield name, split and points (time, samples, epoch, value) of each series that has any."""
    for head, buffer in zip(news.state["series"], news.buffers, strict=False):
        if head["length"]:
            points = np.frombuffer(buffer, "<f4").reshape(len(ROWS), -1).astype(np.float64)
            yield head["name"], head["split"], points


def saved(news: News) -> dict[str, object]:
    """Return a snapshot in JSON, its curves in few points and without the lanes.

    Returns
    -------
    dict
        Of ``run``, ``number`` and ``name``, which name the run, and ``saved``: what a snapshot
        holds, with ``points`` for the lengths of its series, a text for each of `series.ROWS`:
        numbers with commas between them, and nothing for what is not finite. A notebook would give
        each number of a list a line of its own.
    """
    state = news.state
    run = {name: value for name, value in state["run"].items() if name != "actions"}
    marks: list[Any] = [m for m in state["marks"] if _index(m) < MOST_WORKERS]
    return {
        "run": run["id"],
        "number": run["number"],
        "name": run["name"],
        "saved": {
            "run": run,
            "totals": state["totals"],
            "series": [
                {"name": name, "split": split, "points": _few(points, _limit(name, split))}
                for name, split, points in list(points_of(news))[:MOST_CURVES]
            ],
            "workers": list(state["workers"])[:MOST_WORKERS],
            "marks": marks,
            "commands": state["commands"],
            "log": state["log"],
        },
    }


def _index(mark: Any) -> int:
    return int(mark["worker"])


def _limit(name: str, split: str) -> int:
    if split == "work":
        return WORK
    return POINTS if name == "loss" else METRIC


def _few(points: npt.NDArray[np.float64], limit: int) -> list[str]:
    return [
        ",".join(_text(short(float(value), digits)) for value in row)
        for row, digits in zip(thinned(points, limit), _DIGITS, strict=True)
    ]


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value) if value.is_integer() else value)
