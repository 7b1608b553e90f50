"""Limits of the fields of messages; `messages` says which limit each field has.

The sender cuts its texts to fit, so that an honest worker's words always get through. The receiver
refuses what does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from ..readable import LONGEST_NAME, is_readable, readable


class Limit(Protocol):
    """Bounds the values of a field."""

    def __str__(self) -> str:
        """Return the limit in words, to follow "expected"."""
        ...

    def holds(self, value: Any) -> bool:
        """Return whether a value fits.

        Parameters
        ----------
        value : object
            Of the field's type.
        """
        ...

    def fit(self, value: Any) -> Any:
        """Return what to send of a value.

        Parameters
        ----------
        value : object
            Of the field's type.

        Returns
        -------
        object
            The value, cut where that makes it fit.
        """
        ...


@dataclass(frozen=True)
class Span:
    """A number from `low` to `high`; NaN is none."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"a number from {self.low} to {self.high}"

    def holds(self, value: float | None) -> bool:
        """See `Limit.holds`."""
        return value is None or self.low <= value <= self.high

    def fit(self, value: Any) -> Any:
        """See `Limit.fit`."""
        return value


@dataclass(frozen=True)
class Chars:
    """A readable text of at most so many characters."""

    most: int

    def __str__(self) -> str:
        return f"at most {self.most} characters of UTF-8 without control characters"

    def holds(self, value: str) -> bool:
        """See `Limit.holds`."""
        return len(value) <= self.most and is_readable(value)

    def fit(self, value: Any) -> Any:
        """See `Limit.fit`."""
        return readable(value, self.most) if isinstance(value, str) else value


@dataclass(frozen=True)
class Items:
    """A list of at most `most` items, each within a limit; all of them different if `distinct`."""

    most: int
    each: Limit | None = None
    distinct: bool = False

    def __str__(self) -> str:
        different = "different " if self.distinct else ""
        each = "" if self.each is None else f", each {self.each}"
        return f"at most {self.most} {different}items{each}"

    def holds(self, value: Sequence[Any]) -> bool:
        """See `Limit.holds`."""
        if len(value) > self.most or (self.distinct and len(set(value)) < len(value)):
            return False
        return self.each is None or all(map(self.each.holds, value))

    def fit(self, value: Any) -> Any:
        """See `Limit.fit`."""
        if self.each is None or not isinstance(value, list):
            return value
        # Lines may be left out; of names and numbers each counts.
        kept = value[: self.most] if isinstance(self.each, Chars) and not self.distinct else value
        return [self.each.fit(item) for item in kept]


MOST = 1 << 40
"""The largest count: the sum of millions of such numbers has 64 bits."""

MOST_METRICS = 256

_COUNT = Span(0, MOST)
_NAME = Chars(LONGEST_NAME)

Count = Annotated[int, _COUNT]
"""How many, or which one, from 0."""
Maybe = Annotated[int | None, _COUNT]
Token = Annotated[int, Span(0, 2**63 - 1)]
"""A number that Spark, or the system, gives."""
Seconds = Annotated[float, Span(0, 1e9)]
Cores = Annotated[float, Span(0, 1e9)]
"""How many are busy."""
Name = Annotated[str, _NAME]
Names = Annotated[list[str], Items(MOST_METRICS, _NAME, distinct=True)]
Hosts = Annotated[list[str], Items(1000, _NAME)]
Short = Annotated[str, Chars(500)]
Text = Annotated[str, Chars(32_768)]
Lines = Annotated[list[str], Items(64, Chars(600))]
Pair = Annotated[list[int], Items(2, _COUNT)]
Shape = Annotated[list[int], Items(64, _COUNT)]
Labels = Annotated[list[int], Items(1000, Span(-(2**63), 2**63 - 1))]
Counts = Annotated[list[int], Items(1000, _COUNT)]
Metrics = Annotated[tuple[float, ...], Items(MOST_METRICS)]
