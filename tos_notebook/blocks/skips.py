"""Counting the rows that are left out because they cannot be trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
    fill: str = "tos.columns(..., pad={{{!r}: n}})"


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


Found = Mapping[tuple[int, str], Skipped]
"""By partition and column, so that a partition that is read again counts once."""


class SkipCounter:
    """Collects what the tasks of Spark's jobs have left out; known when a task has ended.

    Parameters
    ----------
    accumulator : Accumulator of Found, optional
        Spark's; without one nothing is ever left out.
    """

    def __init__(self, accumulator: Any = None) -> None:
        self._accumulator = accumulator

    @property
    def found(self) -> tuple[Skipped, ...]:
        """All that was left out so far, by partition and column."""
        if self._accumulator is None:
            return ()
        found: Found = self._accumulator.value
        return tuple(found[key] for key in sorted(found))

    def add(self, skipped: Mapping[str, Skipped]) -> None:
        """Note, in a task, what one partition leaves out, by column."""
        self._accumulator.add({(s.partition, s.column): s for s in skipped.values()})
