"""The options of sessions and runs: names, defaults, checks, and help for each.

`TrainingSession`, its `start`, `tos_notebook.resume`, `TensorEstimator` and the magics make their
parameters, flags and help of these fields. A new option is a field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ...common.checks import did_you_mean, refuse_unknown
from ...errors import ConfigError
from .elsewhere import changed_later, is_kept, of_resume
from .observers import ObserverOptions
from .option import (
    Check,
    Option,
    also_named,
    by_own_name,
    documents,
    in_range,
    offers,
    options_of,
    takes,
)
from .run import RunOptions
from .session import AUTO, CheckedOptions, SessionOptions

__all__ = [
    "AUTO",
    "KINDS",
    "OPTIONS",
    "RESUMABLE",
    "Check",
    "CheckedOptions",
    "ObserverOptions",
    "Option",
    "RunOptions",
    "SessionOptions",
    "also_named",
    "by_own_name",
    "documents",
    "in_range",
    "offers",
    "options_of",
    "pick",
    "require_resumable",
    "subset",
    "takes",
]

Options = TypeVar("Options", SessionOptions, RunOptions, ObserverOptions)

KINDS = (SessionOptions, RunOptions, ObserverOptions)

OPTIONS = options_of(*KINDS)
"""What is said of each option, by its name."""

RESUMABLE = {
    **{n: each.optional for n, each in options_of(RunOptions).items() if not each.lasts},
    **options_of(ObserverOptions),
}
"""What a run may be given when it is resumed: without, it does what it was asked before."""


def pick(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return the options of one kind, of all that are given by name."""
    return kind(**subset(kind, given, none=True))


def subset(kind: type[Options], given: Mapping[str, Any], none: bool = False) -> dict[str, Any]:
    """Return the options of one kind that are given, by name; None only where that is a value."""
    found = {f.name: given[f.name] for f in fields(kind) if f.name in given}
    return {name: value for name, value in found.items() if none or value is not None}


def require_resumable(given: Mapping[str, Any]) -> None:
    """Refuse what a resumed run cannot be given, before anything is read.

    Raises
    ------
    ConfigError
        A run keeps the option when it is resumed, its name is unknown, or it is out of range.
    """
    for name, value in given.items():
        if name not in RESUMABLE and is_kept(name):
            raise ConfigError(
                f"{name}: a resumed run keeps the one that it has; leave it out."
                f"{changed_later(name)}"
            )
        if name not in RESUMABLE and not (of_resume(name) or did_you_mean(name, RESUMABLE)):
            _refuse_misspelled(name)
        refuse_unknown("resume", [name], RESUMABLE, of_resume)
        # None leaves one as it was.
        if value is not None:
            RESUMABLE[name].checked(value)


def _refuse_misspelled(name: str) -> None:
    """Refuse a name that is near one of an option which a resumed run keeps."""
    if near := did_you_mean(name, [each for each in OPTIONS if each not in RESUMABLE]):
        raise ConfigError(
            f"resume: unknown option {name!r}.{near} A resumed run keeps the one that it has."
        )
