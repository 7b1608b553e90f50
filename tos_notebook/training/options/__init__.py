"""The options of sessions and runs: names, defaults, checks, and help for each.

`tos_notebook.fit`, `TrainingSession`, its `start`, `tos_notebook.resume`, `TensorEstimator` and the
magics make their parameters, flags and help of these fields. A new option is a field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from ...common.checks import refuse_unknown
from ...errors import ConfigError
from .call import CallOptions
from .elsewhere import in_words
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
    other_names,
    takes,
)
from .run import RunOptions
from .session import AUTO, CheckedOptions, SessionOptions, for_one_run
from .typed import as_typed, names_as_typed

__all__ = [
    "AUTO",
    "KINDS",
    "OPTIONS",
    "RESUMABLE",
    "CallOptions",
    "Check",
    "CheckedOptions",
    "ObserverOptions",
    "Option",
    "RunOptions",
    "SessionOptions",
    "also_named",
    "as_typed",
    "by_own_name",
    "documents",
    "for_one_run",
    "for_resume",
    "in_range",
    "named",
    "names_as_typed",
    "offers",
    "options_of",
    "other_names",
    "pick",
    "subset",
    "takes",
]

Options = TypeVar("Options", SessionOptions, RunOptions, ObserverOptions, CallOptions)

KINDS = (SessionOptions, RunOptions, ObserverOptions, CallOptions)

OPTIONS = options_of(*KINDS)
"""What is said of each option, by its name: the one list of them."""

RESUMABLE = {
    n: each.optional if n in options_of(SessionOptions, RunOptions) else each
    for n, each in OPTIONS.items()
    if not each.kept
}
"""What may be another one when a run is resumed: without, it does what it was asked before."""


def pick(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return the options of one kind, of all that are given by name."""
    return kind(**subset(kind, given, none=True))


def subset(kind: type[Options], given: Mapping[str, Any], none: bool = False) -> dict[str, Any]:
    """Return the options of one kind that are given, by name; None only where that is a value."""
    found = {f.name: given[f.name] for f in fields(kind) if f.name in given}
    return {name: value for name, value in found.items() if none or value is not None}


def named(what: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options, each by its own name and not by its alias; refuse what is none.

    Parameters
    ----------
    what : str
        What is given them.
    given : mapping of str

    Raises
    ------
    ConfigError
        There is none of a name, or one is given by both of its names.
    """
    found = by_own_name(OPTIONS.values(), given)
    refuse_unknown(what, found, OPTIONS, in_words)
    return found


def for_resume(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a resumed run is to do otherwise, each by its own name, before anything is read.

    Raises
    ------
    ConfigError
        A run keeps the option when it is resumed, its name is unknown, or it is out of range.
    """
    # None leaves one as it was.
    left = {n for n, v in given.items() if v is None and n in _ALL}
    found = named("resume", {n: v for n, v in given.items() if n not in left})
    for name, value in found.items():
        option = OPTIONS[name]
        if option.kept:
            raise ConfigError(
                f"{name}: a resumed run keeps the one that it has, {option.kept}. To train on with "
                "another, start a run with its parameters: tos.resume(uri, program=model).stop(), "
                f"then tos.fit(model, data, {name}=...)."
            )
        option.checked(value)
    return found


_ALL = {*OPTIONS, *(each.alias for each in OPTIONS.values() if each.alias)}
"""Names of options, with their other names."""
