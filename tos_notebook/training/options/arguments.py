"""What `TrainingSession` and its `start` take: options, and where and on what to train."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from .call import CallOptions
from .observers import ObserverOptions
from .run import RunOptions
from .session import SessionFields, SessionOptions


@dataclass(frozen=True)
class Place:
    """Where a session trains, and what."""

    spark: Any
    program: Any
    _: KW_ONLY
    server_host: str | None = None
    server_port: int | None = None
    checkpoint_dir: str | None = None


@dataclass(frozen=True)
class Training:
    """What a run trains on."""

    data: Any


# Fields of a base that is named later come first.
@dataclass(frozen=True)
class SessionArguments(SessionOptions, Place):
    """The parameters of `TrainingSession`."""


@dataclass(frozen=True, eq=False)
class StartArguments(ObserverOptions, CallOptions, SessionFields, RunOptions, Training):
    """The parameters of `TrainingSession.start`."""
