"""Objects by name and parameters: combiners and partitioners as JSON, and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import CheckpointError, TosError

Kinds = Mapping[str, type]
"""The classes that may be named."""


def describe(value: Any, kinds: Kinds) -> dict[str, Any] | None:
    """Return an object's name and parameters, as plain JSON values.

    Its parameters are attributes of the same names, which are plain values or such objects.

    Returns
    -------
    dict or None
        None if its class is none of `kinds`, but somebody's own.
    """
    name = next((name for name, kind in kinds.items() if type(value) is kind), None)
    if name is None:
        return None
    parameters = {}
    for parameter in inspect.signature(kinds[name]).parameters:
        given = getattr(value, parameter)
        if type(given) in kinds.values():
            given = {"made": describe(given, kinds)}
        elif not (given is None or isinstance(given, bool | int | float | str)):
            return None
        parameters[parameter] = given
    return {"name": name, "parameters": parameters}


def rebuild(described: Any, kinds: Kinds) -> Any:
    """Return an object again from what `describe` returned.

    Raises
    ------
    CheckpointError
        There is no such class, or it does not take these parameters.
    """
    try:
        parameters = {
            name: rebuild(value["made"], kinds) if isinstance(value, dict) else value
            for name, value in described["parameters"].items()
        }
        return kinds[described["name"]](**parameters)
    except (LookupError, TypeError, AttributeError, TosError) as error:
        raise CheckpointError(f"Cannot make {described!r} again: {error}.") from None
