"""Columns whose missing values are filled and whose arrays get one length, by Spark itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from pyspark.sql import functions, types

from ...common.checks import at_least_one, one_of
from ...errors import ConfigError, DataError
from . import kinds
from .kinds import Column

Value = str | float | bool

STATISTICS = {"mean": functions.mean, "median": functions.median, "mode": functions.mode}
"""What stands for a number that Spark finds."""

LONGEST = "longest"
"""What stands for a length that Spark finds."""

MISSING, MASK = "_missing", "_mask"
"""Behind the name of a column, in that of what tells about it."""


@dataclass
class Prepared:
    """Columns of a frame by the names that the user gives them, prepared where they are to be.

    Parameters
    ----------
    frame : DataFrame
    """

    frame: Any
    columns: dict[str, Column] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    """For each column that tells about another one, that one's name."""
    used: set[str] = field(default_factory=set)

    def found(self, given: Any) -> Column:
        """Return a column as it is fed; see `kinds.found`."""
        if not isinstance(given, str):
            return kinds.found(self.frame, given)
        self.used.add(given)
        return self.columns.get(given) or kinds.found(self.frame, given)

    def fill(self, given: Mapping[str, Value], indicators: Iterable[str]) -> dict[str, Value]:
        """Let values stand for nulls and NaN, and columns tell where they do.

        Returns
        -------
        dict of str to number or str
            The values, by column.

        Raises
        ------
        ConfigError
            A value is not of the column's kind, or an indicator has none.
        DataError
            A column cannot be filled, or has no value from which to find one.
        """
        # Numbers of numpy's as Python's, which tell whole ones from fractions.
        given = {name: getattr(value, "item", lambda v=value: v)() for name, value in given.items()}
        for name in given:
            _check_fill(name, given[name], kinds.found(self.frame, name))
        values = {**given, **self._statistics(given)}
        for name in indicators:
            if name not in values:
                raise ConfigError(
                    f"indicators: expected columns that have a fill value, got {name!r}. Give it "
                    f"one: fill={{{name!r}: 0.0}}."
                )
            missing = _missing(kinds.found(self.frame, name)).cast("float")
            self._add(name, name + MISSING, missing, types.FloatType())
        for name, value in values.items():
            self.columns[name] = _filled(kinds.found(self.frame, name), value)
        return values

    def pad(
        self, lengths: Mapping[str, int | str], longer: str, values: Any, masks: Iterable[str]
    ) -> dict[str, int]:
        """Give arrays one length, and let columns tell which positions are real.

        Returns
        -------
        dict of str to int
            The lengths, by column.

        Raises
        ------
        ConfigError
            `longer` is neither ``"bad"`` nor ``"cut"``, a length is below 1, or there is none for
            a mask or a value.
        DataError
            A column has no flat arrays, or none of them has a value.
        """
        one_of("longer", longer, ("bad", "cut"))
        if not isinstance(lengths, Mapping):
            raise ConfigError(
                f"pad: expected a length for each column, such as pad={{'tokens': {lengths!r}}}, "
                f"got {lengths!r} alone."
            )
        for name in lengths:
            kinds.check_flat(kinds.found(self.frame, name))
        longest = self._longest([name for name, n in lengths.items() if n == LONGEST])
        known = {
            name: at_least_one(f"pad: {name}", longest.get(name, n)) for name, n in lengths.items()
        }
        by_name = values if isinstance(values, Mapping) else dict.fromkeys(known, values)
        for what, names in (("masks", masks), ("pad_value", by_name)):
            for name in set(names) - known.keys():
                raise ConfigError(
                    f"{what}: expected columns that are padded, got {name!r}. Give it a length: "
                    f"pad={{{name!r}: 128}}."
                )
        for name, length in known.items():
            column = kinds.found(self.frame, name)
            if name in masks:
                self._add(name, name + MASK, _mask(column, length), types.ArrayType(_BOOLEAN))
            self.columns[name] = _padded(column, length, longer == "cut", by_name.get(name))
        return known

    def with_added(self, features: Any) -> Any:
        """Return features with what tells about them, unless they have it: last in their list."""
        if not isinstance(features, Mapping):
            return self._longer(_listed(features), _listed(features)) if self.added else features
        have = [name for group in features.values() for name in _listed(group)]
        return {
            port: group if isinstance(group, str) else self._longer(_listed(group), have)
            for port, group in features.items()
        }

    def _longer(self, group: list[Any], have: list[Any]) -> list[Any]:
        # An expression is not equal to anything: it makes an expression of it.
        names, known = ([n for n in g if isinstance(n, str)] for g in (group, have))
        more = [new for new, of in self.added.items() if of in names and new not in known]
        return [*group, *more]

    def check_used(self, what: str, names: Iterable[str]) -> None:
        """Refuse names of columns that are not fed."""
        for name in names:
            if name not in self.used:
                raise DataError(
                    f"{what}: expected names of columns as they are fed "
                    f"({', '.join(sorted(self.used))}), got {name!r}."
                )

    def _add(self, of: str, name: str, value: Any, kind: Any) -> None:
        if name in self.frame.columns:
            raise DataError(f"The DataFrame has a column {name!r} already: rename it.")
        self.added[name] = of
        self.columns[name] = Column(name, value, kind)

    def _statistics(self, given: Mapping[str, Value]) -> dict[str, Value]:
        wanted = {
            name: (str(how), kinds.found(self.frame, name))
            for name, how in given.items()
            if isinstance(how, str)
        }
        wanted = {name: pair for name, pair in wanted.items() if not pair[1].is_text}
        return self._computed(
            "fill",
            {
                name: STATISTICS[how](functions.when(~_missing(column), column.value))
                for name, (how, column) in wanted.items()
            },
        )

    def _longest(self, names: Sequence[str]) -> dict[str, int]:
        columns = {name: kinds.found(self.frame, name).value for name in names}
        return self._computed(
            "pad", {name: functions.max(functions.size(value)) for name, value in columns.items()}
        )

    def _computed(self, option: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a Spark job finds for each column."""
        if not wanted:
            return {}
        if self.frame.isStreaming:
            raise DataError(
                f"{option}: expected numbers for a streaming DataFrame, got none for "
                f"{', '.join(wanted)}. Give those of the training data, which "
                f"tos.columns(...).{option} has."
            )
        # By number: Spark finds names in upper and lower case alike.
        found = self.frame.select(*(v.alias(f"c{i}") for i, v in enumerate(wanted.values())))
        values = dict(zip(wanted, found.first(), strict=True))
        for name, value in values.items():
            if value is None or (option == "pad" and value < 1):
                raise DataError(f"{option}: column {name!r} has no value; expected at least one.")
        return values


_BOOLEAN = types.BooleanType()


def _check_fill(name: str, value: Any, column: Column) -> None:
    if kinds.depth_of(column.kind) or kinds.is_bytes(column.kind):
        raise DataError(
            f"fill: expected a column of numbers, booleans or text, got {name!r}, which is "
            f"{column.kind.simpleString()}."
        )
    if column.is_text:
        fits, wanted = isinstance(value, str), "text"
    elif isinstance(column.kind, types.BooleanType):
        fits, wanted = isinstance(value, Real) or value == "mode", "True, False or mode"
    else:
        fits = isinstance(value, Real) or value in STATISTICS
        wanted = f"a number, or one of {', '.join(STATISTICS)}"
    if not fits:
        raise ConfigError(f"fill: expected {wanted} for column {name!r}, got {value!r}.")


def _missing(column: Column) -> Any:
    is_null = column.value.isNull()
    if isinstance(column.kind, types.FloatType | types.DoubleType):
        return is_null | functions.isnan(column.value)
    return is_null


def _filled(column: Column, value: Value) -> Column:
    whole = isinstance(column.kind, types.IntegralType)
    if whole and isinstance(value, float) and not value.is_integer():
        column = replace(column, value=column.value.cast("double"), kind=types.DoubleType())
    stands = functions.lit(value).cast(column.kind)
    return replace(column, value=functions.when(_missing(column), stands).otherwise(column.value))


def _padded(column: Column, length: int, cut: bool, value: Any) -> Column:
    array, kind = column.value, column.kind.elementType
    if cut:
        array = functions.slice(array, 1, length)
    nothing = value if value is not None else "" if column.is_text else 0
    size = functions.size(array)
    more = functions.array_repeat(functions.lit(nothing).cast(kind), functions.lit(length) - size)
    filled = functions.when(size < length, functions.concat(array, more)).otherwise(array)
    return replace(column, value=filled)


def _mask(column: Column, length: int) -> Any:
    size = functions.size(column.value)
    places = functions.sequence(functions.lit(1), functions.lit(length))
    mask = functions.transform(places, lambda place: place <= size)
    return functions.when(column.value.isNotNull(), mask)


def _listed(group: Any) -> list[Any]:
    several = isinstance(group, Sequence) and not isinstance(group, str)
    return list(group) if several else [group]
