"""The settings that a worker goes by, as they travel in messages."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ..errors import RemoteProtocolError
from ..readable import LONGEST_NAME
from .limits import MOST, Chars, Items, Limit, Span


class _Kind(NamedTuple):
    """The JSON values of a field, by type."""

    expected: str
    types: tuple[type, ...]


_WHOLE = _Kind("an integer", (int,))
_NUMBER = _Kind("a number, true or false", (float, int, bool))
_NUMBER_OR_NULL = _Kind("a number or null", (float, int, type(None)))
_TEXT = _Kind("a string", (str,))
_LIST = _Kind("a list", (list,))
_OBJECT = _Kind("an object", (dict,))

_MOST_ITEMS = 16
_INTERVAL = Span(1, MOST)
_RATE = Span(0, sys.float_info.max)
_NAMES = Items(_MOST_ITEMS, Chars(LONGEST_NAME))
_TEXTS = Items(_MOST_ITEMS, Chars(32_768))
# The factors of several rules are multiplied, so that the product may be infinite.
_CHAOS = Items(_MOST_ITEMS, Span(0, math.inf))


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """One version of the settings, as far as a worker needs them.

    Parameters
    ----------
    sync_interval : int
        Batches between two exchanges.
    learning_rate : float or None
        None for the program's own.
    strategy : mapping of str to str
        The strategy's own, such as ``pushes`` and ``codec``.
    chaos : mapping of str to float or bool
        `Mishap.to_json` of the next milestone; empty if nothing happens in it.
    """

    sync_interval: int
    learning_rate: float | None
    strategy: Mapping[str, str]
    chaos: Mapping[str, float | bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, for `from_json`."""
        return {
            "sync_interval": self.sync_interval,
            "learning_rate": self.learning_rate,
            "strategy": dict(self.strategy),
            "chaos": dict(self.chaos),
        }

    @classmethod
    def from_json(cls, value: Any) -> WorkerSettings:
        """Rebuild what `to_json` has returned.

        Parameters
        ----------
        value : object
            What a peer has sent, as JSON values.

        Raises
        ------
        RemoteProtocolError
            A field is missing, in excess, of a wrong type or beyond its limit.
        """
        if type(value) is not dict or set(value) != _FIELDS:
            raise RemoteProtocolError(
                f"WorkerSettings: expected an object of {sorted(_FIELDS)}, got {_shown(value)}."
            )
        rate = value["learning_rate"]
        _check("sync_interval", value["sync_interval"], _WHOLE, _INTERVAL)
        _check("learning_rate", rate, _NUMBER_OR_NULL, _RATE)
        _check_mapping("strategy", value["strategy"], _TEXT, _TEXTS)
        _check_mapping("chaos", value["chaos"], _NUMBER, _CHAOS)
        return cls(
            value["sync_interval"],
            None if rate is None else float(rate),
            value["strategy"],
            value["chaos"],
        )


_FIELDS = {each.name for each in fields(WorkerSettings)}


def _check_mapping(name: str, found: Any, kind: _Kind, values: Items) -> None:
    _check(name, found, _OBJECT)
    _check(name, list(found), _LIST, _NAMES)
    for value in found.values():
        _check(name, value, kind)
    _check(name, list(found.values()), _LIST, values)


def _check(name: str, value: Any, kind: _Kind, limit: Limit | None = None) -> None:
    """Raise RemoteProtocolError for a value of another type or beyond a limit."""
    # Types are compared exactly: to JSON a bool is not an integer.
    if type(value) not in kind.types:
        raise _misfit(name, kind.expected, value)
    if limit is not None and not limit.holds(value):
        raise _misfit(name, f"{kind.expected}, {limit}", value)


def _misfit(name: str, expected: str, value: object) -> RemoteProtocolError:
    return RemoteProtocolError(f"WorkerSettings.{name}: expected {expected}, got {_shown(value)}.")


def _shown(value: object) -> str:
    return f"{reprlib.repr(value)} ({type(value).__name__})"
