"""What a reader of a model is given, and what it gives back to be told more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Facts = dict[str, Any]
"""What a model does not know of its run: see `facts.RunFacts`."""

State = dict[str, Any]
"""Plain JSON values."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How much of a model a reader has; the model makes it, and reads it again."""

    generation: tuple[int, int]
    changes: int
    series: tuple[int, ...]
    lanes: int
    marks: int
    commands: int
    log: int


@dataclass(frozen=True, slots=True)
class News:
    """A snapshot's or a delta's state and buffers, and what its reader has then."""

    state: State
    buffers: list[bytes]
    cursor: Cursor
