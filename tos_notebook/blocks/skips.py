"""Counting the rows that are left out because they cannot be trained on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..common.checks import RAISE_OR_SKIP
from ..errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class Advice:
    """How to deal with bad rows, in the words of what the user called.

    Parameters
    ----------
    skip : str
        Leaves them out.
    fill : str
        Fills arrays of a column, which is formatted into it, up to one length.
    """

    skip: str = 'tos.columns(..., on_bad="skip")'
    fill: str = 'tos.columns(..., pad={{{!r}: "longest"}})'


ADVICE = Advice()


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rows of one partition that were left out because of one column.

    Parameters
    ----------
    partition : int
        Of the data as they came.
    column : str
    rows : int
        How many; a row counts once, for the first column that is bad.
    first : int
        The first of them, from 0 within the partition; within its file, for records of files.
    reason : str
        What is wrong with that one.
    """

    partition: int
    column: str
    rows: int
    first: int
    reason: str


def count(skipped: dict[str, Skipped], partition: int, column: str, row: int, reason: str) -> None:
    """Count one more row that is left out, by column."""
    known = skipped.get(column) or Skipped(partition, column, 0, row, reason)
    skipped[column] = Skipped(partition, column, known.rows + 1, known.first, known.reason)


def limit_of(on_bad: Any) -> int | None:
    """Return how many bad rows may be left out: 0 for ``"raise"``, None for any number.

    Raises
    ------
    ConfigError
        It is neither ``"raise"``, ``"skip"`` nor such as ``"skip:100"``.
    """
    policy, _, limit = str(on_bad).partition(":")
    if on_bad in RAISE_OR_SKIP:
        return 0 if on_bad == "raise" else None
    if policy != "skip" or not limit.isdecimal() or int(limit) < 1:
        raise ConfigError(
            f"on_bad: expected one of {', '.join(RAISE_OR_SKIP)}, or skip:100 for at most 100 "
            f"rows; got {on_bad!r}."
        )
    return int(limit)


def check_limit(found: Iterable[Skipped], limit: int | None) -> None:
    """Refuse to leave out more rows than may be.

    Raises
    ------
    DataError
        There are more; the first of them are named.
    """
    known = list(found)
    rows = sum(skipped.rows for skipped in known)
    if limit is not None and rows > limit:
        first = known[0]
        raise DataError(
            f"Expected at most {limit} bad rows, got at least {rows}: such as column "
            f"{first.column!r}, partition {first.partition}, row {first.first}: {first.reason}. "
            f'Clean the data, or allow more: on_bad="skip:{10 * rows}".'
        )


Found = Mapping[tuple[int, str], Skipped]
"""By partition and column, so that a partition that is read again counts once."""


class SkipCounter:
    """Collects what the tasks of Spark's jobs have left out; known when a task has ended.

    Parameters
    ----------
    accumulator : Accumulator of Found, optional
        Spark's; without one nothing is ever left out.
    limit : int, optional
        How many rows may be left out.
    """

    def __init__(self, accumulator: Any = None, limit: int | None = None) -> None:
        self._accumulator = accumulator
        self._limit = limit

    @property
    def found(self) -> tuple[Skipped, ...]:
        """All that was left out so far, by partition and column."""
        if self._accumulator is None:
            return ()
        found: Found = self._accumulator.value
        return tuple(found[key] for key in sorted(found))

    def check(self, skipped: Mapping[str, Skipped] | None = None) -> None:
        """Refuse too many: of a partition in its task, or of all that is known; see `check_limit`.

        Parameters
        ----------
        skipped : mapping of str to Skipped, optional
            The partition's, by column.
        """
        check_limit(self.found if skipped is None else skipped.values(), self._limit)

    def add(self, skipped: Mapping[str, Skipped]) -> None:
        """Note, in a task, what one partition leaves out, by column."""
        self._accumulator.add({(s.partition, s.column): s for s in skipped.values()})
