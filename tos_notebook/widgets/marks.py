"""What was steered, or went wrong, as marks and bands over the time of a run.

The live view has the same in ``labextension/src/view/charts-marks.ts``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .news import CommandEntry, State

SIGNS = {"retry": "↻", "lost": "✕", "failed": "✕"}

PAUSES = ("pause", "resume", "unpause")
"""What begins a pause or ends it: a band shows both."""

_SHORT = {"learning_rate": "LR {}", "sync_interval": "every {}", "partitions": "{} parts"}


class Flag(NamedTuple):
    """Something that happened."""

    time: float
    sign: str
    label: str
    """In a few letters."""


class Band(NamedTuple):
    """Something that lasted."""

    start: float
    end: float
    kind: str
    """``"pause"`` or ``"chaos"``."""


def _since(entry: CommandEntry) -> float:
    since = entry.get("since")
    return entry["time"] if since is None else since


def in_force(state: State) -> list[CommandEntry]:
    """Return the commands that took effect, in the order in which they were given."""
    return [entry for entry in state["commands"] if entry["stage"] == "in force"]


def flags(state: State) -> list[Flag]:
    """Return what was steered, and who was lost, failed or began again, by time."""
    found = [
        Flag(_since(entry), "⚑", _label(entry))
        for entry in in_force(state)
        if entry["command"] not in PAUSES
    ]
    workers: Any = state["workers"]
    for mark in state["marks"]:
        known: Any = mark
        who = f"p{workers[known['worker']]['partition']}"
        found.append(Flag(known["time"], SIGNS[known["kind"]], who))
    return sorted(found)


def bands(state: State, until: float) -> Iterator[Band]:
    """Yield pauses, and times of chaos on purpose; what lasts yet ends at `until`."""
    open_: dict[str, Band] = {}
    for entry in in_force(state):
        chaos = entry["command"] == "chaos"
        kind = "chaos" if chaos else "pause"
        if not chaos and entry["command"] not in PAUSES:
            continue
        ends = entry["detail"].startswith("off") if chaos else entry["command"] != "pause"
        at = _since(entry)
        if kind in open_:
            band = open_.pop(kind)
            yield band._replace(end=min(band.end, at))
        if not ends:
            most = _lasts(entry["detail"]) if chaos else math.inf
            open_[kind] = Band(at, at + most, kind)
    for band in open_.values():
        yield band._replace(end=min(band.end, max(band.start, until)))


def _lasts(detail: str) -> float:
    """Return the seconds after which all rules of chaos have ended by themselves."""
    limits = [float(seconds) for seconds in re.findall(r"for at most ([\d.]+) s", detail)]
    return max(limits) if len(limits) == len(detail.split("; ")) else math.inf


def _label(entry: CommandEntry) -> str:
    if entry["command"] == "chaos":
        return "chaos off" if entry["detail"].startswith("off") else "chaos"
    short = [
        _SHORT.get(name, "{}").format(in_plain(value)) for name, value in entry["changes"].items()
    ]
    return ", ".join(short) or in_plain(entry["detail"]) or entry["command"]


def in_plain(text: str) -> str:
    """Return text with rules as people say them: ``EASGD(alpha=0.9)`` is EASGD, alpha 0.9."""

    def said(found: re.Match[str]) -> str:
        given = [one for one in found[2].split(", ") if one and not one.endswith("=None")]
        return ", ".join([found[1], *(one.replace("=", " ", 1).strip("'") for one in given)])

    return re.sub(r"\b([A-Za-z_]\w*)\(([^()]*)\)", said, text)
