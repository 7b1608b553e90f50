"""Objects by name and parameters: combiners and partitioners as JSON, and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import CheckpointError, TosError

Kinds = Mapping[str, Any]
"""What may be named: classes, and presets, whose ``made`` tells what is theirs."""


def describe(value: Any, kinds: Kinds) -> dict[str, Any] | None:
    """Return an object's name and parameters, as plain JSON values.

    Its parameters are attributes of the same names, which are plain values or such objects.

    Returns
    -------
    dict or None
        None if it, or one of its parameters, is of none of `kinds`, but a user's own.
    """
    name = next((name for name, kind in kinds.items() if _makes(kind, value)), None)
    if name is None:
        return None
    parameters = {}
    for parameter in inspect.signature(kinds[name]).parameters:
        given = getattr(value, parameter)
        if not (given is None or isinstance(given, bool | int | float | str)):
            made = describe(given, kinds)
            if made is None:
                return None
            given = {"made": made}
        parameters[parameter] = given
    return {"name": name, "parameters": parameters}


def _makes(kind: Any, value: object) -> bool:
    return type(value) is kind if isinstance(kind, type) else bool(kind.made(value))


def rebuild(described: Any, kinds: Kinds) -> Any:
    """Return an object again from what `describe` returned.

    Raises
    ------
    CheckpointError
        The class is unknown, or does not take these parameters.
    """
    try:
        parameters = {
            name: rebuild(value["made"], kinds) if isinstance(value, dict) else value
            for name, value in described["parameters"].items()
        }
        return kinds[described["name"]](**parameters)
    except (LookupError, TypeError, AttributeError, TosError) as error:
        raise CheckpointError(f"Cannot make {described!r} again: {error}.") from None
