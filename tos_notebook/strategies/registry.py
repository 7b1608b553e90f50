"""Strategies by name, and whatever a user gives as one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..common.checks import did_you_mean
from ..common.rows import Rows
from ..errors import ConfigError
from ..persist.described import describe as describe_by_name
from .allreduce.strategy import AllReduce
from .base import Strategy
from .ps.strategy import ParameterServer
from .tensorflow.strategy import TensorFlowCluster
from .treeaggregate.strategy import TreeAggregate

STRATEGIES: Mapping[str, type[Strategy]] = {
    kind.name: kind for kind in (ParameterServer, AllReduce, TreeAggregate, TensorFlowCluster)
}
"""Every strategy, by name. A new one is an entry here and a folder of its own."""


def as_strategy(value: Any) -> Strategy:
    """Return a strategy for whatever a user may give as one.

    Parameters
    ----------
    value : str, Strategy or class
        A key of `STRATEGIES`; case does not matter. Some take more, such as ``"allreduce:star"``.

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
        return _named(*value.strip().lower().partition(":"))
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


def _named(name: str, colon: str, rest: str) -> Strategy:
    kind: Any = STRATEGIES.get(name)
    if kind is None:
        known = ", ".join(STRATEGIES)
        # A user may know the variant, and not of what.
        longer = [choice for choice in choices() if choice.endswith(f":{name}")]
        hint = f" Did you mean {longer[0]}?" if longer else did_you_mean(name, STRATEGIES)
        raise ConfigError(f"strategy: expected one of {known}; got {name!r}.{hint}")
    if not colon:
        made: Strategy = kind()
    elif hasattr(kind, "parse"):
        made = kind.parse(rest)
    else:
        raise ConfigError(f"strategy: expected {name!r} alone, got {f'{name}:{rest}'!r}.")
    return made


def choices() -> list[str]:
    """Return what a user may choose: names, alone or with a variant, such as ``allreduce:star``."""
    variants = {name: getattr(kind, "variants", ()) for name, kind in STRATEGIES.items()}
    return [n for name, own in variants.items() for n in (name, *(f"{name}:{v}" for v in own))]


def describe() -> Rows:
    """Return a row of plain values for each strategy; they show as a table.

    Returns
    -------
    list of dict
        With keys ``name``, ``summary``, ``when``, ``example``: how some options are chosen in a
        text, such as ``"ps:shards=4"``, and ``defaults`` (dict): the options of the class by name.
    """
    return Rows(
        {
            "name": name,
            "summary": kind.summary,
            "when": kind.when,
            "example": ", ".join(f"{name}:{each}" for each in getattr(kind, "variants", ()))
            or name,
            "defaults": {p.name: p.default for p in inspect.signature(kind).parameters.values()},
        }
        for name, kind in STRATEGIES.items()
    )
