"""Which columns a program takes by their names, if the user does not say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..blocks.naming import Field, Named
from ..errors import DataError

FEATURES, LABEL = "features", "label"
"""What Spark ML calls the columns of vectors and of labels, unless it is told otherwise."""


class Chosen(NamedTuple):
    """Columns of features and labels."""

    features: Any
    label: Any


def by_names(
    columns: Sequence[str], is_number: Callable[[str], bool], label: Any, ports: Sequence[Field]
) -> Chosen:
    """Return the columns that have the names of inputs and labels.

    An only label that none is named after is the column ``label``. For an only input that none is
    named after, all are taken that are no labels, if these are known and all others are numbers;
    else the column ``features``, as Spark ML's `VectorAssembler` makes it.

    Parameters
    ----------
    columns : sequence of str
        Names of all.
    is_number : callable
        Whether a column has one number in each row.
    label : str, sequence of str, mapping, or None
        Columns that are labels, where somebody says so.
    ports : sequence of Field

    Raises
    ------
    DataError
        Columns have other names.
    """
    inputs = [port.name for port in ports if port.part == "inputs"]
    wanted = [port.name for port in ports if port.part == "labels"]
    known = set(columns)
    label = label if label is not None else _labels(wanted, columns)
    if inputs and (label is not None or not wanted):
        if known.issuperset(spelled := _as_spelled(inputs, columns)):
            return Chosen(spelled, label)
        taken = _as_spelled(names_of(label), columns)
        others = [name for name in columns if name not in taken]
        if len(inputs) == 1 and others and all(map(is_number, others)):
            return Chosen(others, label)
        (vector,) = _as_spelled([FEATURES], columns)
        if len(inputs) == 1 and vector in others:
            return Chosen([vector], label)
    names = f" Or name the columns as the model does: {', '.join(inputs + wanted)}."
    called = f" No column is called {_or([*wanted, LABEL])}, for the labels."
    missing = called if len(wanted) == 1 else ""
    raise DataError(
        "Say which columns of the DataFrame to take: features=[...], label=..., or "
        "tos.columns(df, features=[...], label=...) for more than that. It has "
        f"{', '.join(columns)}." + (missing if label is None else "") + (names if inputs else "")
    )


def _labels(wanted: Sequence[str], columns: Sequence[str]) -> list[str] | None:
    """Return the columns of labels, if the user does not say which; None if there are none."""
    names = [wanted, [LABEL]] if len(wanted) == 1 else [wanted] if wanted else []
    spelled = (_as_spelled(group, columns) for group in names)
    return next((found for found in spelled if set(columns).issuperset(found)), None)


def _or(names: Sequence[str]) -> str:
    return " or ".join(map(repr, dict.fromkeys(names)))


def _as_spelled(names: Sequence[Any], columns: Sequence[str]) -> list[str]:
    """Return names as the columns have them: Spark finds one in upper and lower case alike."""
    spelled = {column.casefold(): column for column in columns}
    return [
        str(name) if name in columns else spelled.get(str(name).casefold(), str(name))
        for name in names
    ]


def has_labels(columns: Sequence[str], features: Any, label: Any, ports: Sequence[Field]) -> bool:
    """Return whether there are labels among columns; parameters are as for `by_names`."""
    if features is not None or label is not None:
        return label is not None
    return _labels([port.name for port in ports if port.part == "labels"], columns) is not None


def names_of(group: Any) -> tuple[Any, ...]:
    """Return the names in a group of columns, such as ``features``, in its order."""
    if group is None:
        return ()
    if isinstance(group, str) or not isinstance(group, Sequence):
        values = getattr(group, "values", None)
        if not callable(values):
            return (group,)
        return tuple(name for one in values() for name in names_of(one))
    return tuple(group)


class Input(NamedTuple):
    """An input, which says that it is one."""

    name: str
    shape: Any
    part: str = "inputs"


def as_inputs(ports: Sequence[Named]) -> list[Input]:
    """Return what a model predicts from as ports that say what they are."""
    return [Input(port.name, getattr(port, "shape", None)) for port in ports]
