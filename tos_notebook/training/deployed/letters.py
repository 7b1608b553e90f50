"""What a notebook and a Spark task with the run's server write to each other: JSON, never code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from ... import chaos, errors, events
from ...blocks.skips import Skipped
from ...cluster.remote.mailbox import LARGEST
from ...combiners.base import Combiner
from ...common.histogram import Histogram
from ...errors import RemoteProtocolError, TosError, WorkerError
from ...events import Event
from ...steering.links import LinkRate, LinkRates
from ...steering.shards import ShardLoad
from ...steering.status import CheckpointStatus, RunStatus
from ..results.settings import RunSettings

UP, DOWN = "up", "down"
"""Names of letters: the notebook's, and the task's."""

EVENTS = LARGEST // 2
"""Bytes of events that a letter holds at most; the others come with the next one."""

FEW = LARGEST // 8
"""Bytes of one call at most, and of what else a letter lists."""

TEXT = 4000
"""Characters of an error's text that are told."""

Listed = TypeVar("Listed")

_KINDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(CheckpointStatus, Histogram, LinkRate, LinkRates, RunSettings, RunStatus),
        *(ShardLoad, Skipped, chaos.Kill, chaos.Pause, chaos.Slow),
        *(v for v in vars(events).values() if isinstance(v, type) and issubclass(v, Event)),
    )
}
"""What is made again of a letter, by name."""


@dataclass(frozen=True, slots=True)
class NamedRule:
    """A combiner as its name: the rule itself is where the server is."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """What the notebook asks of the run."""

    number: int
    """From 1; the task makes each call once."""
    method: str
    arguments: Mapping[str, Any]
    source: str
    """As `steering.source` has it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    number: int
    value: Any = None
    error: str = ""
    """The name of one of our errors; empty if there was none."""
    said: tuple[Any, ...] = ()
    """What the error is made of."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A letter to the task."""

    beat: int
    """Grows while the notebook is there."""
    seen: int
    """How many events have come."""
    calls: tuple[Call, ...] = ()
    """Those without an answer."""


@dataclass(frozen=True, slots=True)
class Told:
    """A letter from the task."""

    beat: int
    first: int
    """The number of the first event, from 0."""
    events: tuple[Event, ...] = ()
    more: bool = False
    """Whether others wait."""
    answers: tuple[Answer, ...] = ()
    """Of all calls in the latest letter that were made."""
    facts: Mapping[str, Any] = field(default_factory=dict)


_LETTERS = (Call, Answer, Asked, Told)
_NAMES: Mapping[str, Any] = {**_KINDS, **{kind.__name__: kind for kind in _LETTERS}}


def part_of(number: int, part: int) -> str:
    """Return the name of a letter with a part of the parameters; each call has its own."""
    return f"part{number}_{part}"


def written(letter: Asked | Told) -> bytes:
    """Return a letter as it is sent."""
    return json.dumps(plain(letter), separators=(",", ":")).encode()


def size_of(value: Any) -> int:
    """Return how many bytes a value takes in a letter, at most."""
    return len(json.dumps(plain(value)))


def fitting(values: Iterable[Listed], most: int) -> tuple[Listed, ...]:
    """Return the first ones of some values that take so many bytes at most."""
    found, size = [], 0
    for value in values:
        size += size_of(value) + len(", ")
        if size > most:
            break
        found.append(value)
    return tuple(found)


def read(content: bytes, kind: type) -> Any:
    """Return the letter that `written` was given.

    Raises
    ------
    RemoteProtocolError
        It is too long, not JSON, or no letter of that kind.
    """
    if len(content) > LARGEST:
        raise RemoteProtocolError(
            f"Expected a letter of at most {LARGEST:,} bytes, got {len(content):,}."
        )
    try:
        found = made(json.loads(content))
    except (ValueError, TypeError, LookupError, RecursionError, TosError) as error:
        raise RemoteProtocolError(f"Expected {kind.__name__} in JSON: {error}.") from None
    if type(found) is not kind:
        raise RemoteProtocolError(f"Expected {kind.__name__}, got {type(found).__name__}.")
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON's own kinds; what is of no known kind, as its text."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, value.tolist()]}
    kind = type(value)
    if _NAMES.get(kind.__name__) is kind:
        return {"made": [kind.__name__, {n: plain(getattr(value, n)) for n in _fields(kind)}]}
    if isinstance(value, Combiner | NamedRule):
        return {"rule": value.name}
    if isinstance(value, Mapping):
        return {"dict": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list | set | frozenset):
        return {"tuple": [plain(each) for each in value]}
    return str(value)


def made(value: Any) -> Any:
    """Return what `plain` was given; sequences as tuples.

    Raises
    ------
    RemoteProtocolError
        It names a kind that no letter has.
    """
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise RemoteProtocolError("a list without a name")
        return value
    ((name, given),) = value.items()
    if name == "tuple":
        return tuple(map(made, given))
    if name == "dict":
        return {made(k): made(v) for k, v in given}
    if name == "array":
        return np.array(given[1], np.dtype(str(given[0])))
    if name == "rule":
        return NamedRule(str(given))
    if name != "made" or given[0] not in _NAMES:
        raise RemoteProtocolError(f"no letter has {name!r}")
    return _NAMES[given[0]](**{str(n): made(v) for n, v in given[1].items()})


def _fields(kind: Any) -> Sequence[str]:
    if is_dataclass(kind):
        return [each.name for each in fields(kind)]
    names: Sequence[str] = kind._fields
    return names


def said(number: int, error: Exception) -> Answer:
    """Return the answer to a call that has raised."""
    if isinstance(error, WorkerError) or not isinstance(error, TosError):
        return Answer(number, None, "TosError", (f"{type(error).__name__}: {error}"[:TEXT],))
    parts = tuple(each if isinstance(each, int) else str(each)[:TEXT] for each in error.args)
    return Answer(number, None, type(error).__name__, parts)


def raised(answer: Answer) -> TosError:
    """Return the error that an answer names."""
    kind = getattr(errors, answer.error, None)
    if not (isinstance(kind, type) and issubclass(kind, TosError)):
        kind = TosError
    try:
        return kind(*answer.said)
    except TypeError:
        return TosError(*answer.said)
