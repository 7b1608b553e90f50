"""A run's events as columns: what a resumed run's history is made of."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ... import events as kinds
from ...common.arrays import Array
from ...errors import CheckpointError
from ...events import Event, MilestoneCommitted, ParametersRestored
from ...persist.sealed import Sealed
from ...persist.values import require_plain

_KINDS: dict[str, type[Event]] = {
    name: getattr(kinds, name)
    for name in (
        "CommandAccepted", "CommandApplied", "CommandLapsed", "EpochFinished", "JobRestarted",
        "LabelsSkewed", "ParametersRestored", "PartitionFinished", "Repartitioned", "RowsSkipped",
        "RunResumed", "RunStarted", "StrategySwapped", "UpdateSkipped", "Validated",
        "ValidationFailed", "WorkerFailed", "WorkerJoined", "WorkerLost",
    )
}  # fmt: skip
"""Kept besides milestones, in full: there are few of them."""

_WHOLE = (
    "epoch", "partition", "attempt", "sequence", "steps", "optimizer_steps", "samples",
    "staleness", "version", "bytes_up", "bytes_down", "workers",
)  # fmt: skip
_UNKNOWN = -1
"""Stands for a staleness that was not counted."""
_REAL = ("time", "loss", "compute", "wait", "exchange")
_TEXT = ("executor", "host")


class Record:
    """A sink that collects events until a checkpoint takes them.

    Attributes
    ----------
    milestones : int
        How many were taken.
    """

    def __init__(self) -> None:
        self.milestones = 0
        self._lock = threading.Lock()
        # Each with the version from which on a center has it.
        self._events: list[tuple[int, Event]] = []

    def __call__(self, event: Event) -> None:
        """Take one event in, if it is of a kind that history is made of."""
        if isinstance(event, MilestoneCommitted) or type(event).__name__ in _KINDS:
            with self._lock:
                if isinstance(event, ParametersRestored):
                    # Milestones that do not count are told before that, and never after it.
                    self._events = [(min(v, event.version), e) for v, e in self._events]
                self._events.append((_version(event), event))

    def take(self, version: int) -> list[Event]:
        """Return, and forget, what belongs to a center: not the milestones after it."""
        with self._lock:
            taken = [event for own, event in self._events if own <= version]
            self._events = [(own, event) for own, event in self._events if own > version]
        self.milestones += _milestones(taken)
        return taken

    def give_back(self, events: Sequence[Event]) -> None:
        """Undo `take`: what was taken could not be written."""
        self.milestones -= _milestones(events)
        with self._lock:
            self._events = [*((0, event) for event in events), *self._events]


def _milestones(events: Sequence[Event]) -> int:
    return sum(isinstance(event, MilestoneCommitted) for event in events)


def _version(event: Event) -> int:
    return event.version if isinstance(event, MilestoneCommitted) else 0


def columns(events: Sequence[Event]) -> tuple[dict[str, Any], list[Array]]:
    """Return events as columns: plain JSON beside arrays."""
    milestones = [e for e in events if isinstance(e, MilestoneCommitted)]
    others, seen = [], 0
    for event in events:
        if isinstance(event, MilestoneCommitted):
            seen += 1
        else:
            others.append([seen, type(event).__name__, asdict(event)])
    names = list(dict.fromkeys(name for e in milestones for name in e.metrics))
    whole = [[getattr(e, n) for e in milestones] for n in _WHOLE]
    arrays = [np.array([_UNKNOWN if v is None else v for v in w], np.int64) for w in whole]
    arrays += [np.array([getattr(e, n) for e in milestones], np.float64) for n in _REAL]
    texts = []
    for name in _TEXT:
        values = [getattr(e, name) for e in milestones]
        known = {text: number for number, text in enumerate(dict.fromkeys(values))}
        texts.append(list(known))
        arrays.append(np.array([known[text] for text in values], np.int64))
    for name in names:
        values = [e.metrics.get(name, math.nan) for e in milestones]
        arrays.append(np.array(values, np.float64))
    return {"others": others, "texts": texts, "metrics": names}, arrays


def events(sealed: Sealed, name: str) -> list[Event]:
    """Return the events of a file that holds what `columns` returned.

    Raises
    ------
    CheckpointError
        It holds something else.
    """
    try:
        return _events(sealed.value, [array.tolist() for array in sealed.arrays])
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise CheckpointError(f"{name} holds no events: {error}.") from None


def _events(value: dict[str, Any], given: list[list[Any]]) -> list[Event]:
    plain, texts = len(_WHOLE) + len(_REAL), value["texts"]
    named = dict(zip((*_WHOLE, *_REAL), given[:plain], strict=True))
    named["staleness"] = [None if v == _UNKNOWN else v for v in named["staleness"]]
    for number, name in enumerate(_TEXT):
        if not all(isinstance(text, str) for text in texts[number]):
            raise TypeError(f"expected texts for {name}, got {texts[number]!r:.80}")
        named[name] = [texts[number][index] for index in given[plain + number]]
    metrics = dict(zip(value["metrics"], given[plain + len(_TEXT) :], strict=True))
    milestones = []
    for number, row in enumerate(zip(*named.values(), strict=True)):
        own = {n: v[number] for n, v in metrics.items() if not math.isnan(v[number])}
        milestones.append(MilestoneCommitted(**dict(zip(named, row, strict=True)), metrics=own))
    found: list[Event] = []
    told = 0
    for entry in value["others"]:
        before, told = told, max(told, entry[0])
        found += [*milestones[before:told], _other(entry)]
    return found + milestones[told:]


def _other(entry: Sequence[Any]) -> Event:
    fields: Any = {n: tuple(v) if isinstance(v, list) else v for n, v in entry[2].items()}
    kind = _KINDS[entry[1]]
    require_plain(kind, fields)
    return kind(**fields)
