"""Runs beside each other as a table: the settings that differ, and what came of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..readable import counted
from ..steering.conditions import VALIDATION, largest_is_best
from ..steering.machine import Command
from ..steering.sync import interval_text
from .figure import since_start, smoothed

if TYPE_CHECKING:
    import pandas as pd

MISSING = ""
"""Stands for a setting that a run does not have."""

DIGITS = 4
"""That results have."""

DIVERGED, UNKNOWN = "diverged", "–"
"""What a cell shows for a loss that is not finite, and for other numbers that are not known."""


class Comparable(Protocol):
    """What `compare` needs of a run."""

    @property
    def name(self) -> str | None:
        """What it is called."""

    @property
    def own_rate(self) -> float | None:
        """The learning rate of its program, where that is a known number."""

    @property
    def history(self) -> pd.DataFrame:
        """Every milestone so far."""

    @property
    def validation(self) -> pd.DataFrame:
        """Every evaluation so far."""

    @property
    def settings(self) -> Any:
        """What is in force; `by_name` has all that applies."""

    @property
    def events(self) -> Sequence[Mapping[str, Any]]:
        """What it was told while it trained."""


def titles(runs: Sequence[Any]) -> list[str]:
    """Return what runs are called, each in another way: by name, else by number or id."""
    own = [getattr(run, "number", None) for run in runs]
    plain = [run.run if n is None else f"run {n}" for run, n in zip(runs, own, strict=True)]
    names = [run.name for run in runs]
    return [
        short if name is None else name if names.count(name) == 1 else f"{name} ({short})"
        for name, short in zip(names, plain, strict=True)
    ]


def differing(runs: Sequence[Comparable]) -> dict[str, list[str]]:
    """Return the settings in which runs differ, by name, each with a text for every run."""
    found = [run.settings.by_name | _own_rate(run) | _steered(run) for run in runs]
    _name_combiners(found)
    names = dict.fromkeys(name for settings in found for name in settings)
    texts = {name: [_text(settings, name) for settings in found] for name in names}
    return {name: values for name, values in texts.items() if len(set(values)) > 1}


def _name_combiners(found: Sequence[dict[str, object]]) -> None:
    """Call combiners by their names, as views do, unless two of one name differ."""
    rules = [rule for settings in found if (rule := settings.get("combiner")) is not None]
    names = [getattr(rule, "name", rule) for rule in rules]
    # Of a saved run only the name is known.
    saved = any(isinstance(rule, str) for rule in rules)
    if saved or len({*map(repr, rules)}) == len({*names}):
        for settings in found:
            rule = settings.get("combiner")
            settings["combiner"] = getattr(rule, "name", rule)


def _own_rate(run: Comparable) -> dict[str, object]:
    """Return the learning rate of its program, where that is in force and known."""
    if run.settings.learning_rate is not None:
        return {}
    if "step_size" in run.settings.own:
        # The strategy makes the steps, and the program's rate has no part.
        return {"learning_rate": MISSING}
    if run.own_rate is None:
        return {}
    return {"learning_rate": _round(run.own_rate)}


def _steered(run: Comparable) -> dict[str, object]:
    """Return how often it was steered: its settings are those of its end."""
    count = sum(event["times"] for event in run.events if event["command"] != Command.STOP)
    return {"steered": f"{counted(count, 'time')}"} if count else {}


def _text(settings: Mapping[str, object], name: str) -> str:
    if name not in settings:
        return MISSING
    value = settings[name]
    if value is None:
        return "the program's own" if name == "learning_rate" else MISSING
    if name == "sync_interval" and isinstance(value, int):
        return interval_text(value)
    if isinstance(value, tuple):
        return "; ".join(map(str, value))
    return str(value)


def reached_by_all(frames: Sequence[pd.DataFrame]) -> float:
    """Return the least smoothed loss that all runs have reached; infinity if there is none."""
    return max(
        min((value for value in smoothed(frame).tolist() if math.isfinite(value)), default=math.inf)
        for frame in frames
    )


def table(runs: Sequence[Comparable], frames: Sequence[pd.DataFrame], goal: float) -> pd.DataFrame:
    """Return a row for each run; see `Comparison.table`."""
    import pandas as pd

    results = [_validated(run) for run in runs]
    names = dict.fromkeys(name for values in results for name in values)
    columns: dict[str, Any] = dict(differing(runs))
    columns |= {name: [values.get(name, math.nan) for values in results] for name in names}
    # A saved run has these itself.
    shown: list[Any] = [getattr(run, "status", run) for run in runs]
    columns["loss"] = [_round(each.loss) for each in shown]
    columns["seconds to same loss"] = [_reached(frame, goal) for frame in frames]
    columns["samples/s"] = [_round(each.samples_per_second) for each in shown]
    columns["MB sent"] = [_round(_megabytes(frame)) for frame in frames]
    return pd.DataFrame(columns, index=pd.Index(titles(runs), name="run"))


def readable_table(found: pd.DataFrame) -> pd.DataFrame:
    """Return a comparison's table with words for numbers that are not finite."""
    numbers = found.select_dtypes("number")
    lost = numbers.isin([math.nan, math.inf, -math.inf])
    if not lost.to_numpy().any():
        return found
    words = {name: DIVERGED if name == "loss" else UNKNOWN for name in numbers}
    return found.assign(
        **{
            name: found[name].astype(object).mask(lost[name], words[name])
            for name in numbers
            if lost[name].any()
        }
    )


def _validated(run: Comparable) -> dict[str, float]:
    """Return the best value of each that the validation has; the last one if best is unknown."""
    validation, found = run.validation, dict[str, float]()
    for name in validation.columns.drop(["time", "epoch", "samples"], errors="ignore"):
        values = validation[name].dropna()
        if values.empty:
            continue
        largest = largest_is_best(name)
        if largest is None:
            found[f"last {VALIDATION}{name}"] = _round(values.iloc[-1])
        else:
            found[f"best {VALIDATION}{name}"] = _round(values.max() if largest else values.min())
    return found


def _reached(frame: pd.DataFrame, goal: float) -> float:
    """Return the seconds until the smoothed loss was as small as that; NaN if it never was."""
    below = (smoothed(frame) <= goal).nonzero()[0]
    reached = math.isfinite(goal) and len(below)
    return _round(float(since_start(frame)[below[0]])) if reached else math.nan


def _megabytes(frame: pd.DataFrame) -> float:
    return float((frame["bytes_up"] + frame["bytes_down"]).sum()) / 1e6


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
