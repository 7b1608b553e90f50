"""Which column, array or tensor is fed where: by name where names are given, else by position."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import ShapeMismatch

T = TypeVar("T")

Names = Sequence[str] | Mapping[str, str]
"""Names of columns, one for each port in order; or for each port's name, that of its column."""


class Named(Protocol):
    """An input, an output or a label of a program."""

    @property
    def name(self) -> str:
        """What users call it."""


class Field(Named, Protocol):
    """What a program is fed in one field of a record."""

    @property
    def part(self) -> str:
        """One of ``"inputs"``, ``"labels"`` and ``"weight"``; empty where it is not known."""


def in_order(names: Names, ports: Sequence[Named], what: str, remedy: str = "") -> tuple[str, ...]:
    """Return names of columns in the order of what they are for.

    Parameters
    ----------
    names : sequence of str, or mapping of str to str
        A mapping goes by its keys. A sequence goes by name if it holds exactly the ports' names,
        and by position if it holds none of them in another one's place.
    ports : sequence of Named
    what : str
        What the names are called, for messages.
    remedy : str, optional
        What to do if positions and names differ; by default to give a mapping.

    Raises
    ------
    ShapeMismatch
        The keys are not the ports' names; or a column has the name of another port than the one
        that it would go to.
    """
    if isinstance(names, Mapping):
        return tuple(by_key(names, ports, what))
    wanted = [port.name for port in ports]
    if len(names) != len(wanted):
        # The caller refuses a wrong number of names.
        return tuple(names)
    if sorted(names) == sorted(wanted):
        return tuple(wanted)
    # Spark does not tell upper case from lower case; where names differ in nothing else, it counts.
    same = str.casefold if _differ(names) and _differ(wanted) else str
    by_name, ports_named = {same(name): name for name in names}, [same(port) for port in wanted]
    if sorted(by_name) == sorted(ports_named):
        return tuple(by_name[port] for port in ports_named)
    pairs = list(zip(names, wanted, strict=True))
    if any(same(name) in ports_named and same(name) != same(port) for name, port in pairs):
        mapping = ", ".join(f"{name} -> {port}" for name, port in pairs)
        example = ", ".join(f"{port!r}: {name!r}" for name, port in pairs)
        remedy = remedy or f"Say what goes where: {what}={{{example}}}."
        raise ShapeMismatch(
            f"{what}: by position the columns go {mapping}, but a column has another one's name. "
            f"{remedy}"
        )
    return tuple(names)


def _differ(names: Sequence[str]) -> bool:
    """Tell whether names differ in more than case."""
    return len({name.casefold() for name in names}) == len(names)


def by_key(values: Mapping[str, T], ports: Sequence[Named], what: str) -> list[T]:
    """Return a mapping's values in the order of the ports that its keys name.

    Raises
    ------
    ShapeMismatch
        The keys are not the ports' names.
    """
    wanted = [port.name for port in ports]
    if sorted(values) != sorted(wanted):
        raise ShapeMismatch(
            f"{what}: expected the names {', '.join(map(repr, wanted)) or 'of nothing'}, got "
            f"{', '.join(map(repr, values))}."
        )
    return [values[name] for name in wanted]


def flattened(
    parts: Iterable[Any], ports: Sequence[Field], flatten: Callable[[Any], Sequence[Any]]
) -> list[Any]:
    """Return the parts of a record, such as features and labels, in the order of the ports.

    Parameters
    ----------
    parts : iterable
        What is a mapping goes by its keys, all else by position.
    ports : sequence of Field
        None to leave names alone.
    flatten : callable
        Returns what a part is made of that is not a mapping of names.

    Raises
    ------
    ShapeMismatch
        A mapping's keys are not the names of those ports whose place it has.
    """
    found: list[Any] = []
    for part in parts:
        if ports and isinstance(part, Mapping):
            here = together(ports[len(found) :], len(part))
            part = by_key(part, here, f"Field {len(found)} of a record")
            found += [leaf for value in part for leaf in flatten(value)]
        else:
            found += flatten(part)
    return found


def together(ports: Sequence[Field], count: int) -> Sequence[Field]:
    """Return the first ports that belong together, such as all inputs.

    Parameters
    ----------
    ports : sequence of Field
    count : int
        How many they are, if they do not say.
    """
    parts = [port.part for port in ports]
    if not parts or not parts[0]:
        return ports[:count]
    return list(itertools.takewhile(lambda port: port.part == parts[0], ports))
