"""The defaults of ``%%tos_train`` as traits of IPython."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Enum, Float, Int, TraitError, TraitType, Unicode, Union

from ..common.checks import at_least_one, not_negative
from ..training.options import Option
from ..training.options.session import AUTO

_TRAITS = {"int": Int, "float": Float, "bool": Bool, "str": Unicode}
_LEAST = {at_least_one: 1, not_negative: 0}


def trait(option: Option) -> Any:
    """Return the trait of an option, by its type and its check."""
    more: dict[str, Any] = {"default_value": option.default, "allow_none": option.default is None}
    if option.check in _LEAST:
        more["min"] = _LEAST[option.check]
    if option.words:
        return Enum(option.words, help=option.help, **more).tag(config=True)
    if option.name == "shuffle":
        return Union([Bool(), Enum(("partitions",))], help=option.help, **more).tag(config=True)
    if option.name == "sync_interval":
        return Union([Int(min=1), Enum((AUTO,))], help=option.help, **more).tag(config=True)
    return _TRAITS[option.plain](help=option.help, **more).tag(config=True)


def read(kind: TraitType[Any, Any], text: str) -> Any:
    """Return the value that is written, or the text, if it is none: a check says so better."""
    try:
        return kind.from_string(text)
    except (TraitError, ValueError):
        return text
