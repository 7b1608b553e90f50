"""Check settings where the user gives them, before anything starts.

Each check returns the value, and raises ConfigError for anything but what it says.
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar, cast

from ..errors import ConfigError

RAISE_OR_SKIP = ("raise", "skip")
"""What can become of what is bad, wherever a policy says it: an error, or it is left out."""

Function = TypeVar("Function", bound=Callable[..., Any])


def at_least_one(name: str, value: Any) -> int:
    """Return a whole number of at least 1."""
    return _at_least(1, name, value)


def not_negative(name: str, value: Any) -> int:
    """Return a whole number of at least 0."""
    return _at_least(0, name, value)


def _at_least(least: int, name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(
            f"{name}: expected a whole number of at least {least}, got {value!r:.60} "
            f"of type {type(value).__name__}."
        )
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    return float(_number(name, value, lambda x: x > 0, "a finite number above 0"))


def at_least_zero(name: str, value: Any) -> float:
    """Return a finite number of at least 0, whole or not."""
    return _number(name, value, lambda x: x >= 0, "a finite number of at least 0")


def fraction(name: str, value: Any) -> float:
    """Return a number above 0 and up to 1."""
    return _number(name, value, lambda x: 0 < x <= 1, "a number above 0 and up to 1")


def share(name: str, value: Any) -> float:
    """Return a number above 0 and below 1."""
    return _number(name, value, lambda x: 0 < x < 1, "a number above 0 and below 1")


def below(name: str, value: Any, limit: float) -> float:
    """Return a number from 0 to below a limit."""
    return _number(name, value, lambda x: 0 <= x < limit, f"a number from 0 to below {limit:g}")


def _number(name: str, value: Any, fits: Callable[[float], bool], expected: str) -> float:
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not (math.isfinite(number) and fits(number)):
        raise ConfigError(f"{name}: expected {expected}, got {value!r}.")
    # Python's own numbers are shown as the user wrote them.
    return value if isinstance(value, int | float) else number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise ConfigError(f"{name}: expected one of {', '.join(allowed)}; got {value!r}.")
    return value


def class_weights(name: str, value: Any) -> Mapping[int, float]:
    """Return weights of at least 0 by the number of a class."""
    known = isinstance(value, Mapping) and bool(value)
    if not known or not all(_weighs(*each) for each in value.items()):
        raise ConfigError(
            f"{name}: expected weights of at least 0 by class, from 0, such as {{0: 1.0, 1: 5.0}}; "
            f"got {value!r:.80}."
        )
    return cast(Mapping[int, float], value)


def _weighs(label: Any, weight: Any) -> bool:
    """Return whether they are the number of a class, and a weight."""
    numbers = isinstance(label, Real) and isinstance(weight, Real)
    return numbers and int(label) == label and label >= 0 and weight >= 0


def boolean(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise ConfigError(
            f"{name}: expected True or False, got {value!r:.60} of type {type(value).__name__}."
        )
    return bool(value)


MOST_MEANT = 4
"""Names of one beginning that a message offers."""


def did_you_mean(name: str, known: Iterable[str], sign: str = "") -> str:
    """Return `` Did you mean ...?`` with the known name that is nearest; empty if none is near.

    Initials are near, too: those of learning_rate are lr. So are beginnings and other parts; of
    names that begin alike, all are offered, as far as they are few.

    Parameters
    ----------
    name : str
    known : iterable of str
    sign : str
        What stands before each name where it is written.
    """
    names = list(known)
    longer = sorted((each for each in names if each.startswith(name)), key=len)[:MOST_MEANT]
    short = [each for each in names if "".join(w[:1] for w in re.split("[_-]", each)) == name][:1]
    inside = [each for each in names if len(name) > 2 and name in each][:MOST_MEANT]
    begun = (longer or short or inside) if len(name) > 1 else []
    near = [sign + each for each in begun or difflib.get_close_matches(name, names, 1, 0.5)]
    offered = " or ".join(filter(None, [", ".join(near[:-1]), *near[-1:]]))
    return f" Did you mean {offered}?" if near else ""


Elsewhere = Callable[[str], str]
"""Returns what is said of a name that has its place elsewhere, after "It"; nothing for others."""

MOST_LISTED = 12
"""Options that a message names."""


def refuse_unknown(
    what: str,
    given: Iterable[str],
    known: Collection[str],
    elsewhere: Elsewhere = lambda name: "",
) -> None:
    """Refuse options that something does not have, and name the one that is nearest.

    Parameters
    ----------
    what : str
    given, known : collection of str
    elsewhere : Elsewhere
    """
    for name in given:
        if name not in known:
            if said := elsewhere(name):
                raise ConfigError(f"{what}: unknown option {name!r}. It {said}")
            takes = f"It takes {', '.join(known)}." if known else "It takes no options."
            if len(known) > MOST_LISTED:
                takes = f"help({what}) says what it takes."
            hint = did_you_mean(name, known) or f" {takes}"
            raise ConfigError(f"{what}: unknown option {name!r}.{hint}")


def with_known_options(function: Function, elsewhere: Elsewhere = lambda name: "") -> Function:
    """Let a function, or a constructor, say which option is meant by one that it does not have.

    It names the options without a default that were left out, too, and those that values without
    a name may be meant for. `elsewhere` is that of `refuse_unknown`.
    """
    parameters = [*signature(function).parameters.values()]
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return function
    own = parameters[0].name if parameters and parameters[0].name == "self" else None
    by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    places = sum(each.kind in by_place for each in parameters)
    if any(each.kind is Parameter.VAR_POSITIONAL for each in parameters):
        places = sys.maxsize
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    known = [each.name for each in parameters if each.kind in by_name and each.name != own]
    named = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    needed = {
        each.name
        for each in parameters
        if each.kind is Parameter.KEYWORD_ONLY and each.default is Parameter.empty
    }

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        of_class = function.__name__ == "__init__"
        what = type(args[0]).__name__ if of_class else function.__name__
        if not given.keys() <= set(known):
            refuse_unknown(what, given, known, elsewhere)
        if len(args) > places:
            _refuse_surplus(what, args[places:], named)
        for name in needed - given.keys():
            raise ConfigError(
                f"{what}: expected {name}=..., which has no default; got none. help({what}) says "
                "what it is."
            )
        return function(*args, **given)

    return cast(Function, checked)


def _refuse_surplus(what: str, values: Sequence[Any], named: Sequence[str]) -> NoReturn:
    """Refuse values that have no name, and need one."""
    got = f"got {', '.join(f'{value!r:.40}' for value in values)} without a name."
    if not named:
        raise ConfigError(f"{what}: expected fewer values; {got} help({what}) says what it takes.")
    example, takes = f"{what}({named[0]}={values[0]!r:.40})", ", ".join(named)
    raise ConfigError(
        f"{what}: expected options by name, such as {example}; {got} It takes {takes}."
    )


Class = TypeVar("Class", bound=type)


def with_known_parameters(kind: Class) -> Class:
    """Let a class do so; it may be a dataclass."""
    init: Any = with_known_options(cast(Any, kind).__init__)
    cast(Any, kind).__init__ = init
    return kind
