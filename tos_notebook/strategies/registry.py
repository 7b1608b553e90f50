"""Strategies by name, and whatever a user gives as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..common.checks import did_you_mean
from ..errors import ConfigError
from ..persist.described import describe as describe_by_name
from .base import Strategy
from .ps.strategy import ParameterServer

STRATEGIES: Mapping[str, type[Strategy]] = {ParameterServer.name: ParameterServer}
"""Every strategy, by name. A new one is an entry here and a folder of its own."""


def as_strategy(value: Any) -> Strategy:
    """Return a strategy for whatever a user may give as one.

    Parameters
    ----------
    value : str, Strategy or class
        A key of `STRATEGIES`; case does not matter.

    Returns
    -------
    Strategy
        One that a checkpoint can name.

    Raises
    ------
    ConfigError
        It is none of these.
    """
    if isinstance(value, str):
        kind = STRATEGIES.get(value.lower())
        if kind is None:
            hint = did_you_mean(value.lower(), STRATEGIES)
            known = ", ".join(STRATEGIES)
            raise ConfigError(f"strategy: no strategy is named {value!r}.{hint} Known: {known}.")
        return kind()
    if isinstance(value, type) and value in STRATEGIES.values():
        value = value()
    # A checkpoint names it, so that a resumed run is trained in the same way.
    if describe_by_name(value, STRATEGIES) is None:
        raise ConfigError(
            f"strategy: expected a name ({', '.join(STRATEGIES)}) or an object such as "
            f"tos.strategies.ParameterServer(), got {value!r} of type {type(value).__name__}."
        )
    strategy: Strategy = value
    return strategy


def describe() -> list[dict[str, Any]]:
    """Return a row of plain values for each strategy.

    Returns
    -------
    list of dict
        With keys ``name``, ``summary``, ``when``.
    """
    return [
        {"name": name, "summary": kind.summary, "when": kind.when}
        for name, kind in STRATEGIES.items()
    ]
